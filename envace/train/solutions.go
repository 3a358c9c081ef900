package train

import (
	"context"
	"errors"
	"fmt"

	"understudy/audit"
	"understudy/envace"
)

// Solutions is the world of grpo-recorded on an environment's tasks: the answers that
// the sandbox gives to the calls of a task's reference solution. Every other call is
// refused, as a recording does.
type Solutions struct{ Environment audit.Environment }

var _ envace.Source = Solutions{}

// Open implements envace.Source.
func (s Solutions) Open(ctx context.Context, task audit.Task) (envace.World, error) {
	turns, err := answered(ctx, s.Environment, task, task.Solution)
	if err != nil {
		return nil, fmt.Errorf("record task %s: %w", task.ID, err)
	}
	return envace.Recorded{Turns: map[string][]audit.Turn{task.ID: turns}}.Open(ctx, task)
}

// answered are calls, made in a world of their own, with their answers. A world that
// fails is envace.ErrWorld.
func answered(ctx context.Context, env audit.Environment, task audit.Task, calls []audit.Call) (turns []audit.Turn, err error) {
	world, err := envace.Executing{Environment: env}.Open(ctx, task)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, world.Close()) }()
	for _, call := range calls {
		answer, err := world.Answer(ctx, nil, call, 0)
		if err != nil {
			return nil, err
		}
		turns = append(turns, audit.Turn{Call: call, Answer: answer.Raw})
	}
	return turns, nil
}
