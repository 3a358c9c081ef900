package gpu_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/host"
)

// recipeTiny is the model of the trainer's recipe `tiny`, about a million parameters.
func recipeTiny() gpu.Config {
	return gpu.Config{
		Type: gpu.Qwen3, Layers: 4, Width: 128, Hidden: 384, Vocab: 384, Context: 256,
		Heads: gpu.Heads{H: 4, G: 2, D: 32}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 1e4}, Tied: true, BOS: -1,
	}
}

// BenchmarkRecipe is the work of the recipe `tiny` on one thread, as a sweep has it: training
// on 4 prompts with 8 rollouts each, as a tree and as whole sequences, and the steps of 64
// rollouts. Tokens are those of whole sequences.
func BenchmarkRecipe(b *testing.B) {
	dev := newHost(b, host.Options{Threads: 1})
	m, err := gpu.NewRandom(dev, recipeTiny(), 1)
	if err != nil {
		b.Fatal(err)
	}
	batch := packedRollouts(rand.New(rand.NewPCG(1, 1)), 4, 8, m.Vocab)
	n := len(batch.Tokens)
	for name, x := range map[string]*gpu.Batch{"train/tree": batch.Share(), "train/whole": batch} {
		b.Run(name, func(b *testing.B) {
			tr := newTrainer(b, m, gpu.TrainerConfig{Tokens: n, Expanded: n})
			defer tr.Free()
			o, err := tr.NewAdamW(gpu.DefaultAdamW(1e-4))
			if err != nil {
				b.Fatal(err)
			}
			var times []float64
			for b.Loop() {
				times = append(times, seconds(func() { trainStep(b, tr, o, x) }))
			}
			b.ReportMetric(float64(n)/median(times), "tokens/s")
			b.ReportMetric(float64(n)/slices.Min(times), "best-tokens/s")
		})
	}
	for _, rows := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("decode/%d", rows), func(b *testing.B) { benchmarkSteps(b, m, rows) })
	}
}

// packedRollouts are whole sequences: prompts of 150 tokens, each with some continuations of 30.
func packedRollouts(rng *rand.Rand, prompts, each, vocab int) *gpu.Batch {
	var list [][]int32
	for range prompts {
		prompt := randomTokens(rng, 150, vocab)
		for range each {
			list = append(list, append(slices.Clone(prompt), randomTokens(rng, 30, vocab)...))
		}
	}
	b := batchOf(list...)
	b.Rows, b.Targets = nil, nil
	for i := range list {
		for p := 150; p < 180; p++ {
			b.Rows, b.Targets = append(b.Rows, int32(i*180+p-1)), append(b.Targets, list[i][p])
		}
	}
	return b
}

// benchmarkSteps is decode steps at position 180.
func benchmarkSteps(b *testing.B, m *gpu.Model, rows int) {
	b.Helper()
	const pages = 12
	r, err := m.NewRunner(gpu.RunnerConfig{Pages: rows * pages, Rows: rows, Wanted: rows, Sequences: rows, Context: pages * gpu.PageSize})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Free()
	s, out := &gpu.Step{}, gpu.Logits{}
	for i := range int32(rows) {
		table := make([]int32, pages)
		for p := range table {
			table[p] = i*pages + int32(p)
		}
		s.Tables, s.Tokens, s.Positions = append(s.Tables, table), append(s.Tokens, i), append(s.Positions, 180)
		s.Sequences, s.Wanted, s.Slots = append(s.Sequences, i), append(s.Wanted, i), append(s.Slots, table[11]*gpu.PageSize+4)
	}
	var times []float64
	for b.Loop() {
		times = append(times, seconds(func() {
			if err := r.Step(s, &out); err != nil {
				b.Fatal(err)
			}
		}))
	}
	b.ReportMetric(float64(rows)/median(times), "tokens/s")
	b.ReportMetric(float64(rows)/slices.Min(times), "best-tokens/s")
}
