package gpu_test

import (
	"fmt"
	"log"

	"understudy/gpu"
	"understudy/gpu/reference"
)

// A tiny model learns to count to six, and counts.
func Example() {
	device := reference.New(reference.Single) // host.New is the fast one
	model, err := gpu.NewRandom(device, gpu.Config{
		Type: gpu.Qwen3, Layers: 1, Width: 16, Hidden: 32, Vocab: 8, Context: 32,
		Heads: gpu.Heads{H: 2, G: 1, D: 8}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, Tied: true, BOS: -1,
	}, 1)
	if err != nil {
		log.Fatal(err)
	}
	if err := learn(model, []int32{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}); err != nil {
		log.Fatal(err)
	}
	text, err := count(model, 1, 6)
	fmt.Println(text, err)
	// Output: [1 2 3 4 5 6] <nil>
}

// learn raises the log-probability of each token after those before it.
func learn(model *gpu.Model, tokens []int32) error {
	trainer, err := model.NewTrainer(gpu.TrainerConfig{Tokens: len(tokens)})
	if err != nil {
		return err
	}
	defer trainer.Free()
	optimizer, err := trainer.NewAdamW(gpu.DefaultAdamW(0.02))
	if err != nil {
		return err
	}
	batch := &gpu.Batch{Tokens: tokens, Lengths: []int32{int32(len(tokens))}, Targets: tokens[1:]}
	dloss := make([]float32, len(tokens)-1) // the loss is the mean of −logprob
	for i := range dloss {
		batch.Rows = append(batch.Rows, int32(i))
		dloss[i] = -1 / float32(len(dloss))
	}
	var scores gpu.Scores
	for range 60 {
		if err := trainer.Forward(batch, &scores); err != nil {
			return err
		}
		if err := trainer.Backward(dloss, nil); err != nil {
			return err
		}
		if _, err := optimizer.Update(); err != nil {
			return err
		}
	}
	return nil
}

// count continues a token greedily to n tokens, on one page of the KV arena.
func count(model *gpu.Model, first int32, n int) ([]int32, error) {
	runner, err := model.NewRunner(gpu.RunnerConfig{Pages: 1, Rows: 1, Wanted: 1, Sequences: 1, Context: gpu.PageSize})
	if err != nil {
		return nil, err
	}
	defer runner.Free()
	text := []int32{first}
	var out gpu.Logits
	for p := range int32(n - 1) {
		step := &gpu.Step{
			Tokens: text[p:], Positions: []int32{p}, Slots: []int32{p}, Sequences: []int32{0}, Tables: [][]int32{{0}}, Wanted: []int32{0},
		}
		if err := runner.Step(step, &out); err != nil {
			return nil, err
		}
		best := int32(0)
		for id, logit := range out.Row(0) {
			if logit > out.Row(0)[best] {
				best = int32(id)
			}
		}
		text = append(text, best)
	}
	return text, nil
}
