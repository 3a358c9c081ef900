package host_test

import (
	"testing"

	"understudy/gpu"
	"understudy/gpu/host"
)

// model135M has the shape of SmolLM2-135M.
func model135M() gpu.Config {
	return gpu.Config{
		Type: gpu.Llama, Layers: 30, Width: 576, Hidden: 1536, Vocab: 49152, Context: 2048,
		Heads: gpu.Heads{H: 9, G: 3, D: 64}, Eps: 1e-5, RoPE: gpu.RoPE{Theta: 10000}, Tied: true, BOS: -1,
	}
}

// BenchmarkDecode is steps of 16 sequences of 128 tokens of a 135M-parameter model, beside
// what the machine allows: the bytes of its weights, keys and values over the memory's
// bandwidth, and its multiplications at the rate of a product of 16 rows, both measured here
// and now. The weights are in files, mapped.
func BenchmarkDecode(b *testing.B) {
	for _, kind := range []gpu.DType{gpu.F32, gpu.BF16} {
		b.Run(map[gpu.DType]string{gpu.F32: "f32", gpu.BF16: "bf16"}[kind], func(b *testing.B) {
			d, err := host.New(host.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			benchmarkDecode(b, d, kind)
		})
	}
}

func benchmarkDecode(b *testing.B, d *host.Device, kind gpu.DType) {
	b.Helper()
	const batch, context = 16, 128
	m := storedModel(b, d, model135M(), kind)
	runner, err := m.NewRunner(gpu.RunnerConfig{
		Pages: batch * context / gpu.PageSize, Rows: batch, Wanted: batch, Sequences: batch, Context: context,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer runner.Free()
	step, out := decodeStep(batch, context), gpu.Logits{}
	for p := range int32(context) { // fills the arena
		for i := range step.Positions {
			step.Positions[i], step.Slots[i] = p, step.Tables[i][p/gpu.PageSize]*gpu.PageSize+p%gpu.PageSize
		}
		if p%16 != 0 && p != context-1 { // a few of them
			continue
		}
		if err := runner.Step(step, &out); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := runner.Step(step, &out); err != nil {
			b.Fatal(err)
		}
	}
	parameters := 0
	for _, t := range m.Params.Tensors {
		parameters += t.Len
	}
	rate := batch * float64(b.N) / b.Elapsed().Seconds()
	arena := m.PageBytes() / gpu.PageSize * batch * context
	byMemory := batch * host.Bandwidth(d) / float64(parameters*kind.Size()+int(arena))
	byProduct := host.ProductRate(d, batch, 2048, 2048, kind) / float64(2*parameters)
	b.ReportMetric(rate, "tokens/s")
	b.ReportMetric(byMemory, "tokens/s-by-memory")
	b.ReportMetric(byProduct, "tokens/s-by-product")
	b.ReportMetric(100*rate/min(byMemory, byProduct), "%-of-bound")
}

// decodeStep is one token of each sequence.
func decodeStep(batch, context int) *gpu.Step {
	s := &gpu.Step{Tokens: make([]int32, batch), Positions: make([]int32, batch), Slots: make([]int32, batch)}
	for i := range int32(batch) {
		s.Sequences, s.Wanted = append(s.Sequences, i), append(s.Wanted, i)
		var table []int32
		for p := range int32(context / gpu.PageSize) {
			table = append(table, i*int32(context/gpu.PageSize)+p)
		}
		s.Tables = append(s.Tables, table)
	}
	return s
}

// storedModel is a random model read from files, its weights of this type.
func storedModel(tb testing.TB, d gpu.Device, c gpu.Config, kind gpu.DType) *gpu.Model {
	tb.Helper()
	m, err := gpu.NewRandom(d, c, 1)
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	if err := m.Save(dir, kind); err != nil {
		tb.Fatal(err)
	}
	stored, err := gpu.Load(d, dir, gpu.LoadConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := stored.Close(); err != nil {
			tb.Error(err)
		}
	})
	return stored
}
