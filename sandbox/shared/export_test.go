package shared

// Len is how many names are known.
func (e *Environments) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.open)
}
