// Package devicetest is the tests that every device must pass: each operation of
// [gpu.Device] against gpu/reference, at the shapes where devices go wrong, and the promises
// of Exact mode. Only tests import it.
package devicetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/reference"
)

// Run runs all tests, each with a pair of its own.
func Run(t *testing.T, pair func(t *testing.T) *Pair) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(p *Pair)
	}{
		{"elementwise", elementwise},
		{"SwiGLU extremes", swiGLUExtremes},
		{"gather, scatter, embed", gatherScatterEmbed},
		{"RMSNorm", rmsNorm},
		{"MatMul", matMul},
		{"MatMul after Changed", matMulAfterChanged},
		{"RoPE", roPE},
		{"log-probabilities", logProbs},
		{"Sample", sampleTokens},
		{"AdamW", adamW},
		{"NaN is not hidden", naNIsNotHidden},
		{"Attend", attend},
		{"AttendPaged equals Attend", attendPagedEqualsAttend},
		{"AttendPaged with shared prefixes", attendPagedSharedPrefix},
		{"heads on their way to attention", headsToAttention},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(pair(t))
		})
	}
}

// Pair is the same buffers on two devices: the reference, and the one under test.
type Pair struct {
	T         *testing.T
	Reference gpu.Device
	Device    gpu.Device
	// Bytes is memory that the device may keep pointing at, where it shares memory with the
	// program.
	Bytes func(n int) []byte
	// rounds says that the device's activations are BF16: floats are then such as BF16 holds, and attention,
	// which rounds its weights too, is held to less.
	rounds bool
	rand   *rand.Rand
}

// NewPair makes a pair of the reference and a device.
func NewPair(t *testing.T, d gpu.Device) *Pair {
	t.Helper()
	return &Pair{
		T: t, Reference: reference.New(reference.Single), Device: d,
		Bytes: func(n int) []byte { return make([]byte, n) }, rand: rand.New(rand.NewPCG(1, 2)),
		rounds: gpu.ActivationType(d) == gpu.BF16,
	}
}

// Buffers is a buffer of each.
type Buffers struct{ Ref, Dev gpu.Buffer }

// Alloc gives n zeros.
func (p *Pair) Alloc(kind gpu.DType, n int) Buffers {
	p.T.Helper()
	return p.mapped(kind, p.Bytes(n*kind.Size()))
}

func (p *Pair) mapped(kind gpu.DType, data []byte) Buffers {
	p.T.Helper()
	r, err := p.Reference.Map(kind, data)
	if err != nil {
		p.T.Fatal(err)
	}
	d, err := p.Device.Map(kind, data)
	if err != nil {
		p.T.Fatal(err)
	}
	return Buffers{r, d}
}

// Random is n floats around 0, as F32.
func (p *Pair) Random(n int, size float64) Buffers { return p.Floats(p.normal(n, size)) }

// Activations is n floats around 0, in the type that each device has activations in.
func (p *Pair) Activations(n int, size float64) Buffers { return p.ActivationsOf(p.normal(n, size)) }

func (p *Pair) normal(n int, size float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(p.rand.NormFloat64() * size)
	}
	return x
}

// Floats is these, as F32.
func (p *Pair) Floats(x []float32) Buffers { return p.uploaded(gpu.F32, x) }

// ActivationsOf is these, as activations.
func (p *Pair) ActivationsOf(x []float32) Buffers { return p.uploaded(gpu.ActivationType(p.Device), x) }

// types are those of buffers that may be F32 or activations.
func (p *Pair) types() []gpu.DType {
	if p.rounds {
		return []gpu.DType{gpu.F32, gpu.BF16}
	}
	return []gpu.DType{gpu.F32}
}

// randomOf is n floats around 0 of one of these types, which the reference has as F32.
func (p *Pair) randomOf(kind gpu.DType, n int) Buffers { return p.uploaded(kind, p.normal(n, 1)) }

// uploaded is these, which the reference has as F32 and the device as a type.
func (p *Pair) uploaded(kind gpu.DType, x []float32) Buffers {
	p.T.Helper()
	if p.rounds {
		for i, v := range x {
			x[i] = rounded(v)
		}
	}
	b := Buffers{Ref: p.Alloc(gpu.F32, len(x)).Ref, Dev: p.Alloc(kind, len(x)).Dev}
	p.Reference.Upload(b.Ref, x)
	p.Device.Upload(b.Dev, x)
	return b
}

