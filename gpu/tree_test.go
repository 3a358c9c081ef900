package gpu_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/host"
	"understudy/gpu/reference"
)

// family is a prompt with two continuations, of which the first has two of its
// own, and a sequence apart: as a tree, and as four whole sequences. Both score
// the same tokens in the same order.
func family(rng *rand.Rand, vocab int) (tree, whole *gpu.Batch) {
	parts := [][]int32{
		randomTokens(rng, 19, vocab), // 0 the prompt
		randomTokens(rng, 7, vocab),  // 1 continues 0
		randomTokens(rng, 5, vocab),  // 2 continues 1
		randomTokens(rng, 9, vocab),  // 3 apart
		randomTokens(rng, 11, vocab), // 4 continues 0
		randomTokens(rng, 3, vocab),  // 5 continues 1
	}
	tree = &gpu.Batch{Parents: []int32{-1, 0, 1, -1, 0, 1}}
	begin := make([]int32, len(parts))
	for i, p := range parts {
		begin[i] = int32(len(tree.Tokens))
		tree.Tokens, tree.Lengths = append(tree.Tokens, p...), append(tree.Lengths, int32(len(p)))
	}
	whole = &gpu.Batch{}
	for _, chain := range [][]int{{0, 1, 2}, {3}, {0, 4}, {0, 1, 5}} {
		start, last := int32(len(whole.Tokens)), int32(-1) // last: the row before, in the tree
		for _, part := range chain {
			for i, token := range parts[part] {
				if last >= 0 {
					tree.Rows, tree.Targets = append(tree.Rows, last), append(tree.Targets, token)
					whole.Rows, whole.Targets = append(whole.Rows, int32(len(whole.Tokens))-1), append(whole.Targets, token)
				}
				last = begin[part] + int32(i)
				whole.Tokens = append(whole.Tokens, token)
			}
		}
		whole.Lengths = append(whole.Lengths, int32(len(whole.Tokens))-start)
	}
	return tree, whole
}

// TestTreeIsWhole: rollouts that continue one prompt have the bits of whole
// sequences, with checkpointing and without.
func TestTreeIsWhole(t *testing.T) {
	for _, dev := range exactDevices(t) {
		for _, kind := range []string{gpu.Qwen3, gpu.Llama} {
			t.Run(kind+" "+nameOf(dev), func(t *testing.T) {
				m := newModel(t, dev, tiny(kind, false))
				tree, whole := family(rand.New(rand.NewPCG(6, 1)), m.Vocab)
				tr := newTrainer(t, m, gpu.TrainerConfig{Tokens: 100, Expanded: 100, Targets: 100})
				want := score(t, tr, whole)
				got := score(t, tr, tree)
				if !slices.Equal(got.LogProb, want.LogProb) || !slices.Equal(got.Entropy, want.Entropy) {
					t.Errorf("tree %v\nwhole %v", got.LogProb, want.LogProb)
				}
				gradients(t, tr, whole)
				saving := newTrainer(t, m, gpu.TrainerConfig{Tokens: 100, Expanded: 100, Targets: 100, Checkpoint: true, LogitRows: 16})
				gradients(t, saving, tree)
				a, b := download(t, dev, tr.Gradients("")), download(t, dev, saving.Gradients(""))
				if gpu.ActivationType(dev) == gpu.BF16 { // those of a prompt's keys and values are rounded once, or once for each that continues it
					if off := distance(a, b); off > 0.01 {
						t.Errorf("gradients as a tree are %.2g of the whole away", off)
					}
					return
				}
				for i := range a {
					if math.Abs(float64(a[i]-b[i])) > 1e-4*(1+math.Abs(float64(a[i]))) {
						t.Fatalf("gradient %d: %v whole, %v as a tree with checkpointing", i, a[i], b[i])
					}
				}
			})
		}
	}
}

// TestTreeGradients: gradients of a tree are those of whole sequences, up to the
// order of summation, in float64.
func TestTreeGradients(t *testing.T) {
	dev := reference.New(reference.Double)
	for _, kind := range []string{gpu.Qwen3, gpu.Llama} {
		m := newModel(t, dev, tiny(kind, false))
		b, whole := family(rand.New(rand.NewPCG(6, 1)), m.Vocab)
		one := newTrainer(t, m, gpu.TrainerConfig{Tokens: 100, Targets: 100})
		two := newTrainer(t, m, gpu.TrainerConfig{Tokens: 60, Expanded: 100, Targets: 100})
		gradients(t, one, whole)
		gradients(t, two, b)
		want, got := dev.Floats(one.Gradients("").Values), dev.Floats(two.Gradients("").Values)
		for i := range want {
			if math.Abs(want[i]-got[i]) > 1e-9*(1+math.Abs(want[i])) {
				t.Fatalf("%s: gradient %d is %.12g as a tree, %.12g whole", kind, i, got[i], want[i])
			}
		}
	}
}

