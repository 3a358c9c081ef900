//go:build !linux || (!amd64 && !arm64)

package starlark

// confine does nothing where there is no filter of system calls.
func confine() error { return nil }

func unconfined(error) bool { return true }