// Arena is n elements of a layer of the KV arena, all x, in the type that each device has it in.
func (p *Pair) Arena(x float32, n int) Buffers {
	p.T.Helper()
	return p.uploaded(gpu.KVType(p.Device), slices.Repeat([]float32{x}, n))
}

// rounded is x without what BF16 has no room for.
func rounded(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ 0xffff) }

// Ints is these, as I32.
func (p *Pair) Ints(x ...int32) Buffers {
	b := p.Alloc(gpu.I32, len(x))
	p.Reference.UploadInts(b.Ref, x)
	p.Device.UploadInts(b.Dev, x)
	return b
}

// Stored is random weights of a type that is read only from a file's bytes.
func (p *Pair) Stored(kind gpu.DType, n int) Buffers {
	p.T.Helper()
	data := p.Bytes(n * kind.Size())
	for i := range n {
		at := data[i*kind.Size():]
		x := float32(p.rand.NormFloat64())
		if p.rounds {
			x = rounded(x)
		}
		switch kind {
		case gpu.F32:
			put(at, uint64(math.Float32bits(x)), 4)
		case gpu.BF16:
			put(at, uint64(math.Float32bits(x)>>16), 2)
		case gpu.F16: // 2⁻⁵..2⁻² with a random fraction and sign
			bits := p.rand.IntN(2)<<15 | (10+p.rand.IntN(4))<<10 | p.rand.IntN(1024)
			if p.rounds {
				bits &^= 7 // BF16 has three bits less
			}
			put(at, uint64(bits), 2)
		case gpu.I32:
			p.T.Fatal("indices are no weights")
		}
	}
	return p.mapped(kind, data)
}

func put(at []byte, bits uint64, n int) {
	for i := range n {
		at[i] = byte(bits >> (8 * i))
	}
}

// Download gives the elements of a buffer of the device.
func (p *Pair) Download(b gpu.Buffer) []float32 {
	p.T.Helper()
	return download(p.T, p.Device, b)
}

func download(t *testing.T, d gpu.Device, b gpu.Buffer) []float32 {
	t.Helper()
	x := make([]float32, b.Len)
	if err := d.Download(x, b); err != nil {
		t.Fatal(err)
	}
	return x
}

// Both does the same on both devices.
func (p *Pair) Both(f func(d gpu.Device, of func(b Buffers) gpu.Buffer)) {
	f(p.Reference, func(b Buffers) gpu.Buffer { return b.Ref })
	f(p.Device, func(b Buffers) gpu.Buffer { return b.Dev })
}

// Equal fails unless the device's elements are within tolerance of the reference's, relative
// to 1 or to the element, whichever is more. Those that the device has in BF16 may be as far off as it rounds.
func (p *Pair) Equal(what string, b Buffers, tolerance float64) {
	p.T.Helper()
	want, got := download(p.T, p.Reference, b.Ref), p.Download(b.Dev)
	rounding := 0.0
	if b.Dev.Type == gpu.BF16 {
		rounding = 1.0 / 256
	}
	for i := range want {
		w, g := float64(want[i]), float64(got[i])
		if diff := math.Abs(w - g); !(diff <= tolerance*max(1, math.Abs(w))+rounding*math.Abs(w)) {
			p.T.Fatalf("%s[%d] = %g, want %g (difference %.2g, tolerance %.2g)", what, i, g, w, diff, tolerance)
		}
	}
}

// Attended is Equal for what attention sums with its weights. Where those are rounded to BF16, which
// has 8 bits, and so are the sums, the error of all elements together is held to √2/256 of them, or of 1.
func (p *Pair) Attended(what string, b Buffers, tolerance float64) {
	p.T.Helper()
	if !p.rounds {
		p.Equal(what, b, tolerance)
		return
	}
	errors, elements := 0.0, 0.0
	got := p.Download(b.Dev)
	for i, w := range download(p.T, p.Reference, b.Ref) {
		d := float64(got[i]) - float64(w)
		errors, elements = errors+d*d, elements+float64(w)*float64(w)
	}
	if r := math.Sqrt(errors / max(1, elements)); !(r <= math.Sqrt2/256) {
		p.T.Fatalf("%s: the error is %.2g of the whole", what, r)
	}
}
