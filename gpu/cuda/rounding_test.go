package cuda_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/half"
	"understudy/gpu/reference"
)

// Products that round their factors to BF16 are the reference's of rounded factors, for weights
// of each type, through the kernels and through cuBLASLt, for few rows and for many.
func TestProductsInBF16(t *testing.T) {
	t.Parallel()
	for _, mode := range []gpu.Mode{gpu.Exact, gpu.Fast} {
		for _, s := range [][3]int{{1, 40, 65}, {8, 16, 16}, {13, 33, 48}, {30, 64, 40}, {70, 72, 96}} {
			t.Run(fmt.Sprint(mode, s), func(t *testing.T) {
				t.Parallel()
				d := open(t, cuda.Options{Mode: mode, Products: gpu.BF16})
				for _, kind := range []gpu.DType{gpu.F32, gpu.BF16} {
					roundedProducts(t, d, kind, s[0], s[1], s[2])
				}
			})
		}
	}
}

func roundedProducts(t *testing.T, d *cuda.Device, kind gpu.DType, r, n, k int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	x, dy, w := randoms(rng, r*k), randoms(rng, r*n), randoms(rng, n*k)
	before := randoms(rng, max(r*n, r*k, n*k)) // what outputs hold
	results := func(d gpu.Device, round bool) [3][]float32 {
		upload := func(values []float32) gpu.Buffer {
			b, err := d.Alloc(gpu.F32, len(values))
			if err != nil {
				t.Fatal(err)
			}
			if round {
				values = rounded(values)
			}
			d.Upload(b, values)
			return b
		}
		weight := upload(w)
		if kind == gpu.BF16 && !round {
			data := make([]byte, 0, 2*len(w))
			for _, v := range w {
				h := half.ToBF16(v)
				data = append(data, byte(h), byte(h>>8))
			}
			var err error
			if weight, err = d.Map(gpu.BF16, data); err != nil {
				t.Fatal(err)
			}
		}
		old := round
		round = false
		y, dx, dw := upload(before[:r*n]), upload(before[:r*k]), upload(before[:n*k])
		round = old
		factor, rows, grads := d.NewWeight(weight, n, k), upload(x), upload(dy)
		d.MatMul(y, rows, factor)
		d.MatMulBackX(dx, grads, factor, true)
		d.MatMulBackW(dw, grads, rows, r)
		return [3][]float32{values(t, d, y), values(t, d, dx), values(t, d, dw)}
	}
	got, want := results(d, false), results(reference.New(reference.Single), true)
	for i, name := range []string{"y", "dx", "dw"} {
		for j := range want[i] {
			if diff := math.Abs(float64(got[i][j] - want[i][j])); !(diff <= 2e-5*max(1, math.Abs(float64(want[i][j])))) {
				t.Fatalf("%s weights: %s[%d] = %v, want %v", kind, name, j, got[i][j], want[i][j])
			}
		}
	}
}

func randoms(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

func rounded(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = half.FromBF16(half.ToBF16(v))
	}
	return y
}

func values(t *testing.T, d gpu.Device, b gpu.Buffer) []float32 {
	t.Helper()
	x := make([]float32, b.Len)
	if err := d.Download(x, b); err != nil {
		t.Fatal(err)
	}
	return x
}
