package starlark

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// What drawing one possible world may use: most draws are thrown away.
const (
	possibleBytes = 64 << 20
	possibleWall  = 10 * time.Second
	possibleSteps = 50_000_000
)

var _ audit.Believer = (*Environment)(nil)

// Possible implements audit.Believer by the domain's possible(rng, seen, n).
func (e *Environment) Possible(ctx context.Context, id string, seen []audit.Answered, seed uint64, n int) ([]json.RawMessage, error) {
	d := e.domain
	if d.makePossible == nil {
		return nil, &audit.Error{
			Code: audit.CodeUnprocessable, Message: "domain " + d.Manifest.Name + " does not say which worlds a prompt leaves possible",
			Hint: "define possible(rng, seen, n) in one of its files",
		}
	}
	t, err := d.findTask(ctx, id)
	if err != nil {
		return nil, err
	}
	given, err := whatIsSeen(t, seen)
	if err != nil {
		return nil, d.broken("read what is seen of task "+id, err)
	}
	r := d.newRun(uint64(n) * possibleSteps) //nolint:gosec // n is a count
	r.tx = state.View(given)
	r.bytes = -int64(n) * possibleBytes
	var worlds []json.RawMessage
	err = r.within(ctx, time.Duration(n)*possibleWall, func() error {
		args := starlark.Tuple{newRNG(seed, "possible/"+id), r.tx.Root(), starlark.MakeInt(n)}
		found, err := starlark.Call(r.thread, d.makePossible, args, nil)
		if err != nil {
			return err
		}
		list, ok := found.(*starlark.List)
		if !ok {
			return fmt.Errorf("possible returned %s, not a list", state.JSONType(found))
		}
		for i := range list.Len() {
			frozen, err := state.Freeze(list.Index(i))
			if err != nil {
				return err
			}
			worlds = append(worlds, state.AppendJSON(nil, frozen))
		}
		return nil
	})
	if err != nil {
		return nil, d.broken("draw possible worlds of task "+id, err)
	}
	return worlds, nil
}

// whatIsSeen is {"world": seed, "facts": of the user, "answers": [[tool, arguments, answer]]}.
func whatIsSeen(t *task, answers []audit.Answered) (*state.Object, error) {
	type object struct {
		World   uint64          `json:"world"`
		Facts   json.RawMessage `json:"facts"`
		Answers [][3]any        `json:"answers"`
	}
	seen := object{World: t.world, Facts: t.User, Answers: [][3]any{}}
	for _, a := range answers {
		seen.Answers = append(seen.Answers, [3]any{a.Call.Tool, a.Call.Arguments, json.RawMessage(a.Raw)})
	}
	text, err := json.Marshal(seen)
	if err != nil {
		return nil, fmt.Errorf("encode what is seen: %w", err)
	}
	return state.DecodeObject(text)
}
