package devicetest

import (
	"math"
	"slices"

	"understudy/gpu"
	"understudy/gpu/sample"
)

// sampleTokens holds a device that draws tokens to package sample: the same token and the same parts of its
// log-probabilities, bit for bit.
func sampleTokens(p *Pair) {
	device, ok := p.Device.(gpu.Sampler)
	if !ok {
		return
	}
	for _, v := range []int{1, 31, 33, 100, 1025} {
		rows := logitRows(p, v)
		if v > 1000 { // more than a thread each
			rows = slices.DeleteFunc(rows, func(r logitRow) bool { return r.name != "normal" && r.name != "many are equal" })
		}
		scales := []float32{1, 1 / float32(0.7), 1 / float32(1.3), 1e4}
		for _, row := range rows {
			sampleRows(p, device, row, scales[p.rand.IntN(len(scales))])
		}
	}
}

// logitRow is a row of logits at which drawing may go wrong.
type logitRow struct {
	name   string
	logits []float32
	times  int // that each way to draw is tried
}

func logitRows(p *Pair, v int) []logitRow {
	row := func(f func(i int) float32) []float32 {
		x := make([]float32, v)
		for i := range x {
			x[i] = f(i)
		}
		return x
	}
	normal := func(int) float32 { return float32(p.rand.NormFloat64() * 3) }
	with := func(x float32) []float32 {
		r := row(normal)
		r[p.rand.IntN(v)] = x
		return r
	}
	return []logitRow{
		{"normal", row(normal), 1},
		{"one of many", row(func(i int) float32 { return 30 * float32((i+1)/v) }), 1},
		{"many are equal", row(func(int) float32 { return float32(p.rand.IntN(4)) / 2 }), 8},
		{"all are equal", row(func(int) float32 { return -2 }), 1},
		{"both zeros", row(func(i int) float32 { return float32(math.Copysign(0, float64(i%2)-0.5)) }), 1},
		{"far apart", row(func(int) float32 { return float32(p.rand.NormFloat64() * 1e3) }), 1},
		{"NaN", with(nan()), 1},
		{"infinite", with(float32(math.Inf(1))), 1},
		{"impossible", with(float32(math.Inf(-1))), 1},
	}
}

// draws are ways to draw from v tokens, each some times, with random numbers at the ends and between.
func draws(p *Pair, v, times int) []gpu.Draw {
	var list []gpu.Draw
	for _, d := range []gpu.Draw{
		{},
		{Tempered: true},
		{Tempered: true, TopK: 1},
		{Tempered: true, TopK: 2},
		{Tempered: true, TopK: min(7, v)},
		{Tempered: true, TopK: v/2 + 1},
		{Tempered: true, TopK: v},
		{Tempered: true, TopK: 3 * v},
		{Tempered: true, TopP: 1},
		{Tempered: true, TopP: sample.Share(0.3)},
		{Tempered: true, TopP: sample.Share(0.95)},
		{Tempered: true, TopP: math.MaxUint64},
		{Tempered: true, MinP: 0.05},
		{Tempered: true, MinP: 1},
		{Tempered: true, TopK: 50, TopP: sample.Share(0.9)},
		{Tempered: true, TopK: 5, TopP: sample.Share(0.999), MinP: 0.01},
		{Tempered: true, TopP: sample.Share(0.5), MinP: 0.2},
	} {
		for range times {
			d.Random = []uint64{0, math.MaxUint64, p.rand.Uint64(), p.rand.Uint64()}[p.rand.IntN(4)]
			list = append(list, d)
		}
	}
	return list
}

// sampleRows draws in all ways from a row, in one call.
func sampleRows(p *Pair, device gpu.Sampler, row logitRow, scale float32) {
	p.T.Helper()
	logits, v := row.logits, len(row.logits)
	list := draws(p, v, row.times)
	n := len(list)
	all, scales := make([]float32, 0, n*v), make([]float32, n)
	for i := range list {
		all, scales[i] = append(all, logits...), scale
	}
	z, s, lse := p.Alloc(gpu.F32, n*v), p.Alloc(gpu.F32, n), p.Alloc(gpu.F32, n)
	device.Upload(z.Dev, all)
	device.Upload(s.Dev, scales)
	t := gpu.TokenLoss{Logits: z.Dev, Scale: s.Dev, LSE: lse.Dev}
	device.LogProbs(t)
	got := make([]gpu.Drawn, n)
	if err := device.Sample(t, list, got); err != nil {
		p.T.Fatal(err)
	}
	sums := p.Download(lse.Dev)
	var space sample.Space
	for i, d := range list {
		want := space.Draw(logits, scale, sums[i], d, nil)
		if !want.Finite {
			want.LSE, got[i].LSE = 0, 0 // may be NaN
		}
		if got[i] != want {
			p.T.Fatalf("%s, %d tokens, scale %v, %+v:\ndrew %+v\nwant %+v", row.name, v, scale, d, got[i], want)
		}
	}
	for _, b := range []Buffers{z, s, lse} {
		p.Reference.Free(b.Ref)
		device.Free(b.Dev)
	}
}
