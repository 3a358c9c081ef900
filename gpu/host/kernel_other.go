//go:build !amd64

package host

// available lists the instruction sets that this machine has.
func available() []kernels { return []kernels{goKernels()} }
