package train

import (
	"context"
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
	session, err := s.Environment.Open(ctx, audit.Start{Task: task.ID})
	if err != nil {
		return nil, fmt.Errorf("record task %s: %w: %w", task.ID, envace.ErrWorld, err)
	}
	var turns []audit.Turn
	for _, call := range task.Solution {
		seen, err := session.Call(ctx, call)
		if err != nil {
			_ = session.Close() // the first error says more
			return nil, fmt.Errorf("record %s of task %s: %w: %w", call.Tool, task.ID, envace.ErrWorld, err)
		}
		turns = append(turns, audit.Turn{Call: call, Answer: seen.Raw})
	}
	if err := session.Close(); err != nil {
		return nil, fmt.Errorf("record task %s: %w", task.ID, err)
	}
	return envace.Recorded{Turns: map[string][]audit.Turn{task.ID: turns}}.Open(ctx, task)
}
