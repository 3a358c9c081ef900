package gpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"understudy/gpu"
)

// rollouts samples continuations with Runner.Step: prompts in chunks, then token
// by token, rows of several sequences together. It gives whole sequences and the
// log-probability of each sampled token under its temperature.
type rollouts struct {
	tokens [][]int32
	prompt []int
	logp   [][]float32
	scale  float32
	spans  []string // adapter of each sequence
}

func rollOut(tb testing.TB, m *gpu.Model, rng *rand.Rand, adapters []string) rollouts {
	tb.Helper()
	r := newRunner(tb, m)
	defer r.Free()
	out := rollouts{scale: 1 / float32(0.7), spans: adapters}
	pages := [][]int32{{0, 5, 7}, {1, 4, 6}, {2, 3, 8}}
	next := make([]gpu.Logits, len(pages))
	for i := range pages {
		prompt := randomTokens(rng, 6+7*i, m.Vocab)
		out.tokens, out.prompt, out.logp = append(out.tokens, prompt), append(out.prompt, len(prompt)), append(out.logp, nil)
		for _, chunk := range [][2]int{{0, 5}, {5, len(prompt)}} {
			var s gpu.Step
			rowsOf(&s, prompt, chunk[0], chunk[1], pages[i])
			s.Wanted, s.Scale = s.Wanted[len(s.Wanted)-1:], []float32{out.scale}
			s.Adapters = adapterSpan(adapters, i, 0, len(s.Tokens))
			next[i] = step(tb, r, &s)
		}
	}
	row := func(i int) ([]float32, float32) { return next[i].Row(0), next[i].LSE[0] }
	for range 24 {
		var s gpu.Step
		for i := range pages {
			logits, lse := row(i)
			token, logp := sample(rng, logits, out.scale, lse)
			out.tokens[i], out.logp[i] = append(out.tokens[i], token), append(out.logp[i], logp)
			n := len(out.tokens[i])
			s.Adapters = append(s.Adapters, adapterSpan(adapters, i, len(s.Tokens), len(s.Tokens)+1)...)
			rowsOf(&s, out.tokens[i], n-1, n, pages[i])
			s.Scale = append(s.Scale, out.scale)
		}
		all := step(tb, r, &s)
		row = func(i int) ([]float32, float32) { return all.Row(i), all.LSE[i] }
	}
	return out
}

func adapterSpan(adapters []string, i, from, to int) []gpu.Span {
	if i >= len(adapters) || adapters[i] == "" {
		return nil
	}
	return []gpu.Span{{Adapter: adapters[i], From: from, To: to}}
}

func sample(rng *rand.Rand, logits []float32, scale, lse float32) (int32, float32) {
	u := rng.Float64()
	for i, z := range logits {
		if u -= math.Exp(float64(gpu.LogProb(z, scale, lse))); u < 0 {
			return int32(i), gpu.LogProb(z, scale, lse)
		}
	}
	last := len(logits) - 1
	return int32(last), gpu.LogProb(logits[last], scale, lse)
}

// batch packs the rollouts and scores what was sampled.
func (r rollouts) batch() (b *gpu.Batch, sampled []float32) {
	b = &gpu.Batch{}
	for i, tokens := range r.tokens {
		start := len(b.Tokens)
		b.Tokens, b.Lengths = append(b.Tokens, tokens...), append(b.Lengths, int32(len(tokens)))
		b.Adapters = append(b.Adapters, adapterSpan(r.spans, i, start, len(b.Tokens))...)
		for j, logp := range r.logp[i] {
			row := start + r.prompt[i] + j
			b.Rows, b.Targets = append(b.Rows, int32(row-1)), append(b.Targets, b.Tokens[row])
			b.Scale, sampled = append(b.Scale, r.scale), append(sampled, logp)
		}
	}
	return b, sampled
}

// TestRatioIsOne: at the first update after a rollout the probability ratio of
// every sampled token is exactly 1, on a random model and after ten updates,
// with adapters and without (issue 6).
func TestRatioIsOne(t *testing.T) {
	for _, kind := range []string{gpu.Qwen3, gpu.Llama} {
		for _, dev := range devices(t) {
			for _, adapters := range [][]string{nil, {"act", "", "rehearse"}} {
				name := kind + " " + dev.Name()
				if adapters != nil {
					name += " adapters"
				}
				t.Run(name, func(t *testing.T) { ratioIsOne(t, dev, kind, adapters) })
			}
		}
	}
}

func ratioIsOne(t *testing.T, dev gpu.Device, kind string, adapters []string) {
	t.Helper()
	m := newModel(t, dev, tiny(kind, kind == gpu.Qwen3))
	config := gpu.TrainerConfig{Tokens: 160}
	for i, name := range adapters {
		if name == "" {
			continue
		}
		a, err := m.AddAdapter(name, gpu.AdapterConfig{Rank: 3 + i, Alpha: 8}, 1)
		if err != nil {
			t.Fatal(err)
		}
		roughen(t, a.Params, dev, uint64(i))
		config.Adapters = append(config.Adapters, name)
	}
	tr := newTrainer(t, m, config)
	o, err := tr.NewAdamW(gpu.DefaultAdamW(1e-2))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(11, 12))
	var first float32
	for update := range 11 {
		b, sampled := rollOut(t, m, rng, adapters).batch()
		got := score(t, tr, b)
		for i, want := range sampled {
			if ratio := math.Exp(float64(got.LogProb[i]) - float64(want)); ratio != 1 {
				t.Fatalf("after %d updates, target %d: ratio %.9g, log-probability %v in training, %v in the rollout",
					update, i, ratio, got.LogProb[i], want)
			}
		}
		dlogp := make([]float32, len(sampled))
		for i := range dlogp {
			dlogp[i] = -1 / float32(len(dlogp)) * float32(1-2*(i%2))
		}
		if err := tr.Backward(dlogp, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Update(); err != nil {
			t.Fatal(err)
		}
		if moved := score(t, tr, b).LogProb[0]; moved == got.LogProb[0] {
			t.Errorf("update %d moved nothing", update+1)
		}
		if update == 0 {
			first = got.LogProb[0]
		} else if first == got.LogProb[0] {
			t.Error("every rollout gives the same log-probability: nothing is sampled")
		}
	}
}
