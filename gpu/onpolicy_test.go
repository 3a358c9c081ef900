package gpu_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"

	"understudy/gpu"
	"understudy/gpu/cuda"
	"understudy/gpu/generate"
	"understudy/gpu/host"
)

// TestGeneratedIsOnPolicy: what the engine wrote, in groups of rollouts that
// share their prompt's pages, through adapters and without, has probability
// ratio 1 in the training forward; and again after an update and a Flush.
func TestGeneratedIsOnPolicy(t *testing.T) {
	t.Run("host", func(t *testing.T) { generatedIsOnPolicy(t, newHost(t, host.Options{Threads: 2}), 3) })
	t.Run("cuda", func(t *testing.T) { generatedIsOnPolicy(t, emulated(t, cuda.Options{}), 2) })
	t.Run("cuda bf16", func(t *testing.T) { generatedIsOnPolicy(t, emulated(t, cuda.Options{Products: gpu.BF16}), 1) })
}

func generatedIsOnPolicy(t *testing.T, dev gpu.Device, rounds int) {
	t.Helper()
	m := newModel(t, dev, tiny(gpu.Qwen3, true))
	if _, err := m.AddAdapter("rehearse", gpu.AdapterConfig{Rank: 4, Alpha: 8}, 2); err != nil {
		t.Fatal(err)
	}
	tr := newTrainer(t, m, gpu.TrainerConfig{Tokens: 8 * m.Context, Adapters: []string{"rehearse"}})
	o, err := tr.NewAdamW(gpu.DefaultAdamW(0.05))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := generate.New(m, generate.Config{Batch: 5, Prefill: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	rng := rand.New(rand.NewPCG(8, 8))
	for round := range rounds {
		b, sampled := generated(t, engine, rng)
		got := score(t, tr, b)
		for i, want := range sampled {
			if got.LogProb[i] != want {
				t.Fatalf("round %d, target %d: log-probability %v in training, %v when it was drawn", round, i, got.LogProb[i], want)
			}
		}
		dlogp := make([]float32, len(sampled))
		for i := range dlogp {
			dlogp[i] = float32(math.Sin(float64(i))) / float32(len(dlogp))
		}
		if err := tr.Backward(dlogp, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Update(); err != nil {
			t.Fatal(err)
		}
		if err := engine.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}

// generated is two groups of four rollouts, packed, and the log-probability of
// each sampled token.
func generated(t *testing.T, engine *generate.Engine, rng *rand.Rand) (*gpu.Batch, []float32) {
	t.Helper()
	prompts := [][]int32{randomTokens(rng, 21, 37), randomTokens(rng, 30, 37)}
	results := make([]*generate.Result, 8)
	group, ctx := errgroup.WithContext(t.Context())
	for i := range results {
		request := generate.Request{
			Prompt: prompts[i/4], Max: 20, IgnoreEnd: true, Adapter: []string{"", "rehearse"}[i/4],
			Sampling: generate.Sampling{Temperature: 0.7, Seed: rng.Uint64()},
		}
		group.Go(func() (err error) {
			results[i], err = engine.Generate(ctx, request)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	b, sampled, shared := &gpu.Batch{}, []float32{}, 0
	for i, r := range results {
		start := len(b.Tokens)
		b.Tokens = append(append(b.Tokens, prompts[i/4]...), r.IDs()...)
		b.Lengths = append(b.Lengths, int32(len(b.Tokens)-start))
		b.Adapters = append(b.Adapters, adapterSpan([]string{"", "", "", "", "rehearse", "rehearse", "rehearse", "rehearse"}, i, start, len(b.Tokens))...)
		for j, token := range r.Tokens {
			b.Rows, b.Targets = append(b.Rows, int32(start+len(prompts[i/4])+j-1)), append(b.Targets, token.ID)
			b.Scale, sampled = append(b.Scale, float32(1/0.7)), append(sampled, token.Tempered)
		}
		shared += r.Shared
	}
	if shared == 0 {
		t.Error("the rollouts of a group shared nothing of their prompt")
	}
	return b, sampled
}
