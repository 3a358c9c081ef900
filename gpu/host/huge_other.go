//go:build !linux

package host

// hugePages is for systems that take such advice.
func hugePages[T any](x []T) []T { return x }
