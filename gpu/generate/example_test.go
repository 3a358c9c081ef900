package generate_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	"understudy/gpu"
	"understudy/gpu/generate"
	"understudy/gpu/reference"
)

// What a trainer does: rollouts of one prompt, a tool's answer after each, and on
// from there. The prompt is computed once, and no turn twice.
func Example() {
	model, err := gpu.NewRandom(reference.New(reference.Single), gpu.Config{ // host.New is the fast device
		Type: gpu.Qwen3, Layers: 1, Width: 16, Hidden: 32, Vocab: 64, Context: 128,
		Heads: gpu.Heads{H: 2, G: 1, D: 8}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, Tied: true, BOS: -1,
	}, 1)
	if err != nil {
		log.Fatal(err)
	}
	engine, err := generate.New(model, generate.Config{Batch: 4})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()

	ctx, prompt := context.Background(), []int32{5, 6, 7, 8, 9, 10, 11, 12}
	request := generate.Request{Prompt: prompt, Max: 6, Hold: true, Sampling: generate.Sampling{Temperature: 1, Seed: 1}}
	rollouts, err := engine.Rollouts(ctx, request, 4)
	if err != nil {
		log.Fatal(err)
	}
	for _, turn := range rollouts {
		answer := []int32{20, 21, 22} // of a tool
		next := request
		next.Prompt = slices.Concat(prompt, turn.IDs(), answer)
		next.Hold = false
		result, err := engine.Generate(ctx, next)
		if err != nil {
			log.Fatal(err)
		}
		turn.Release()
		fmt.Printf("%d of %d prompt tokens were there, %d new ones with log-probabilities\n", result.Shared, len(next.Prompt), len(result.Tokens))
	}
	// After new weights: engine.Flush.

	// Output:
	// 13 of 17 prompt tokens were there, 6 new ones with log-probabilities
	// 13 of 17 prompt tokens were there, 6 new ones with log-probabilities
	// 13 of 17 prompt tokens were there, 6 new ones with log-probabilities
	// 13 of 17 prompt tokens were there, 6 new ones with log-probabilities
}
