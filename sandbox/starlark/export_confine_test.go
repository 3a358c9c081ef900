package starlark

// Confine is what a child does to itself.
func Confine() error { return confine() }

// ChildPID is the process that runs e's domain.
func ChildPID(e *ChildEnvironment) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.child.cmd.Process.Pid
}
