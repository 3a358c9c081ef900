package cuda_test

import (
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
	"understudy/gpu/devicetest"
)

// TestOperations runs the tests of all devices on the emulated card.
func TestOperations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		library emulator.Library
		options cuda.Options
	}{
		{"ascending", emulator.Ascending, cuda.Options{}},
		{"bf16, ascending", emulator.Ascending, cuda.Options{Products: gpu.BF16}},
		{"fast, descending", emulator.Descending, cuda.Options{Mode: gpu.Fast}},
		{"fast in bf16, descending", emulator.Descending, cuda.Options{Mode: gpu.Fast, Products: gpu.BF16}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.options.Libraries = emulator.Folders(t, c.library)
			pair := func(t *testing.T) *devicetest.Pair {
				t.Helper()
				p := devicetest.NewPair(t, open(t, c.options))
				return p
			}
			devicetest.Run(t, pair)
			devicetest.Unseen(t, pair)
		})
	}
}
