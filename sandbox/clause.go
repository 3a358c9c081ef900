package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/audit/diff"
)

// closing closes sessions at the end of a clause.
func closing(sessions ...audit.Session) {
	for _, s := range sessions {
		if s != nil {
			_ = s.Close() // a clause has its verdict by now
		}
	}
}

func (c *contract) sameSeed(ctx context.Context) (string, error) {
	if !c.env.Info().Deterministic {
		return "", notApplicable("not declared deterministic: what differs is noise")
	}
	one, first, err := c.written(ctx, audit.Start{Seed: 7})
	defer closing(one)
	if err != nil {
		return "", err
	}
	two, second, err := c.written(ctx, audit.Start{Seed: 7})
	defer closing(two)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(first.Raw, second.Raw) || first.After != second.After || !first.Delta.Equal(second.Delta) {
		return "", fmt.Errorf("two runs of one task differ: %s and %s", brief(first.Raw), brief(second.Raw))
	}
	return fmt.Sprintf("task %s: equal answers, deltas and digests twice", c.task.ID), nil
}

func (c *contract) differentSeed(ctx context.Context) (string, error) {
	if !c.can(audit.CanSeed) {
		return "", notApplicable("nothing depends on the seed")
	}
	one, err := c.prepared(ctx, audit.Start{Seed: 7})
	defer closing(one)
	if err != nil {
		return "", err
	}
	two, err := c.prepared(ctx, audit.Start{Seed: 8})
	defer closing(two)
	if err != nil {
		return "", err
	}
	for _, when := range []string{"", " after the same write"} {
		if when != "" {
			if err := c.writeBoth(ctx, one, two); err != nil {
				return "", err
			}
		}
		x, err := c.digestOf(ctx, one)
		if err != nil {
			return "", err
		}
		y, err := c.digestOf(ctx, two)
		if err != nil {
			return "", err
		}
		if x != y {
			return "seeds 7 and 8 give two states" + when, nil
		}
	}
	return "", errors.New("seeds 7 and 8 give one state: ids and randomness do not depend on the seed")
}

// can reports whether the environment names the capability.
func (c *contract) can(capability audit.Capability) bool {
	return slices.Contains(c.env.Info().Capabilities, capability)
}

// writeBoth makes the task's write in two sessions.
func (c *contract) writeBoth(ctx context.Context, sessions ...audit.Session) error {
	for _, s := range sessions {
		if _, err := s.Call(ctx, c.task.Solution[c.write]); err != nil {
			return err
		}
	}
	return nil
}

// writeThenRead looks for the written value where the delta says it is; without a
// state to read, for a change that the probes see.
func (c *contract) writeThenRead(ctx context.Context) (string, error) {
	s, obs, err := c.written(ctx, audit.Start{})
	defer closing(s)
	if err != nil {
		return "", err
	}
	st, err := able[audit.Stater](c, s, audit.CanState, "")
	if err != nil {
		return c.writeThenProbe(ctx, s, obs)
	}
	for _, op := range obs.Delta {
		if op.Value == nil {
			continue
		}
		got, err := st.State(ctx, op.Path)
		if err != nil {
			return "", err
		}
		want, errWant := diff.Decode(op.Value, diff.Limits{})
		have, errHave := diff.Decode(got, diff.Limits{})
		if err := errors.Join(errWant, errHave); err != nil {
			return "", err
		}
		if !diff.Equal(want, have) {
			return "", fmt.Errorf("%s holds %s after a write of %s", op.Path, brief(got), brief(op.Value))
		}
	}
	return fmt.Sprintf("%s: %d cells hold what the delta says", c.task.Solution[c.write].Tool, len(obs.Delta)), nil
}

func (c *contract) writeThenProbe(ctx context.Context, s audit.Session, obs audit.Observation) (string, error) {
	if _, err := c.digestOf(ctx, s); err != nil {
		return "", err
	}
	if obs.Evidence != audit.EvidenceProbed || len(obs.Delta) == 0 {
		return "", fmt.Errorf("the probes see no change after %s", c.task.Solution[c.write].Tool)
	}
	return fmt.Sprintf("%s: the probes see %d cells change, and go on seeing them", c.task.Solution[c.write].Tool, len(obs.Delta)), nil
}

