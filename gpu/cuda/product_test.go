package cuda_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/devicetest"
)

// roundedFloats are n floats that BF16 holds.
func roundedFloats(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = math.Float32frombits(math.Float32bits(float32(rng.NormFloat64())) &^ 0xffff)
	}
	return x
}

// On factors that BF16 holds, products on tensor cores are those of the reference: at sizes of no
// whole tile, row lengths that do not allow copies of 16 bytes, several segments, and in each tile.
func TestMMAProducts(t *testing.T) {
	t.Parallel()
	p := devicetest.NewPair(t, open(t, cuda.Options{Products: gpu.BF16}))
	rng := rand.New(rand.NewPCG(3, 4))
	for _, s := range [][3]int{{1, 5, 3}, {7, 40, 65}, {9, 33, 1100}, {30, 48, 24}, {100, 33, 48}, {200, 260, 136}, {130, 200, 300}} {
		r, n, k := s[0], s[1], s[2]
		x, dy, b := p.ActivationsOf(roundedFloats(rng, r*k)), p.ActivationsOf(roundedFloats(rng, r*n)), p.Stored(gpu.BF16, n*k)
		dw := p.Random(n*k, 1)
		for i := range 4 {
			add, y, dx := i%2 == 0, p.Random(r*n, 1), p.Random(r*k, 1)
			if i < 2 {
				y, dx = p.Activations(r*n, 1), p.Activations(r*k, 1)
			}
			p.Both(func(d gpu.Device, of func(devicetest.Buffers) gpu.Buffer) {
				w := d.NewWeight(of(b), n, k)
				d.MatMul(of(y), of(x), w)
				d.MatMulBackX(of(dx), of(dy), w, add)
				d.MatMulBackW(of(dw), of(dy), of(x), r)
			})
			p.Equal("y", y, 2e-5)
			p.Equal("dx", dx, 2e-5)
			p.Equal("dw", dw, 2e-5)
		}
	}
}

// A row has the same bits alone and in a batch of any size, though other kernels multiply it, and
// whatever type its weights have.
func TestRowsKeepTheirBits(t *testing.T) {
	t.Parallel()
	const rows, n, k = 200, 260, 600
	for _, o := range []cuda.Options{{}, {Products: gpu.BF16}} {
		p := devicetest.NewPair(t, open(t, o))
		x, y, alone := p.Activations(rows*k, 1), p.Activations(rows*n, 1), p.Activations(rows*n, 1)
		for _, kind := range []gpu.DType{gpu.F32, gpu.BF16, gpu.F16} {
			d := p.Device
			w := d.NewWeight(p.Stored(kind, n*k).Dev, n, k)
			d.MatMul(y.Dev, x.Dev, w)
			want := p.Download(y.Dev)
			for _, r := range []int{1, 8, 11, 29, 50, 100} {
				for _, from := range []int{3, rows - r} {
					d.MatMul(alone.Dev.Slice(0, r*n), x.Dev.Slice(from*k, (from+r)*k), w)
					if !slices.Equal(p.Download(alone.Dev.Slice(0, r*n)), want[from*n:(from+r)*n]) {
						t.Fatalf("rows %d to %d alone differ from those in a batch of %d: products of type %d, weights of type %d", from, from+r, rows, o.Products, kind)
					}
				}
			}
		}
	}
}
