//go:build !linux

package host

// physical is 0: not known.
func physical() int64 { return 0 }
