package generate_test

import (
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/generate"
	"understudy/gpu/host"
)

// The numbers that roll out are those that train: a training forward over a whole
// conversation of two turns gives each sampled token the log-probability that it
// was sampled with, bit for bit (issue 6: the ratio at the first update is 1).
func TestRolloutsAreOnPolicy(t *testing.T) {
	t.Parallel()
	dev, err := host.New(host.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dev.Close)
	e := engineOn(t, dev, generate.Config{Batch: 6, Prefill: 10})
	first := request(1, 37, 11)
	first.Sampling.Temperature, first.Hold = 0.8, true
	rollouts, err := e.Rollouts(t.Context(), first, 4)
	if err != nil {
		t.Fatal(err)
	}
	batch := &gpu.Batch{}
	var want []float32
	add := func(sequence []int32, at int, tokens []generate.Token) {
		for i, token := range tokens {
			batch.Rows = append(batch.Rows, int32(at+i-1))
			batch.Targets = append(batch.Targets, sequence[at+i])
			batch.Scale = append(batch.Scale, first.Sampling.Scale())
			want = append(want, token.Tempered)
		}
	}
	for i, begun := range rollouts {
		second := request(uint64(50+i), 6, 9)
		second.Sampling.Temperature = 0.8
		second.Prompt = slices.Concat(first.Prompt, begun.IDs(), second.Prompt)
		ended := run(t, e, second)
		if ended.Shared != len(first.Prompt)+len(begun.Tokens)-1 {
			t.Errorf("rollout %d: %d tokens of its first turn were shared", i, ended.Shared)
		}
		begun.Release()
		sequence := slices.Concat(second.Prompt, ended.IDs())
		offset := len(batch.Tokens)
		batch.Tokens = append(batch.Tokens, sequence...)
		batch.Lengths = append(batch.Lengths, int32(len(sequence)))
		from := len(batch.Rows)
		add(sequence, len(first.Prompt), begun.Tokens)
		add(sequence, len(second.Prompt), ended.Tokens)
		for r := from; r < len(batch.Rows); r++ {
			batch.Rows[r] += int32(offset)
		}
	}
	trainer, err := e.Model().NewTrainer(gpu.TrainerConfig{Tokens: len(batch.Tokens)})
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Free()
	var scores gpu.Scores
	if err := trainer.Forward(batch, &scores); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(scores.LogProb, want) {
		t.Errorf("trained on %v, rolled out with %v", scores.LogProb, want)
	}
	noLeaks(t, e)
}
