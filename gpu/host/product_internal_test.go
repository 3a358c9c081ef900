package host

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/half"
)

func random(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = r.Float32()*2 - 1
	}
	return x
}

// orientation is how the two factors of a product lie in memory.
type orientation struct {
	name    string
	a, b    bool // transposed
	kind    gpu.DType
	prepack bool
	reason  string
}

func orientations() []orientation {
	return []orientation{
		{"NN", false, false, gpu.F32, false, "gradient of the rows"},
		{"NT", false, true, gpu.F32, false, "forward"},
		{"TN", true, false, gpu.F32, false, "gradient of a weight"},
		{"NT packed", false, true, gpu.F32, true, "forward, few rows"},
		{"NN bf16", false, false, gpu.BF16, false, "gradient of the rows, frozen weights"},
		{"NT bf16", false, true, gpu.BF16, false, "forward of stored weights"},
		{"NT bf16 packed", false, true, gpu.BF16, true, "decode of stored weights"},
		{"NT f16", false, true, gpu.F16, false, "forward of stored weights"},
	}
}

// newProduct makes a product of random factors and the same product in float64.
func newProduct(d *Device, o orientation, m, n, k int, add bool) (x product, want, size []float64) {
	a, b := random(m*k, 1), random(n*k, 2)
	x = product{m: m, n: n, k: k, a: a, rs: k, cs: 1, c: random(m*n, 3), ldc: n, add: add}
	if o.a {
		x.rs, x.cs = 1, m
	}
	x.b = operand{matrix: matrix{kind: o.kind, f32: b, rows: k, cols: n}, transposed: o.b, width: d.k.width}
	if o.b {
		x.b.rows, x.b.cols = n, k
	}
	if o.kind != gpu.F32 {
		x.b.f16 = make([]uint16, len(b))
		for i, v := range b {
			bits := math.Float32bits(v)
			if o.kind == gpu.BF16 {
				x.b.f16[i] = uint16(bits >> 16)
				b[i] = half.FromBF16(x.b.f16[i])
				continue
			}
			x.b.f16[i] = uint16(bits>>16&0x8000) | uint16(10+i%5)<<10 | uint16(i*37%1024)
			b[i] = half.FromF16(x.b.f16[i])
		}
	}
	want, size = make([]float64, m*n), make([]float64, m*n)
	for i := range m {
		for j := range n {
			if add {
				want[i*n+j] = float64(x.c[i*n+j])
				size[i*n+j] = math.Abs(want[i*n+j])
			}
			for p := range k {
				v := float64(a[i*x.rs+p*x.cs]) * float64(b[x.b.at(p, j)])
				want[i*n+j] += v
				size[i*n+j] += math.Abs(v)
			}
		}
	}
	return x, want, size
}

// Every orientation on every kind of kernel, at sizes around the edges of tiles and blocks,
// is within about sqrt(k) roundings of the product in float64.
func TestProduct(t *testing.T) {
	t.Parallel()
	sizes := [][3]int{{1, 1, 1}, {5, 7, 300}, {13, 33, 257}, {64, 100, 17}, {25, 64, 256}, {3, 5, 0}, {17, 70, 1501}} // the last: a weight in blocks
	for _, name := range Kernels() {
		for _, threads := range []int{1, 3} {
			d := newDevice(t, name, threads)
			for _, o := range orientations() {
				for _, s := range sizes {
					for _, add := range []bool{false, true} {
						if add && o.prepack {
							continue
						}
						x, want, size := newProduct(d, o, s[0], s[1], s[2], add)
						multiplication(d, o, x)()
						for i := range want {
							bound := 0x1p-24 * size[i] * (2*math.Sqrt(float64(s[2])) + 2)
							if got := float64(x.c[i]); math.Abs(got-want[i]) > bound {
								t.Fatalf("%s %s %v add=%v [%d] = %g, want %g ± %g (%s)",
									d.Name(), o.name, s, add, i, got, want[i], bound, o.reason)
							}
						}
					}
				}
			}
		}
	}
}

// multiplication is x by the path of its orientation, with a weight packed already.
func multiplication(d *Device, o orientation, x product) func() {
	if !o.prepack {
		return func() { d.multiply(x) }
	}
	p := newPanels(d, x.b.matrix, false, nil)
	return func() { d.multiplyFew(x.c, x.a, x.m, p) }
}

