package host_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

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

// BenchmarkDecode is steps of 16 sequences of 128 tokens of a 135M-parameter model, from
// tokens to logits, beside what the machine allows. The bound is the smaller of two rates,
// both measured in the same run, in turns with the steps, on as many threads; one thread by
// processor time, which other load on the machine does not stretch, more by the clock:
//
//   - memory: a step reads every parameter once, the head's matrix (which is the
//     embedding's) among them, and the keys and values of all 16·128 positions; at the rate
//     at which the same threads read 512 MB in large pages and do nothing else;
//   - products: 2·16 operations a parameter; at the rate of the product of 16 rows and an
//     MLP's matrix of this model, which is in the cache.
//
// That both overlap perfectly, and that attention, norms and the copy of the logits take no
// time, is in the bound, too: few of the keys and values, a quarter of the bytes in bfloat16,
// are fetched while something is multiplied, with AVX-512 none. The weights are in files, mapped.
func BenchmarkDecode(b *testing.B) {
	for _, threads := range slices.Compact([]int{1, runtime.GOMAXPROCS(0)}) {
		for _, kind := range []gpu.DType{gpu.F32, gpu.BF16} {
			name := map[gpu.DType]string{gpu.F32: "f32", gpu.BF16: "bf16"}[kind]
			b.Run(fmt.Sprintf("%s/threads=%d", name, threads), func(b *testing.B) {
				d, err := host.New(host.Options{Threads: threads})
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				benchmarkDecode(b, d, kind)
			})
		}
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
	probe := host.NewProbe(d, batch, m.Hidden, m.Width, kind)
	var stepping, reading, multiplying rate
	for b.Loop() { // in turns, so that a busy machine is busy for all of them
		stepping.add(b, d, func() float64 {
			if err := runner.Step(step, &out); err != nil {
				b.Fatal(err)
			}
			return batch
		})
		reading.add(b, d, probe.Read)
		probe.Warm()
		multiplying.add(b, d, probe.Multiply)
	}
	parameters := 0
	for _, t := range m.Params.Tensors {
		parameters += t.Len
	}
	arena := m.PageBytes() / gpu.PageSize * batch * context
	attended := float64(arena) // bytes
	byMemory := batch * reading.perSecond() / (float64(parameters*kind.Size()) + attended)
	byProduct := multiplying.perSecond() / float64(2*parameters)
	b.ReportMetric(stepping.perSecond(), "tokens/s")
	b.ReportMetric(reading.perSecond()/1e9, "GB/s")
	b.ReportMetric(multiplying.perSecond()/1e9, "GFLOP/s")
	b.ReportMetric(100*stepping.perSecond()/byMemory, "%-of-memory")
	b.ReportMetric(100*stepping.perSecond()/byProduct, "%-of-products")
	b.ReportMetric(100*stepping.perSecond()/min(byMemory, byProduct), "%-of-bound")
}

// rate is an amount of work by its time.
type rate struct{ amount, seconds float64 }

func (r *rate) add(b *testing.B, d *host.Device, f func() float64) {
	b.Helper()
	start, processor := time.Now(), host.ProcessTime(b)
	r.amount += f()
	if d.Threads() == 1 {
		r.seconds += (host.ProcessTime(b) - processor).Seconds()
		return
	}
	r.seconds += time.Since(start).Seconds()
}

func (r *rate) perSecond() float64 { return r.amount / r.seconds }

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
