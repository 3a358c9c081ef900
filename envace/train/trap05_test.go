package train_test

import (
	"math"
	"testing"

	"understudy/envace/grpo"
	"understudy/gpu"
	"understudy/gpu/generate"
	"understudy/gpu/host"
)

// Trap 5 of facts/envace.md, section 6: tokens that were drawn with top_p < 1 have, under
// the untruncated policy, the kept mass as their ratio to what they were drawn from;
// with the generator's untruncated log-probabilities the ratio is 1.
func TestTrap05TruncatedSamplingNeedsACorrection(t *testing.T) {
	t.Parallel()
	const topP, vocabulary = .3, 40
	device, err := host.New(host.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	shape := gpu.Config{
		Type: gpu.Qwen3, Layers: 1, Width: 32, Hidden: 48, Vocab: vocabulary, Context: 64, Heads: gpu.Heads{H: 2, G: 1, D: 16},
		Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, Tied: true, BOS: -1,
	}
	model, err := gpu.NewRandom(device, shape, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = model.Close() }()
	engine, err := generate.New(model, generate.Config{Batch: 2, Prefill: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	prompt := []int32{1, 2, 3}
	result, err := engine.Generate(t.Context(), generate.Request{
		Prompt: prompt, Max: 30, TopLogProbs: 20, Sampling: generate.Sampling{Temperature: 1, TopP: topP, Seed: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	batch := gpu.Batch{Tokens: append([]int32{}, prompt...)}
	for i, token := range result.Tokens {
		batch.Rows, batch.Targets = append(batch.Rows, int32(len(prompt)+i-1)), append(batch.Targets, token.ID)
		batch.Tokens = append(batch.Tokens, token.ID)
	}
	batch.Lengths = []int32{int32(len(batch.Tokens))}
	scorer, err := model.NewTrainer(gpu.TrainerConfig{Tokens: len(batch.Tokens), ScoreOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer scorer.Free()
	var scores gpu.Scores
	if err := scorer.Forward(&batch, &scores); err != nil {
		t.Fatal(err)
	}
	var drawn, whole grpo.Row
	kept := 0.0
	for i, token := range result.Tokens {
		p := float64(scores.LogProb[i])
		drawn.LogProb, drawn.Old = append(drawn.LogProb, p), append(drawn.Old, float64(token.Drawn))
		whole.LogProb, whole.Old = append(whole.LogProb, p), append(whole.Old, float64(token.Tempered))
		mass := 0.0
		for _, likely := range token.Top {
			if mass >= topP {
				break
			}
			mass += math.Exp(float64(likely.LogProb))
		}
		if mass < topP {
			t.Fatalf("token %d: the %d most likely have a mass of %v", i, len(token.Top), mass)
		}
		kept += mass
	}
	n := len(result.Tokens)
	loss := grpo.Loss{ClipLow: .2, ClipHigh: .2}
	for _, test := range []struct {
		row    grpo.Row
		want   float64
		reason string
	}{{drawn, kept / float64(n), "uncorrected: the kept mass"}, {whole, 1, "corrected: 1"}} {
		part, err := loss.Row(test.row, 1/float64(n), make([]float64, n))
		if err != nil {
			t.Fatal(err)
		}
		if got := part.Ratio / float64(n); math.Abs(got-test.want) > 1e-5 {
			t.Errorf("%s: the mean ratio is %v, want %v", test.reason, got, test.want)
		}
	}
	if kept/float64(n) > .95 {
		t.Errorf("%v of the mass is kept: the test says nothing", kept/float64(n))
	}
}