// TestShare: batches whose sequences begin alike, made trees, have the same bits
// target by target and compute fewer rows.
func TestShare(t *testing.T) {
	dev := newHost(t, host.Options{Threads: 2})
	m := newModel(t, dev, tiny(gpu.Qwen3, true))
	for _, name := range []string{"act", "rehearse"} {
		a, err := m.AddAdapter(name, gpu.AdapterConfig{Rank: 2, Alpha: 4}, 1)
		if err != nil {
			t.Fatal(err)
		}
		roughen(t, a.Params, dev, uint64(len(name)))
	}
	tr := newTrainer(t, m, gpu.TrainerConfig{Tokens: 1000, Expanded: 1000, ScoreOnly: true})
	saved := 0
	for seed := range uint64(40) {
		b := alike(rand.New(rand.NewPCG(seed, 3)), m.Vocab)
		want := score(t, tr, b)
		logp, entropy := slices.Clone(want.LogProb), slices.Clone(want.Entropy)
		tree := b.Share()
		got := score(t, tr, tree)
		if !slices.Equal(got.LogProb, logp) || !slices.Equal(got.Entropy, entropy) {
			t.Fatalf("seed %d: a tree of %d rows scores %v\n%d rows whole %v", seed, len(tree.Tokens), got.LogProb, len(b.Tokens), logp)
		}
		saved += len(b.Tokens) - len(tree.Tokens)
	}
	if saved < 500 {
		t.Errorf("40 batches computed only %d rows less", saved)
	}
	for _, b := range []*gpu.Batch{
		batchOf([]int32{1, 2, 3}, []int32{1, 2, 4}), // 2 tokens are not worth it
		{Tokens: []int32{1}, Lengths: []int32{-1, 2}},
		{Tokens: []int32{1}, Lengths: []int32{2}},
		{Tokens: []int32{1}, Lengths: []int32{1}, Adapters: []gpu.Span{{From: -1, To: 5}}},
	} {
		if b.Share() != b {
			t.Errorf("%+v was changed", b)
		}
	}
}

// alike is up to eight sequences, most of which begin with a part of an earlier
// one, some through adapters.
func alike(rng *rand.Rand, vocab int) *gpu.Batch {
	var sequences [][]int32
	for i := range 3 + rng.IntN(6) {
		s := randomTokens(rng, 1+rng.IntN(30), vocab)
		if i > 0 && rng.IntN(4) > 0 {
			earlier := sequences[rng.IntN(i)]
			s = slices.Concat(earlier[:1+rng.IntN(len(earlier))], s)
		}
		sequences = append(sequences, s[:min(len(s), 60)])
	}
	sequences = append(sequences, sequences[0])
	b := batchOf(sequences...)
	at := 0
	for _, s := range sequences {
		if name := []string{"", "", "", "", "act", "rehearse"}[rng.IntN(6)]; name != "" {
			b.Adapters = append(b.Adapters, gpu.Span{Adapter: name, From: at, To: at + len(s)})
		}
		at += len(s)
	}
	return b
}

// BenchmarkSharedPrompt trains on 8 rollouts of 64 tokens after a prompt of 600,
// as a tree and as whole sequences, and gives the ratio of their times.
func BenchmarkSharedPrompt(b *testing.B) {
	dev := newHost(b, host.Options{})
	m, err := gpu.NewRandom(dev, gpu.Config{
		Type: gpu.Qwen3, Layers: 6, Width: 256, Hidden: 768, Vocab: 4096, Context: 1024,
		Heads: gpu.Heads{H: 4, G: 2, D: 64}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 1e4}, Tied: true, BOS: -1,
	}, 1)
	if err != nil {
		b.Fatal(err)
	}
	const rollouts, prompt, text = 8, 600, 64
	tr := newTrainer(b, m, gpu.TrainerConfig{Tokens: rollouts * (prompt + text), Targets: rollouts * text, Expanded: rollouts * (prompt + text)})
	defer tr.Free()
	rng := rand.New(rand.NewPCG(1, 1))
	question, whole := randomTokens(rng, prompt, m.Vocab), &gpu.Batch{}
	for range rollouts {
		written := randomTokens(rng, text, m.Vocab)
		for i, token := range written {
			whole.Rows, whole.Targets = append(whole.Rows, int32(len(whole.Tokens)+prompt+i-1)), append(whole.Targets, token)
		}
		whole.Tokens, whole.Lengths = append(append(whole.Tokens, question...), written...), append(whole.Lengths, prompt+text)
	}
	tree := whole.Share()
	var times [2][]float64
	for b.Loop() {
		for i, batch := range []*gpu.Batch{tree, whole} {
			times[i] = append(times[i], seconds(func() { gradients(b, tr, batch) }))
		}
	}
	b.ReportMetric(rollouts*text/median(times[0]), "text-tokens/s")
	b.ReportMetric(median(times[1])/median(times[0]), "times-whole")
}
