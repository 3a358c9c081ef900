package host_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"understudy/gpu"
	"understudy/gpu/host"
	"understudy/gpu/reference"
)

// pair is the same buffers on two devices: the reference, and the host with one kind of
// kernels. The host's lie just before memory that may not be touched.
type pair struct {
	t    *testing.T
	rand *rand.Rand
	ref  gpu.Device
	host *host.Device
}

type buffers struct{ ref, host gpu.Buffer }

// eachDevice runs f for each kind of kernels of this machine, on one thread and on three.
func eachDevice(t *testing.T, f func(p *pair)) {
	t.Helper()
	for _, kernels := range host.Kernels() {
		for _, threads := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", kernels, threads), func(t *testing.T) {
				t.Parallel()
				f(newPair(t, kernels, threads))
			})
		}
	}
}

func newPair(t *testing.T, kernels string, threads int) *pair {
	t.Helper()
	d, err := host.New(host.Options{Kernels: kernels, Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return &pair{t, rand.New(rand.NewPCG(1, 2)), reference.New(reference.Single), d}
}

func (p *pair) alloc(kind gpu.DType, n int) buffers {
	p.t.Helper()
	r, err := p.ref.Alloc(kind, n)
	if err != nil {
		p.t.Fatal(err)
	}
	h, err := p.host.Map(kind, guarded(p.t, n*kind.Size()))
	if err != nil {
		p.t.Fatal(err)
	}
	return buffers{r, h}
}

// random is n floats around 0.
func (p *pair) random(n int, size float64) buffers {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(p.rand.NormFloat64() * size)
	}
	return p.floats(x)
}

func (p *pair) floats(x []float32) buffers {
	b := p.alloc(gpu.F32, len(x))
	p.ref.Upload(b.ref, x)
	p.host.Upload(b.host, x)
	return b
}

func (p *pair) ints(x ...int32) buffers {
	b := p.alloc(gpu.I32, len(x))
	p.ref.UploadInts(b.ref, x)
	p.host.UploadInts(b.host, x)
	return b
}

// stored is random weights of a type that is read only from a file's bytes.
func (p *pair) stored(kind gpu.DType, n int) buffers {
	p.t.Helper()
	data := guarded(p.t, n*kind.Size())
	for i := range n {
		at := data[i*kind.Size():]
		x := float32(p.rand.NormFloat64())
		switch kind {
		case gpu.F32:
			put(at, uint64(math.Float32bits(x)), 4)
		case gpu.BF16:
			put(at, uint64(math.Float32bits(x)>>16), 2)
		case gpu.F16: // 2⁻⁵..2⁻² with a random fraction and sign
			put(at, uint64(p.rand.IntN(2)<<15|(10+p.rand.IntN(4))<<10|p.rand.IntN(1024)), 2)
		case gpu.I32:
			p.t.Fatal("indices are no weights")
		}
	}
	r, err := p.ref.Map(kind, data)
	if err != nil {
		p.t.Fatal(err)
	}
	h, err := p.host.Map(kind, data)
	if err != nil {
		p.t.Fatal(err)
	}
	return buffers{r, h}
}

func put(at []byte, bits uint64, n int) {
	for i := range n {
		at[i] = byte(bits >> (8 * i))
	}
}

func download(t *testing.T, d gpu.Device, b gpu.Buffer) []float32 {
	t.Helper()
	x := make([]float32, b.Len)
	if err := d.Download(x, b); err != nil {
		t.Fatal(err)
	}
	return x
}

// both does the same on both devices.
func (p *pair) both(f func(d gpu.Device, of func(b buffers) gpu.Buffer)) {
	f(p.ref, func(b buffers) gpu.Buffer { return b.ref })
	f(p.host, func(b buffers) gpu.Buffer { return b.host })
}

// equal fails unless the host's elements are within tolerance of the reference's, relative
// to 1 or to the element, whichever is more.
func (p *pair) equal(what string, b buffers, tolerance float64) {
	p.t.Helper()
	want, got := download(p.t, p.ref, b.ref), download(p.t, p.host, b.host)
	for i := range want {
		w, g := float64(want[i]), float64(got[i])
		if diff := math.Abs(w - g); !(diff <= tolerance*max(1, math.Abs(w))) {
			p.t.Fatalf("%s[%d] = %g, want %g (difference %.2g, tolerance %.2g)", what, i, g, w, diff, tolerance)
		}
	}
}
