package gate

import (
	"context"
	"fmt"

	"understudy/audit"
)

// NewWorld makes a world for Selftest of an environment's own tasks: the
// solutions of n tasks, in forced and in open mode, and n calls that the
// environment refuses, in forced and in canary mode. The seed chooses the
// refused calls.
func NewWorld(ctx context.Context, env audit.Environment, seed uint64, n int) (World, error) {
	tasker, ok := env.(audit.Tasker)
	if !ok {
		return World{}, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("environment %s lists no tasks", env.Info().Name),
			Hint: "run the selftest on an environment with tasks, such as a built-in domain",
		}
	}
	tasks, err := tasker.Tasks(ctx, 0, n)
	if err != nil {
		return World{}, fmt.Errorf("list tasks of %s: %w", env.Info().Name, err)
	}
	refused, err := audit.Canaries(ctx, env, seed, n)
	if err != nil {
		return World{}, fmt.Errorf("make calls that %s refuses: %w", env.Info().Name, err)
	}
	w := World{Environment: env}
	add := func(ep audit.Episode, modes ...audit.Mode) {
		id := ep.ID
		for _, mode := range modes {
			ep.Mode, ep.ID, ep.PromptGroup = mode, id+"/"+string(mode), id+"/"+string(mode)
			ep.Environment = env.Info().Name
			w.Episodes = append(w.Episodes, ep)
		}
	}
	for _, task := range tasks {
		ep := audit.Episode{ID: task.ID, Start: audit.Start{Task: task.ID}}
		for i, call := range task.Solution {
			ep.Actions = append(ep.Actions, audit.Action{Step: i, Message: i, Call: call})
		}
		add(ep, audit.Forced, audit.Open)
	}
	for _, ep := range refused {
		if ep.Start.Shared == "" { // the rehearser's own session would be a second hand on a shared state
			add(ep, audit.Forced, audit.Canary)
		}
	}
	return w, nil
}
