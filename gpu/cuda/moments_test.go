package cuda_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/devicetest"
	"understudy/gpu/half"
	"understudy/gpu/reference"
)

// halfStep is a step of AdamW on n parameters with moments in BF16, which begin as m and v.
func halfStep(t *testing.T, d gpu.Device, kind gpu.DType, seed uint64, beta2 float32, p, g, m, v []float32) (after [3][]float32) {
	t.Helper()
	var b [4]gpu.Buffer
	for i, x := range [][]float32{p, g, m, v} {
		of := gpu.F32
		if i > 1 {
			of = kind
		}
		var err error
		if b[i], err = d.Alloc(of, len(x)); err != nil {
			t.Fatal(err)
		}
		d.Upload(b[i], x)
	}
	d.AdamW(gpu.AdamWUpdate{
		P: b[0], G: b[1], M: b[2], V: b[3], Seed: seed, LR: 0.01, Beta1: 0.9, Beta2: beta2, Eps: 1e-8, Decay: 0.1,
		Bias1: 0.5, Bias2: 0.25, GradScale: 0.5,
	})
	return [3][]float32{values(t, d, b[0]), values(t, d, b[2]), values(t, d, b[3])}
}

// With moments in BF16 the parameters move as with float32, and each moment is one of the two
// BF16 around the float32.
func TestAdamWWithHalfMoments(t *testing.T) {
	t.Parallel()
	d := open(t, cuda.Options{})
	const n = 3000
	rng := rand.New(rand.NewPCG(5, 6))
	p, g, m, v := randoms(rng, n), randoms(rng, n), rounded(randoms(rng, n)), rounded(randoms(rng, n))
	for i := range v {
		v[i] = float32(math.Abs(float64(v[i])))
	}
	got, want := halfStep(t, d, gpu.BF16, 7, 0.95, p, g, m, v), halfStep(t, reference.New(reference.Single), gpu.F32, 0, 0.95, p, g, m, v)
	for i := range p {
		if diff := math.Abs(float64(got[0][i] - want[0][i])); diff > 1e-5*max(1, math.Abs(float64(want[0][i]))) {
			t.Fatalf("P[%d] = %v, want %v", i, got[0][i], want[0][i])
		}
		for j := 1; j <= 2; j++ {
			if x, exact := got[j][i], want[j][i]; half.FromBF16(half.ToBF16(x)) != x || math.Abs(float64(x-exact)) > math.Abs(float64(exact))/128 {
				t.Fatalf("moment %d [%d] = %v, want %v within a step of BF16", j, i, x, exact)
			}
		}
	}
	again, other := halfStep(t, d, gpu.BF16, 7, 0.95, p, g, m, v), halfStep(t, d, gpu.BF16, 8, 0.95, p, g, m, v)
	if !slices.Equal(again[2], got[2]) || slices.Equal(other[2], got[2]) {
		t.Error("rounding is no function of the seed")
	}
}

// A second moment sinks by its β2 in the mean, though each step of it is less than half a step
// of BF16: rounding to the nearest would leave it where it is.
func TestHalfMomentsSink(t *testing.T) {
	t.Parallel()
	d := open(t, cuda.Options{})
	const n, beta2 = 20000, 0.999
	zero, one := make([]float32, n), make([]float32, n)
	for i := range one {
		one[i] = 1
	}
	sum := 0.0
	for _, x := range halfStep(t, d, gpu.BF16, 3, beta2, zero, zero, zero, one)[2] {
		sum += float64(x)
	}
	// one of 256 steps below 1 is taken with a chance of 0.256: the mean of n has a deviation of 1.2e-5
	if mean := sum / n; math.Abs(mean-beta2) > 6e-5 {
		t.Errorf("after a step without a gradient the mean of 1 is %v, want %v", mean, beta2)
	}
}

// The sum of squares is that of the elements, whatever their type.
func TestSquareSumOfHalves(t *testing.T) {
	t.Parallel()
	d := open(t, cuda.Options{})
	const n = 17000 // more than a piece
	rng := rand.New(rand.NewPCG(7, 8))
	for kind, of := range map[gpu.DType]struct {
		bits  func(float32) uint16
		value func(uint16) float32
	}{gpu.BF16: {half.ToBF16, half.FromBF16}, gpu.F16: {half.ToF16, half.FromF16}} {
		var data []byte
		want := 0.0
		for _, x := range randoms(rng, n) {
			h := of.bits(x)
			data = append(data, byte(h), byte(h>>8))
			want += float64(of.value(h)) * float64(of.value(h))
		}
		b, err := d.Map(kind, data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.SquareSum(b); err != nil || math.Abs(got/want-1) > 1e-12 {
			t.Errorf("type %v: %v, %v, want %v", kind, got, err, want)
		}
	}
}

// A residual's sum and its norm have the same bits as one kernel and as two.
func TestSumAndNormAreOne(t *testing.T) {
	t.Parallel()
	d := open(t, cuda.Options{})
	rng := rand.New(rand.NewPCG(9, 10))
	const r, c = 5, 300
	a, b, w := randoms(rng, r*c), randoms(rng, r*c), randoms(rng, c)
	result := func(apart bool) (all []float32) {
		upload := func(x []float32) gpu.Buffer {
			to, err := d.Alloc(gpu.F32, len(x))
			if err != nil {
				t.Fatal(err)
			}
			d.Upload(to, x)
			return to
		}
		x, branch, gain := upload(a), upload(b), upload(w)
		y, rstd := upload(a), upload(w[:r])
		d.Add(x, x, branch)
		if apart {
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		d.RMSNorm(y, rstd, x, gain, 1e-5)
		for _, out := range []gpu.Buffer{x, y, rstd} {
			all = append(all, values(t, d, out)...)
		}
		return all
	}
	one, two := result(false), result(true)
	if !slices.Equal(one, two) {
		t.Error("other bits")
	}
	if sum := a[0] + b[0]; one[0] != sum {
		t.Errorf("the sum is %v, want %v", one[0], sum)
	}
}

// A norm of another sum, or of a part of it, does not make the sum.
func TestSumAndNormStayApart(t *testing.T) {
	t.Parallel()
	const r, c = 3, 8
	d := open(t, cuda.Options{})
	p := devicetest.NewPair(t, d)
	a, b, x, other, y := p.Random(r*c, 1).Dev, p.Random(r*c, 1).Dev, p.Random(r*c, 1).Dev, p.Random(r*c, 1).Dev, p.Random(r*c, 1).Dev
	rstd, gain := p.Random(r, 1).Dev, p.Random(c, 1).Dev
	for name, norm := range map[string]func(){
		"another": func() { d.RMSNorm(y, rstd, other, gain, 1e-5) },
		"a part":  func() { d.RMSNorm(y.Slice(0, c), rstd.Slice(0, 1), x.Slice(0, c), gain, 1e-5) },
	} {
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		d.Add(x, a, b)
		norm()
		if n := len(d.Waiting()); n != 2 {
			t.Errorf("%s: %d launches, want 2", name, n)
		}
	}
}
