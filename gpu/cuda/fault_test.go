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
		{"a driver that counts none", func(f *faulty) { f.fail("cuDeviceGetCount", 0, 100) }, 0, "CUDA_ERROR_NO_DEVICE: count the cards", true},
		{"the toolkit's stub", func(f *faulty) { f.fail("cuInit", 0, 34) }, 0, "CUDA_ERROR_STUB_LIBRARY: initialise the driver; this libcuda is the toolkit's stub, which programs are linked with: take its folder out of LD_LIBRARY_PATH", true},
		{"two drivers", func(f *faulty) { f.fail("cuInit", 0, 803) }, 0, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: initialise the driver; the kernel module and libcuda.so.1 are of different versions: reboot, or install matching ones", false},
		{"an old driver", func(f *faulty) { f.card(9, 0, 11080, 1<<30, 1) }, 0, "the driver is for CUDA 11.8: the kernels need 12.0 or later, update the driver", false},
		{"an old card", func(f *faulty) { f.card(7, 5, 12040, 1<<30, 1) }, 0, "CPU emulator has compute capability 7.5: the kernels need 8.0 or later", false},
		{"a card that is not there", func(*faulty) {}, 3, "card 3: this machine has 1, counted from 0", false},
		{"a context that is not to be had", func(f *faulty) { f.fail("cuDevicePrimaryCtxRetain", 0, 2) }, 0, "CUDA_ERROR_OUT_OF_MEMORY: take the card's context", false},
		{"kernels that the driver refuses", func(f *faulty) { f.fail("cuModuleLoadDataEx", 1, 222) }, 0, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION: load the kernels of attend_backward.ptx: ptxas application ptx input, line 9; fatal   : the emulator was told to refuse; ptxas fatal   : Ptx assembly aborted due to errors; the kernels need", false},
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
			f.gaveBack()
		})
	}
}

// Options without a sense are refused, all at once, before any driver is looked for.
func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	const want = "cuda device: products are in float32 or bfloat16\nthe mode is exact or fast\nthe card's number must not be negative\nmemory must not be negative"
	if _, err := cuda.New(cuda.Options{Products: gpu.F16, Mode: 2, Number: -1, Memory: -1}); err == nil || err.Error() != want {
		t.Errorf("New = %v, want %q", err, want)
	}
}

// A device that is closed has given back all that it took of the driver, the card's context at last.
func TestCloseGivesBack(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	d, err := f.open(cuda.Options{Mode: gpu.Fast})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		doubled(t, d, make([]float32, 100), 20)
	}
	for _, kind := range driverKinds() {
		if f.held(kind) == 0 {
			t.Errorf("a device that works holds no %s", kind)
		}
	}
	d.Close()
	f.gaveBack()
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

// What is free of a card is what others, such as this program's own device, have left.
func TestFreeMemory(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	f.card(9, 0, 12040, 1<<30, 2)
	d, err := f.open(cuda.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Alloc(gpu.F32, 64<<20); err != nil {
		t.Fatal(err)
	}
	if free, err := cuda.FreeMemory(1, f.folder); err != nil || free != 3<<28 {
		t.Errorf("FreeMemory = %d, %v, want %d", free, err, 3<<28)
	}
	if _, err := cuda.FreeMemory(2, f.folder); err == nil || !strings.Contains(err.Error(), "card 2: this machine has 2, counted from 0") {
		t.Errorf("FreeMemory of a card that is not there: %v", err)
	}
	d.Close()
	f.gaveBack()
}

// A weight's rounded copy that a failed list was to write is made again.
func TestRoundedWeightsAfterFailure(t *testing.T) {
	t.Parallel()
	f := newFaulty(t)
	d, err := f.open(cuda.Options{Products: gpu.BF16})
	if err != nil {
		t.Fatal(err)
	}
	upload := func(x float32) gpu.Buffer {
		b, err := d.Alloc(gpu.F32, 1)
		if err != nil {
			t.Fatal(err)
		}
		d.Upload(b, []float32{x})
		return b
	}
	y, x, w := upload(0), upload(3), d.NewWeight(upload(5), 1, 1)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	f.fail("cuLaunchKernel", 0, 1)
	d.MatMul(y, x, w)
	if err := d.Sync(); err == nil {
		t.Fatal("the launch did not fail")
	}
	d.MatMul(y, x, w)
	if got := values(t, d, y)[0]; got != 15 {
		t.Errorf("3·5 = %v after a failure", got)
	}
}

// Where there is no memory to check a product of cuBLASLt, it is not used: the kernels of exact
// mode multiply, and the caller is told, once.
func TestUncheckedProducts(t *testing.T) {
	t.Parallel()
	const n, k, rows = 64, 4000, 8
	var told []string
	o := cuda.Options{Mode: gpu.Fast, Products: gpu.BF16, Memory: 32<<20 + 3e6, Warn: func(text string) { told = append(told, text) }}
	d := open(t, o) // 32 MiB are cuBLASLt's
	roundedProducts(t, d, gpu.F32, rows, n, k)
	if len(told) != 1 || !strings.Contains(told[0], "cuBLASLt's products are checked before they are used. For those of (4000,8,64), and maybe others, there is no memory") ||
		!strings.Contains(told[0], "lower the batch") {
		t.Errorf("told %q", told)
	}
	o.Memory = 0
	told = nil
	roundedProducts(t, open(t, o), gpu.F32, rows, n, k)
	if len(told) != 0 {
		t.Errorf("with enough memory told %q", told)
	}
}

// Where there is no memory to round a factor of a product, or a weight was given none for its copy, nothing is
// multiplied: no kernel takes one type for another.
func TestProductsWithoutMemory(t *testing.T) {
	t.Parallel()
	const n, k, rows = 64, 128, 40
	d := open(t, cuda.Options{Products: gpu.BF16, Memory: 1 << 18})
	alloc := func(kind gpu.DType, n int) gpu.Buffer {
		b, err := d.Alloc(kind, n)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	half, single, halves, wide := alloc(gpu.BF16, n*k), alloc(gpu.F32, rows*k), alloc(gpu.BF16, rows*k), alloc(gpu.F16, n*k)
	all := alloc(gpu.BF16, 2*rows*n)
	alloc(gpu.F32, int(d.Idle()/4))
	y, w := all.Slice(0, rows*n), d.NewWeight(half, n, k)
	for want, multiply := range map[string]func(){
		"scratch":                         func() { d.MatMul(y, single, w) },
		"scratch: CUDA_ERROR_OUT_OF_MEMO": func() { d.MatMulBackX(y, single.Slice(0, rows*n), d.NewWeight(half.Slice(0, n*n), n, n), true) },
		"MatMul: a buffer of float16, where bfloat16 is wanted": func() {
			w := d.NewWeight(wide, n, k)
			if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_OUT_OF_MEMORY") {
				t.Errorf("NewWeight without memory: %v", err)
			}
			d.MatMul(y, halves, w)
		},
	} {
		multiply()
		if waiting := d.Waiting(); len(waiting) > 0 {
			t.Errorf("launched are %v", waiting)
		}
		if err := d.Sync(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
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
