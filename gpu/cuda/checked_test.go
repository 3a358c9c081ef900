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
// that nobody wrote, or leaves the card's memory; and so a step of a training and one of rollouts.
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
	for name, products := range map[string]gpu.DType{"float32": gpu.F32, "bfloat16": gpu.BF16} {
		t.Run("model in "+name, func(t *testing.T) {
			t.Parallel()
			d := open(t, cuda.Options{Libraries: folder, Products: products})
			for _, normed := range []bool{true, false} {
				preparedHeads(t, d, gpu.Heads{H: 3, G: 1, D: 70}, normed, true, func() {})
			}
			m, err := gpu.NewRandom(d, small(), 1)
			if err != nil {
				t.Fatal(err)
			}
			newRun(t, m).steps(t, 1)
			r, err := m.NewRunner(gpu.RunnerConfig{Pages: 8, Rows: 5, Wanted: 5, Sequences: 4, Context: 16})
			if err != nil {
				t.Fatal(err)
			}
			s := &gpu.Step{
				Tokens: []int32{1, 2, 3, 4, 5}, Positions: []int32{0, 1, 2, 0, 1}, Slots: []int32{0, 1, 2, 16, 17}, Sequences: []int32{0, 0, 0, 1, 1},
				Tables: [][]int32{{0}, {1}}, Wanted: []int32{2, 4},
			}
			if err := r.Step(s, &gpu.Logits{}); err != nil {
				t.Fatal(err)
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
