package lockfile

// FD is the descriptor that holds the lock.
func (l *Lock) FD() int { return int(l.file.Fd()) }
