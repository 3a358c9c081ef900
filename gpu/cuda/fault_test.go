package cuda_test

import (
	"errors"
	"strings"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
)

// What a user meets who has no card, an old one, or an old driver: an error that says what to do.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(f *faulty)
		number int
		want   string
		none   bool // it is ErrNoDevice
	}{
		{"no card", func(f *faulty) { f.card(9, 0, 12040, 1<<30, 0) }, 0, "the driver finds no card", true},
		{"a driver without a card", func(f *faulty) { f.fail("cuInit", 0, 100) }, 0, "CUDA_ERROR_NO_DEVICE: initialise the driver", true},
		{"two drivers", func(f *faulty) { f.fail("cuInit", 0, 803) }, 0, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: initialise the driver; the kernel module and libcuda.so.1 are of different versions: reboot, or install matching ones", false},
		{"an old driver", func(f *faulty) { f.card(9, 0, 11080, 1<<30, 1) }, 0, "the driver is for CUDA 11.8: the kernels need 12.0 or later, update the driver", false},
		{"an old card", func(f *faulty) { f.card(7, 5, 12040, 1<<30, 1) }, 0, "CPU emulator has compute capability 7.5: the kernels need 8.0 or later", false},
		{"a card that is not there", func(*faulty) {}, 3, "card 3: this machine has 1, counted from 0", false},
		{"kernels that the driver refuses", func(f *faulty) { f.fail("cuModuleLoadDataEx", 1, 222) }, 0, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION: load the kernels of ", false},
		{"no pinned memory", func(f *faulty) { f.fail("cuMemHostAlloc", 0, 2) }, 0, "CUDA_ERROR_OUT_OF_MEMORY: pin 8.0 MiB of the host", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t)
			c.change(f)
			d, err := f.open(cuda.Options{Number: c.number})
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, cuda.ErrNoDevice) != c.none {
				t.Errorf("New = %v, %v; want an error with %q; it is ErrNoDevice: %t", d, err, c.want, c.none)
			}
		})
	}
}

// TestCards: what version --devices prints.
func TestCards(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	f.card(7, 5, 12020, 3<<30, 2)
	cards, err := cuda.Cards(f.folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(cards) != 2 || cards[1].Name != "CPU emulator" || cards[1].Memory != 3<<30 || cards[1].Major != 7 || cards[1].Minor != 5 || cards[1].Driver != 12020 {
		t.Errorf("cards = %+v", cards)
	}
	if err := cards[0].Usable(); err == nil {
		t.Error("a card of compute capability 7.5 can be used")
	}
}

// Memory that is not there is refused with how much there is, and can be had again once it is
// free; what was idle in the arena is given back for it.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	f.card(9, 0, 12040, 200<<20, 1)
	d, err := f.open(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	small, err := d.Alloc(gpu.F32, 1000)
	if err != nil {
		t.Fatal(err)
	}
	const want = "CUDA_ERROR_OUT_OF_MEMORY: allocate 190.7 MiB: 136.0 MiB of the card's 200.0 MiB are free; lower the batch"
	if _, err := d.Alloc(gpu.F32, 50e6); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Alloc = %v, want %q", err, want)
	}
	big, err := d.Alloc(gpu.F32, 30e6)
	if err != nil {
		t.Fatal(err)
	}
	d.Free(small)
	d.Free(big)
	if _, err := d.Alloc(gpu.F32, 50e6); err != nil {
		t.Errorf("after Free: %v", err)
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}

// A device takes no more than it was given.
func TestMemoryOption(t *testing.T) {
	t.Parallel()
	d := open(t, cuda.Options{Memory: 1 << 20})
	if _, err := d.Alloc(gpu.F32, 1<<18); err != nil {
		t.Errorf("all of the memory: %v", err)
	}
	const want = "cuda device: CUDA_ERROR_OUT_OF_MEMORY: allocate 256 bytes: 1.0 MiB of the 1.0 MiB that this device was given are in use"
	if _, err := d.Alloc(gpu.F32, 1); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("Alloc = %v, want %q", err, want)
	}
}

// A failure of one launch is told by the next wait, once; a lost card for ever.
func TestFailuresAreTold(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	d, err := f.open(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := d.Alloc(gpu.F32, 100)
	if err != nil {
		t.Fatal(err)
	}
	f.fail("cuLaunchKernel", 0, 1)
	d.Add(x, x, x)
	d.Add(x, x, x)
	if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_INVALID_VALUE: launch add_f32") {
		t.Errorf("Sync = %v", err)
	}
	if err := d.Sync(); err != nil {
		t.Errorf("Sync after the failure was told: %v", err)
	}
	f.fail("cuLaunchKernel", 0, 700)
	d.Add(x, x, x)
	for range 2 {
		const want = "CUDA_ERROR_ILLEGAL_ADDRESS: launch add_f32; the device is lost to this process: start again from the last checkpoint"
		if err := d.Sync(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Sync of a lost device = %v, want %q", err, want)
		}
	}
	if _, err := d.SquareSum(x); err == nil {
		t.Error("a lost device gave a sum")
	}
}
