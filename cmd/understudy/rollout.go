package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"understudy/audit"
)

// rollouts makes what a policy does with tasks out of their reference solutions,
// which hold little but the writes. An agent looks before it writes, looks again
// after it, and now and then does something that the backend refuses.
type rollouts struct {
	env   audit.Environment
	tools []audit.Tool
	// wrong is, by task, a call that the sandbox refuses in the task's state.
	wrong map[string]audit.Call
}

// newRollouts takes the wrong calls from canaries, which were seen to be refused.
func newRollouts(ctx context.Context, env audit.Environment, canaries []audit.Episode) (*rollouts, error) {
	tools, err := env.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tools of %s: %w", env.Info().Name, err)
	}
	r := &rollouts{env: env, tools: tools, wrong: map[string]audit.Call{}}
	for i := range canaries {
		if c := &canaries[i]; len(c.Actions) == 1 && c.Actions[0].Canary.Level == audit.DomainLevel {
			r.wrong[c.Start.Task] = c.Actions[0].Call
		}
	}
	return r, nil
}

// of makes n rollouts of a task from the episode of its solution. Every second
// one looks closer, and the last one does the wrong thing instead of the right.
func (r *rollouts) of(ctx context.Context, task audit.Episode, n int) ([]audit.Episode, error) {
	out := make([]audit.Episode, n)
	for k := range out {
		calls := make([]audit.Call, 0, len(task.Actions))
		for i := range task.Actions {
			calls = append(calls, task.Actions[i].Call)
		}
		if wrong, ok := r.wrong[task.Start.Task]; ok && k > 0 && k == n-1 {
			calls = []audit.Call{wrong}
		}
		calls, err := r.walk(ctx, task.Start, calls, k%2 == 0)
		if err != nil {
			return nil, fmt.Errorf("rollout %d of %s: %w", k, task.ID, err)
		}
		e := task
		e.ID, e.Actions = fmt.Sprintf("%s/%d", task.ID, k), make([]audit.Action, 0, len(calls))
		for i, call := range calls {
			e.Actions = append(e.Actions, audit.Action{Step: i, Message: i, Call: call, Prompt: task.Actions[0].Prompt})
		}
		out[k] = e
	}
	return out, nil
}

// walk adds reads around the writes: those that show what each write will do and
// did, and, for one who looks closer, one read that their answers lead to.
func (r *rollouts) walk(ctx context.Context, start audit.Start, calls []audit.Call, closer bool) ([]audit.Call, error) {
	session, err := r.env.Open(ctx, start)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	walk := walk{session: session, seen: map[string]bool{}, facts: map[string]json.RawMessage{}}
	for _, call := range calls {
		looks := walk.probes(call)
		for _, look := range looks {
			err = walk.read(ctx, look)
			if linked, ok := r.linked(&walk); err == nil && closer && ok {
				err = walk.read(ctx, linked)
			}
			if err != nil {
				return nil, err
			}
		}
		if err := walk.make(ctx, call); err != nil {
			return nil, err
		}
		clear(walk.seen) // what was seen may have changed
		if !closer {
			continue
		}
		for _, look := range looks {
			if err := walk.read(ctx, look); err != nil {
				return nil, err
			}
		}
	}
	return walk.calls, nil
}

// linked is the first read, not made yet, whose arguments are all known by name.
func (r *rollouts) linked(w *walk) (audit.Call, bool) {
	for i := range r.tools {
		tool := &r.tools[i]
		var input struct {
			Required []string `json:"required"`
		}
		if tool.Effect != audit.Read || json.Unmarshal(tool.Input, &input) != nil || len(input.Required) == 0 {
			continue
		}
		args := map[string]json.RawMessage{}
		for _, name := range input.Required {
			if fact, ok := w.facts[name]; ok {
				args[name] = fact
			}
		}
		text, err := json.Marshal(args)
		call := audit.Call{Tool: tool.Name, Arguments: text, Role: tool.Role}
		if err == nil && len(args) == len(input.Required) && !w.seen[key(call)] {
			return call, true
		}
	}
	return audit.Call{}, false
}

// believe sets what each rollout takes itself to have achieved: its last write
// worked, as far as its rehearsals say.
func believe(rules *audit.Rules, tools []audit.Tool, episodes []audit.Episode) {
	writes := map[string]bool{}
	for i := range tools {
		writes[tools[i].Name] = tools[i].Effect != audit.Read
	}
	for i := range episodes {
		e := &episodes[i]
		for j := range e.Actions {
			if a := &e.Actions[j]; writes[a.Call.Tool] && a.Rehearsal != nil {
				e.Success = new(!rules.Of(a.Call.Tool).Read(a.Rehearsal.Raw).Outcome.IsError())
			}
		}
	}
}

// walk is one rollout in the making, in a session of its own.
type walk struct {
	session audit.Session
	calls   []audit.Call
	seen    map[string]bool            // reads since the last write
	facts   map[string]json.RawMessage // texts by the name they had in arguments and answers
}

func (w *walk) probes(call audit.Call) []audit.Call {
	if prober, ok := w.session.(audit.Prober); ok {
		return prober.Probes(call)
	}
	return nil
}

func (w *walk) read(ctx context.Context, call audit.Call) error {
	if w.seen[key(call)] {
		return nil
	}
	w.seen[key(call)] = true
	return w.make(ctx, call)
}

func (w *walk) make(ctx context.Context, call audit.Call) error {
	answer, err := w.session.Call(ctx, call)
	if err != nil {
		return err
	}
	w.calls = append(w.calls, call)
	for _, text := range []json.RawMessage{call.Arguments, answer.Raw} {
		var members map[string]json.RawMessage
		if json.Unmarshal(text, &members) != nil {
			continue // a list, or a refusal in plain words: nothing to go on from
		}
		for name, value := range members {
			if len(value) > 0 && value[0] == '"' {
				w.facts[name] = value
			}
		}
	}
	return nil
}

// key tells reads apart, whatever the order of their arguments.
func key(call audit.Call) string {
	var args map[string]json.RawMessage
	if json.Unmarshal(call.Arguments, &args) != nil {
		return call.Tool + " " + string(call.Arguments)
	}
	var text strings.Builder
	text.WriteString(call.Tool)
	for _, name := range slices.Sorted(maps.Keys(args)) {
		fmt.Fprintf(&text, " %s=%s", name, args[name])
	}
	return text.String()
}
