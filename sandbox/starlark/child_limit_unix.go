//go:build unix

package starlark

import (
	"fmt"
	"syscall"
)

// limitData bounds the process's data segment: beyond it the runtime dies with
// "out of memory". RLIMIT_AS would kill the runtime itself, and GOMEMLIMIT kills
// nothing (facts of the sandbox, section 2).
func limitData(limit uint64) error {
	l := syscall.Rlimit{Cur: limit, Max: limit}
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &l); err != nil {
		return fmt.Errorf("limit memory to %d bytes: %w", limit, err)
	}
	return nil
}
