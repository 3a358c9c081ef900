package host

import (
	"slices"
	"testing"
	"time"

	"github.com/ebitengine/purego"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// openBLAS opens the library, pinned to the kernels of this machine and to one thread, and
// returns its row-major C (m,n) = A (m,k)·B, B transposed or not. It is nil where the library
// is not installed (Debian: libopenblas0). Version 0.3.21 takes newer processors for a
// Prescott unless it is told.
func openBLAS(b *testing.B, kernels string) func(transposed bool, m, n, k int, a, x, c []float32) {
	b.Helper()
	core := map[string]string{"avx512": "SkylakeX", "avx2": "Haswell"}[kernels]
	if core == "" {
		return nil
	}
	b.Setenv("OPENBLAS_CORETYPE", core)
	b.Setenv("OPENBLAS_NUM_THREADS", "1")
	library, err := purego.Dlopen("libopenblas.so.0", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		b.Logf("only our own rate: %v", err)
		return nil
	}
	var sgemm func(order, transA, transB, m, n, k int32, alpha float32, a *float32, lda int32, b *float32, ldb int32, beta float32, c *float32, ldc int32)
	var threads func(n int32)
	var corename func() string
	purego.RegisterLibFunc(&sgemm, library, "cblas_sgemm")
	purego.RegisterLibFunc(&threads, library, "openblas_set_num_threads")
	purego.RegisterLibFunc(&corename, library, "openblas_get_corename")
	threads(1)
	if corename() != core {
		b.Logf("only our own rate: OpenBLAS keeps its %s kernels; run -bench BLAS/%s alone", corename(), kernels)
		return nil
	}
	return func(transposed bool, m, n, k int, a, x, c []float32) {
		trans, ldb := int32(111), int32(n)
		if transposed {
			trans, ldb = 112, int32(k)
		}
		sgemm(101, 111, trans, int32(m), int32(n), int32(k), 1, &a[0], int32(k), &x[0], ldb, 0, &c[0], int32(n))
	}
}

// BenchmarkBLAS is the rate of one thread beside OpenBLAS and gonum in the same run. Turns are
// taken, processor time is what counts, and best is compared with best and median with
// median, so that other load on the machine hits all alike.
func BenchmarkBLAS(b *testing.B) {
	for _, kernels := range Kernels() {
		if kernels == "go" {
			continue // no rival worth the name
		}
		for _, s := range []struct {
			name    string
			m, n, k int
			o       int // index of orientations
		}{
			{"512/NN", 512, 512, 512, 0},
			{"512/NT", 512, 512, 512, 1},
			{"1024/NN", 1024, 1024, 1024, 0},
			{"1024/NT", 1024, 1024, 1024, 1},
			{"16x2048x2048/packed", 16, 2048, 2048, 3},
			{"16x2048x2048/bf16", 16, 2048, 2048, 6},
		} {
			b.Run(kernels+"/"+s.name, func(b *testing.B) {
				d := newDevice(b, kernels, 1)
				x := benchProduct(d, orientations()[s.o], s.m, s.n, s.k)
				c, theirs := make([]float32, s.m*s.n), openBLAS(b, kernels)
				duel(b, 2*float64(s.m)*float64(s.n)*float64(s.k), multiplication(d, orientations()[s.o], x), map[string]func(){
					"openblas": rival(theirs != nil, func() { theirs(x.b.transposed, s.m, s.n, s.k, x.a, x.b.f32, c) }),
					"gonum":    rival(s.m <= 512, func() { gonumProduct(x, c) }),
				})
			})
		}
	}
}

func rival(is bool, f func()) func() {
	if !is {
		return nil
	}
	return f
}

func gonumProduct(x product, c []float32) {
	trans, ldb := blas.NoTrans, x.n
	if x.b.transposed {
		trans, ldb = blas.Trans, x.k
	}
	gonum.Implementation{}.Sgemm(blas.NoTrans, trans, x.m, x.n, x.k, 1, x.a, x.k, x.b.f32, ldb, 0, c, x.n)
}

// duel reports the rate of ours, and its ratio to each of the others that is there: of the
// best turns, and of the median ones.
func duel(b *testing.B, flops float64, ours func(), others map[string]func()) {
	b.Helper()
	turns := map[string][]time.Duration{}
	turn := func(name string, f func()) {
		if f == nil {
			return
		}
		start := ProcessTime(b)
		f()
		turns[name] = append(turns[name], ProcessTime(b)-start)
	}
	for i := 0; b.Loop(); i++ {
		turn("ours", ours)
		turn("openblas", others["openblas"])
		if i%16 == 0 { // it is slow
			turn("gonum", others["gonum"])
		}
	}
	for _, list := range turns {
		slices.Sort(list)
	}
	rate := func(name string, at float64) float64 {
		list := turns[name]
		return flops / list[int(at*float64(len(list)))].Seconds() / 1e9
	}
	b.ReportMetric(rate("ours", 0), "GFLOP/s")
	for name, f := range others {
		if f == nil {
			continue
		}
		b.ReportMetric(rate(name, 0), name+"-GFLOP/s")
		b.ReportMetric(100*rate("ours", 0)/rate(name, 0), "%-of-"+name)
		b.ReportMetric(100*rate("ours", 0.5)/rate(name, 0.5), "median-%-of-"+name)
	}
}
