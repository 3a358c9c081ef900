package cuda_test

import (
	"errors"
	"testing"
	"time"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/cuda/emulator"
)

// What check.sh and bench.sh begin with: the cards of this machine, a line each.
func TestThisCard(t *testing.T) {
	t.Parallel()
	cards, err := cuda.Cards(emulator.Folders(t, emulator.Ascending)...)
	if err == nil && len(cards) == 0 {
		err = errors.New("the driver counts no card")
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range cards {
		t.Logf("card %d: %s, %.1f GiB, compute capability %d.%d, %d multiprocessors, driver for CUDA %d.%d",
			i, c.Name, float64(c.Memory)/(1<<30), c.Major, c.Minor, c.Processors, c.Driver/1000, c.Driver%1000/10)
		if err := c.Usable(); err != nil {
			t.Error(err)
		}
	}
}

// A card takes the kernels, in the time that is told, and cuBLASLt is found for fast mode.
func TestDeviceOpens(t *testing.T) {
	t.Parallel()
	for _, mode := range []gpu.Mode{gpu.Exact, gpu.Fast} {
		t.Run(mode.String(), func(t *testing.T) {
			began := time.Now()
			d := open(t, cuda.Options{Mode: mode, Products: gpu.BF16})
			t.Logf("%s opened in %s", d.Name(), time.Since(began).Round(time.Millisecond))
		})
	}
}
