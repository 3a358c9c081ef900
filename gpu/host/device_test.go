package host_test

import (
	"fmt"
	"testing"

	"understudy/gpu/devicetest"
	"understudy/gpu/host"
)

// TestOperations runs the tests of all devices for each kind of kernels of this machine, on one
// thread and on three.
func TestOperations(t *testing.T) {
	t.Parallel()
	for _, kernels := range host.Kernels() {
		for _, threads := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", kernels, threads), func(t *testing.T) {
				t.Parallel()
				pair := func(t *testing.T) *devicetest.Pair {
					t.Helper()
					return newPair(t, kernels, threads)
				}
				devicetest.Run(t, pair)
				devicetest.Unseen(t, pair)
			})
		}
	}
}

// newPair is the reference and the host with one kind of kernels, whose buffers lie just before
// memory that may not be touched.
func newPair(t *testing.T, kernels string, threads int) *devicetest.Pair {
	t.Helper()
	d, err := host.New(host.Options{Kernels: kernels, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	p := devicetest.NewPair(t, d)
	p.Bytes = func(n int) []byte { return guarded(t, n) }
	return p
}
