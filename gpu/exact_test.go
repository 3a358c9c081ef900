package gpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/host"
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
	pages := make([][]int32, 3)
	for p := range int32(r.Pages) { // every third page belongs to a sequence
		pages[p%3] = append(pages[p%3], p)
	}
	next := make([]gpu.Logits, len(pages))
	for i := range pages {
		pages[i] = pages[i][:(r.Context+gpu.PageSize-1)/gpu.PageSize]
		prompt := randomTokens(rng, r.Context/8+i*r.Context/7, m.Vocab)
		out.tokens, out.prompt, out.logp = append(out.tokens, prompt), append(out.prompt, len(prompt)), append(out.logp, nil)
		for from := 0; from < len(prompt); from += r.Rows - 3 {
			chunk := [2]int{from, min(from+r.Rows-3, len(prompt))}
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
		for _, dev := range exactDevices(t) {
			for _, adapters := range [][]string{nil, {"act", "", "rehearse"}} {
				name := kind + " " + nameOf(dev)
				if adapters != nil {
					name += " adapters"
				}
				updates := 10
				if _, slow := dev.(*cuda.Device); slow { // on its emulator
					updates = 1
				}
				t.Run(name, func(t *testing.T) { ratioIsOne(t, newModel(t, dev, tiny(kind, kind == gpu.Qwen3)), adapters, updates) })
			}
		}
	}
}

// TestRatioIsOneAtSize is the same where products are cut into blocks and
// attention walks many chunks of keys.
func TestRatioIsOneAtSize(t *testing.T) {
	for _, kernels := range host.Kernels() {
		if kernels == "go" && len(host.Kernels()) > 1 {
			continue // slow, and without other paths, as the reference is
		}
		dev := newHost(t, host.Options{Kernels: kernels, Threads: 2})
		t.Run(dev.Name(), func(t *testing.T) {
			m, err := gpu.NewRandom(dev, gpu.Config{
				Type: gpu.Qwen3, Layers: 2, Width: 288, Hidden: 540, Vocab: 1001, Context: 400,
				Heads: gpu.Heads{H: 6, G: 2, D: 64}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 1e6}, Tied: true, BOS: -1,
			}, 4)
			if err != nil {
				t.Fatal(err)
			}
			ratioIsOne(t, m, nil, 1)
		})
	}
}

func ratioIsOne(t *testing.T, m *gpu.Model, adapters []string, updates int) {
	t.Helper()
	dev, config := m.Device(), gpu.TrainerConfig{Tokens: 3 * m.Context}
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
	for update := range updates + 1 {
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
