// Package local is a policy on the built-in engine.
package local

import (
	"context"
	"errors"
	"fmt"

	"understudy/audit"
	"understudy/envace"
	"understudy/gpu/generate"
)

// Policy is a model, or one a role, that writes in a format. It is safe for
// concurrent use.
type Policy struct {
	Format  envace.Format
	Engines map[audit.PolicyRole]*generate.Engine // WholePolicy plays every role that has no engine of its own
	// Temperature of what is sampled; 0 = 1. Truncated sampling would need a
	// correction in the trainer (facts/envace.md, trap 5), so there is none.
	Temperature float64
	Adapters    map[audit.PolicyRole]string // LoRA adapter of each role
}

var _ envace.Policy = (*Policy)(nil)

// Generate implements envace.Policy.
func (p *Policy) Generate(ctx context.Context, r envace.Request) (envace.Output, error) {
	prompt, err := p.Format.Prompt(r.Transcript, r.Role, r.Call)
	if err != nil {
		return envace.Output{}, err
	}
	temperature := p.Temperature
	if temperature == 0 {
		temperature = 1
	}
	if r.Greedy {
		temperature = 0
	}
	engine := p.engine(r.Role)
	room := engine.Context() - len(prompt)
	if room < 1 {
		return envace.Output{}, fmt.Errorf("%d tokens, %d are read: %w", len(prompt), engine.Context(), envace.ErrPrompt)
	}
	result, err := engine.Generate(ctx, generate.Request{
		Prompt: prompt, Max: min(r.Max, room), Adapter: p.Adapters[r.Role],
		Sampling: generate.Sampling{Temperature: temperature, Seed: r.Seed}, Emit: emitFirst(r.First),
	})
	if errors.Is(err, generate.ErrContext) || errors.Is(err, generate.ErrBudget) {
		return envace.Output{}, fmt.Errorf("%w: %w", envace.ErrPrompt, err)
	}
	if err != nil {
		return envace.Output{}, err
	}
	output := envace.Output{
		Role: r.Role, Prompt: prompt, Text: result.Text, Truncated: result.Finish == generate.FinishLength,
		Tokens: make([]int32, len(result.Tokens)), LogProbs: make([]float32, len(result.Tokens)),
	}
	for i, token := range result.Tokens {
		output.Tokens[i], output.LogProbs[i] = token.ID, token.Tempered
	}
	return output, nil
}

// emitFirst calls first with the first token; nil for nil.
func emitFirst(first func()) func(generate.Delta) error {
	if first == nil {
		return nil
	}
	return func(generate.Delta) error {
		if first != nil {
			first()
			first = nil
		}
		return nil
	}
}

func (p *Policy) engine(role audit.PolicyRole) *generate.Engine {
	if engine := p.Engines[role]; engine != nil {
		return engine
	}
	return p.Engines[audit.WholePolicy]
}
