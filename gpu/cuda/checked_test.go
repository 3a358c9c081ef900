package cuda_test

import (
	"fmt"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
	"understudy/gpu/devicetest"
)

// TestChecked runs the tests of all devices, with products and attention in float32 and on tensor
// cores, where each access to memory is watched: no kernel races with itself, reads shared memory
// that nobody wrote, or leaves the card's memory.
func TestChecked(t *testing.T) {
	t.Parallel()
	folder := emulator.Folders(t, emulator.Checked)
	for name, products := range map[string]gpu.DType{"float32": gpu.F32, "bfloat16": gpu.BF16} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := func(t *testing.T) *devicetest.Pair {
				t.Helper()
				p := devicetest.NewPair(t, open(t, cuda.Options{Libraries: folder, Products: products}))
				return p
			}
			devicetest.Run(t, pair)
			if products == gpu.BF16 { // the kernels of float32 do nothing of their own for it
				devicetest.Unseen(t, pair)
			}
		})
	}
	for _, s := range [][3]int{{1, 40, 65}, {13, 33, 48}, {30, 64, 40}, {70, 72, 96}} {
		t.Run(fmt.Sprint("products in BF16 ", s), func(t *testing.T) {
			t.Parallel()
			roundedProducts(t, open(t, cuda.Options{Libraries: folder, Products: gpu.BF16}), gpu.BF16, s[0], s[1], s[2])
		})
	}
}