// readOnly makes the reads of all solutions and looks for traces.
func (c *contract) readOnly(ctx context.Context) (string, error) {
	if len(c.reads) == 0 {
		return "", notApplicable("no task's solution reads")
	}
	if c.write < 0 {
		return "", notApplicable("no task's solution makes a call that is known to write")
	}
	s, err := c.prepared(ctx, audit.Start{})
	defer closing(s)
	if err != nil {
		return "", err
	}
	before, unseen := c.digestOf(ctx, s)
	if unseen != nil && !errors.Is(unseen, errNotApplicable) {
		return "", unseen
	}
	for _, call := range c.reads {
		obs, err := s.Call(ctx, call)
		if err != nil {
			return "", err
		}
		if len(obs.Delta) > 0 || obs.Before != obs.After {
			return "", fmt.Errorf("%s is declared a read and changed %s", call.Tool, obs.Delta)
		}
	}
	if unseen != nil {
		return "", notApplicable("what a read does cannot be seen")
	}
	after, err := c.digestOf(ctx, s)
	switch {
	case err != nil:
		return "", err
	case before != after:
		return "", errors.New("the state is another one after reads alone")
	}
	return fmt.Sprintf("reads of %d tools, no change", len(c.reads)), nil
}

// deltaExplains applies the delta to the state before and compares with after.
func (c *contract) deltaExplains(ctx context.Context) (string, error) {
	s, err := c.prepared(ctx, audit.Start{})
	defer closing(s)
	if err != nil {
		return "", err
	}
	before, err := c.stateOf(ctx, s)
	if err != nil {
		return "", err
	}
	obs, err := s.Call(ctx, c.task.Solution[c.write])
	if err != nil {
		return "", err
	}
	after, err := c.stateOf(ctx, s)
	if err != nil {
		return "", err
	}
	applied, err := obs.Delta.Apply(before)
	if err != nil {
		return "", err
	}
	reverted, err := obs.Delta.Invert().Apply(after)
	switch {
	case err != nil:
		return "", err
	case !diff.Equal(applied, after):
		return "", errors.New("the state before with the delta is not the state after")
	case !diff.Equal(reverted, before):
		return "", errors.New("the state after with the inverse delta is not the state before")
	case !obs.Delta.Equal(diff.Diff(before, after)):
		return "", fmt.Errorf("the delta is not canonical: %s", obs.Delta)
	}
	return fmt.Sprintf("before + %d operations = after, and back", len(obs.Delta)), nil
}

func (c *contract) snapshots(ctx context.Context) (string, error) {
	s, err := c.prepared(ctx, audit.Start{})
	defer closing(s)
	if err != nil {
		return "", err
	}
	snap, err := able[audit.Snapshotter](c, s, audit.CanSnapshot, "sessions have no snapshots")
	if err != nil {
		return "", err
	}
	before, err := c.digestOf(ctx, s)
	if err != nil {
		return "", err
	}
	id, err := snap.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	first, err := s.Call(ctx, c.task.Solution[c.write])
	if err != nil {
		return "", err
	}
	if err := snap.Restore(ctx, id); err != nil {
		return "", err
	}
	after, err := c.digestOf(ctx, s)
	if err != nil {
		return "", err
	}
	second, err := s.Call(ctx, c.task.Solution[c.write])
	switch {
	case err != nil:
		return "", err
	case before != after:
		return "", errors.New("the restored state is another")
	case !bytes.Equal(first.Raw, second.Raw) || first.After != second.After:
		return "", errors.New("the same call after restoring gives another answer")
	}
	snap.Drop(id)
	if err := snap.Restore(ctx, id); audit.ErrorCode(err) != audit.CodeNotFound {
		return "", fmt.Errorf("restoring a dropped snapshot: %w", orNil(err))
	}
	return "restored exactly; the call repeats to the byte", nil
}

