//go:build !unix

package host_test

import "testing"

// guarded is n bytes; this system has no way to guard them.
func guarded(t *testing.T, n int) []byte {
	t.Helper()
	return make([]byte, n)
}
