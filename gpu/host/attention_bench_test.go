package host

import (
	"fmt"
	"testing"

	"understudy/gpu"
)

// BenchmarkAttend is the rate of attention in training, of what its keys and values are
// multiplied by, on one thread: sequences of n tokens, 2048 in all, with the heads of a 135M model.
func BenchmarkAttend(b *testing.B) {
	for _, kernels := range Kernels() {
		for _, n := range []int{16, 128, 512} {
			d := newDevice(b, kernels, 1)
			t := benchAttention(b, d, n)
			for name, f := range map[string]func(){
				"forward":  func() { d.Attend(t.Attention) },
				"backward": func() { d.AttendBackward(t) },
			} {
				products := map[string]float64{"forward": 2, "backward": 5}[name]
				b.Run(fmt.Sprintf("%s/%d/%s", kernels, n, name), func(b *testing.B) {
					d.Attend(t.Attention)
					for b.Loop() {
						f()
					}
					flops := products * 2 * float64(t.Q.Len) * float64(n+1) / 2 * float64(b.N)
					b.ReportMetric(flops/b.Elapsed().Seconds()/1e9, "GFLOP/s")
				})
			}
		}
	}
}

// benchAttention is 2048 tokens in sequences of n.
func benchAttention(b *testing.B, d *Device, n int) gpu.AttentionGrad {
	b.Helper()
	const tokens = 2048
	h := gpu.Heads{H: 9, G: 3, D: 64}
	alloc := func(kind gpu.DType, n int) gpu.Buffer {
		x, err := d.Alloc(kind, n)
		if err != nil {
			b.Fatal(err)
		}
		if kind == gpu.F32 {
			d.Upload(x, random(n, uint64(n)))
		}
		return x
	}
	starts := make([]int32, tokens)
	for i := range starts {
		starts[i] = int32(i / n * n)
	}
	rows := func(heads int) gpu.Buffer { return alloc(gpu.F32, tokens*heads*h.D) }
	t := gpu.AttentionGrad{
		Attention: gpu.Attention{
			Heads: h, Scale: 0.125, Out: rows(h.H), LSE: alloc(gpu.F32, tokens*h.H),
			Q: rows(h.H), K: rows(h.G), V: rows(h.G), Starts: alloc(gpu.I32, tokens),
		},
		DOut: rows(h.H), DQ: rows(h.H), DK: rows(h.G), DV: rows(h.G),
	}
	d.UploadInts(t.Starts, starts)
	return t
}