// orNil makes a missing error visible in a message.
func orNil(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

func (c *contract) dryRun(ctx context.Context) (string, error) {
	s, err := c.prepared(ctx, audit.Start{})
	defer closing(s)
	if err != nil {
		return "", err
	}
	d, err := able[audit.DryRunner](c, s, audit.CanDryRun, "calls cannot be made dry")
	if err != nil {
		return "", err
	}
	dry, err := d.DryRun(ctx, c.task.Solution[c.write])
	if err != nil {
		return "", err
	}
	wet, err := s.Call(ctx, c.task.Solution[c.write])
	switch {
	case err != nil:
		return "", err
	case dry.Before != wet.Before:
		return "", errors.New("the dry run left a trace")
	case !bytes.Equal(dry.Raw, wet.Raw) || !dry.Delta.Equal(wet.Delta) || dry.After != wet.After:
		return "", fmt.Errorf("the dry run said %s, the call %s", brief(dry.Raw), brief(wet.Raw))
	}
	return "answer, delta and digest as predicted", nil
}

// invalid makes calls that no handler may ever see.
func (c *contract) invalid(ctx context.Context) (string, error) {
	s, err := c.prepared(ctx, audit.Start{})
	defer closing(s)
	if err != nil {
		return "", err
	}
	write := c.task.Solution[c.write]
	tests := []struct {
		call   audit.Call
		family audit.Family
	}{
		{audit.Call{Tool: "no_such_tool_anywhere", Arguments: []byte(`{}`)}, audit.UnknownTool},
		{audit.Call{Tool: write.Tool, Arguments: []byte(`{"a":`)}, audit.MalformedCall},
		{audit.Call{Tool: write.Tool, Arguments: []byte(`[1]`)}, audit.MalformedCall},
		{audit.Call{Tool: write.Tool, Arguments: []byte(`{"a":NaN}`)}, audit.MalformedCall},
		{audit.Call{Tool: write.Tool, Arguments: []byte(`{"a":1,"a":1}`)}, audit.MalformedCall},
		{audit.Call{Tool: write.Tool, Arguments: []byte(`{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`)}, audit.MalformedCall},
		{audit.Call{Tool: write.Tool, Arguments: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)}, audit.MalformedCall},
		{audit.Call{Tool: write.Tool, Arguments: []byte("{\"a\":\"\xff\"}")}, audit.MalformedCall},
		{audit.Call{Tool: write.Tool, Arguments: []byte(`{"no_such_argument_anywhere":1}`)}, audit.SchemaInvalid},
	}
	for _, tt := range tests {
		obs, err := s.Call(ctx, tt.call)
		switch {
		case err != nil:
			return "", err
		case obs.Status != audit.StatusInvalid || obs.Error == nil || obs.Error.Family != tt.family:
			return "", fmt.Errorf("%s(%s): %s %s, want invalid with family %s", tt.call.Tool, brief(tt.call.Arguments), obs.Status, brief(obs.Raw), tt.family)
		case obs.Before != obs.After || len(obs.Delta) > 0:
			return "", fmt.Errorf("%s(%s) changed the state", tt.call.Tool, brief(tt.call.Arguments))
		}
	}
	return fmt.Sprintf("%d bad calls, each with its family, none with an effect", len(tests)), nil
}

// refusal repeats the write until a rule says no.
func (c *contract) refusal(ctx context.Context) (string, error) {
	s, _, err := c.written(ctx, audit.Start{})
	defer closing(s)
	if err != nil {
		return "", err
	}
	call := c.task.Solution[c.write]
	for range 3 {
		obs, err := s.Call(ctx, call)
		if err != nil {
			return "", err
		}
		if obs.Status != audit.StatusRefused {
			continue
		}
		if obs.Error == nil || obs.Error.Family == "" || obs.Before != obs.After || len(obs.Delta) > 0 {
			return "", fmt.Errorf("a refusal without a family or with an effect: %s %s", brief(obs.Raw), obs.Delta)
		}
		return fmt.Sprintf("%s again: %s, no effect", call.Tool, obs.Error.Family), nil
	}
	return "", notApplicable(call.Tool + " may be repeated")
}

func (c *contract) solvable(ctx context.Context) (string, error) {
	if c.write < 0 {
		return "", notApplicable("no task's solution makes a call that is known to write")
	}
	s, err := c.env.Open(ctx, audit.Start{Task: c.task.ID})
	defer closing(s)
	if err != nil {
		return "", err
	}
	checker, err := able[audit.Checker](c, s, audit.CanCheck, "tasks have no checks")
	if err != nil {
		return "", err
	}
	before, err := checker.Check(ctx, c.task.ID)
	if err != nil {
		return "", err
	}
	for _, call := range c.task.Solution {
		if _, err := s.Call(ctx, call); err != nil {
			return "", err
		}
	}
	after, err := checker.Check(ctx, c.task.ID)
	switch {
	case err != nil:
		return "", err
	case before.Success():
		return "", fmt.Errorf("task %s succeeds before anything is done", c.task.ID)
	case !after.Success():
		return "", fmt.Errorf("task %s fails with its own solution: %v", c.task.ID, after.Failed)
	}
	return fmt.Sprintf("task %s: %d of %d checks before, all after", c.task.ID, before.Passed, before.Checks), nil
}