// A row has the same bits alone, in a batch of any height, on any number of threads, with
// weights packed or not.
func TestProductRowAlone(t *testing.T) {
	t.Parallel()
	const n = 70
	for _, name := range Kernels() {
		for _, o := range []orientation{orientations()[1], orientations()[3], orientations()[6]} {
			for _, s := range [][2]int{{2, 301}, {13, 301}, {31, 301}, {61, 301}, {7, 1501}, {20, 1501}} { // 1501: a weight in blocks
				m, k := s[0], s[1]
				x, _, _ := newProduct(newDevice(t, name, 3), o, m, n, k, !o.prepack)
				want := slices.Clone(x.c)
				alone := newDevice(t, name, 1)
				for i := range m {
					one := x
					one.m, one.a, one.c = 1, x.a[i*x.rs:], want[i*n:(i+1)*n]
					alone.multiply(one)
				}
				multiplication(newDevice(t, name, 3), o, x)()
				if !slices.Equal(x.c, want) {
					t.Errorf("%s %s: rows of a batch of %d differ from the rows alone", name, o.name, m)
				}
			}
		}
	}
}

func newDevice(tb testing.TB, name string, threads int) *Device {
	tb.Helper()
	d, err := New(Options{Kernels: name, Threads: threads})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(d.Close)
	return d
}

// A weight that Fast mode has packed is the weight rounded to bfloat16, in a decode only.
func TestFastRoundsWeights(t *testing.T) {
	t.Parallel()
	const n, k = 70, 40
	d, err := New(Options{Mode: gpu.Fast, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	values := random(n*k, 2)
	for _, rows := range []int{packRows - 1, packRows} {
		rounded := slices.Clone(values)
		if rows < packRows {
			for i, x := range values {
				rounded[i] = half.FromBF16(half.ToBF16(x))
			}
		}
		x, y, w := upload(t, d, random(rows*k, 1)), upload(t, d, make([]float32, rows*n)), upload(t, d, values)
		d.MatMul(y, x, d.NewWeight(w, n, k))
		want := product{m: rows, n: n, k: k, a: random(rows*k, 1), rs: k, cs: 1, c: make([]float32, rows*n), ldc: n}
		want.b = operand{matrix: matrix{f32: rounded, rows: n, cols: k}, transposed: true, width: d.k.width}
		d.multiply(want)
		if !slices.Equal(floats(y), want.c) {
			t.Errorf("%d rows: not the product with the weights rounded: %t", rows, rows < packRows)
		}
	}
	for _, c := range [][2]float32{{1, 1}, {1 + 1.0/256, 1}, {1 + 3.0/256, 1 + 4.0/256}, {-1 - 1.1/256, -1 - 2.0/256}} {
		if got := half.FromBF16(half.ToBF16(c[0])); got != c[1] {
			t.Errorf("%v rounds to %v, want %v", c[0], got, c[1])
		}
	}
	if nan := float32(math.NaN()); half.FromBF16(half.ToBF16(nan)) == half.FromBF16(half.ToBF16(nan)) {
		t.Error("NaN became a number")
	}
}

func upload(t *testing.T, d *Device, x []float32) gpu.Buffer {
	t.Helper()
	b, err := d.Alloc(gpu.F32, len(x))
	if err != nil {
		t.Fatal(err)
	}
	d.Upload(b, x)
	return b
}

// BenchmarkProduct is the rate of the products of a training step and of a decode.
func BenchmarkProduct(b *testing.B) {
	for _, s := range [][3]int{{512, 512, 512}, {1024, 1024, 1024}, {16, 2048, 2048}, {1, 2048, 2048}} {
		for _, o := range orientations() {
			b.Run(fmt.Sprintf("%dx%dx%d/%s", s[0], s[1], s[2], o.name), func(b *testing.B) {
				d := newDevice(b, "", 1)
				multiply := multiplication(d, o, benchProduct(d, o, s[0], s[1], s[2]))
				for b.Loop() {
					multiply()
				}
				flops := 2 * float64(s[0]) * float64(s[1]) * float64(s[2]) * float64(b.N)
				b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// benchProduct is a product without the right answer.
func benchProduct(d *Device, o orientation, m, n, k int) product {
	x := product{m: m, n: n, k: k, a: random(m*k, 1), rs: k, cs: 1, c: make([]float32, m*n), ldc: n}
	if o.a {
		x.rs, x.cs = 1, m
	}
	x.b = operand{matrix: matrix{kind: o.kind, f32: random(n*k, 2), f16: make([]uint16, n*k), rows: k, cols: n}, transposed: o.b, width: d.k.width}
	if o.b {
		x.b.rows, x.b.cols = n, k
	}
	return x
}
