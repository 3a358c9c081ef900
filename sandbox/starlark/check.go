package starlark

import (
	"context"
	"fmt"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// Check implements audit.Checker. An empty task is the one that the session was
// opened with.
func (s *Session) Check(ctx context.Context, id string) (audit.CheckResult, error) {
	var result audit.CheckResult
	root, err := s.root()
	if err != nil {
		return result, err
	}
	if id == "" {
		id = s.task
	}
	d := s.env.domain
	t, err := d.findTask(ctx, id)
	if err != nil {
		return result, err
	}
	for i, c := range t.checks {
		passed, err := d.verdict(ctx, c, s.world.initial, root)
		if err != nil {
			return result, d.broken(fmt.Sprintf("check %d (%s) of task %s", i, c.name, id), err)
		}
		before, err := d.verdict(ctx, c, s.world.initial, s.world.initial)
		if err != nil {
			return result, d.broken(fmt.Sprintf("check %d (%s) of task %s", i, c.name, id), err)
		}
		result.Checks++
		if before {
			result.Initial++
		}
		if passed {
			result.Passed++
		} else {
			result.Failed = append(result.Failed, c.name+string(t.Checks[i].Params))
		}
	}
	return result, nil
}

// verdict runs one check over two states.
func (d *Domain) verdict(ctx context.Context, c checkCall, initial, final *state.Object) (bool, error) {
	kwargs := make([]starlark.Tuple, len(c.params))
	for i, p := range c.params {
		kwargs[i] = starlark.Tuple{p[0], state.Plain(p[1])}
	}
	v, err := d.inspect(ctx, c.fn, initial, final, kwargs)
	if err != nil {
		return false, err
	}
	b, ok := v.(starlark.Bool)
	if !ok {
		return false, fmt.Errorf("a check returns True or False, not %s", v.Type())
	}
	return bool(b), nil
}

// inspect calls fn(initial, final, **kwargs) on read-only states.
func (d *Domain) inspect(ctx context.Context, fn starlark.Callable, initial, final *state.Object, kwargs []starlark.Tuple) (starlark.Value, error) {
	r := d.newRun(inspectSteps)
	r.tx = state.View(final)
	var v starlark.Value
	err := r.within(ctx, generateWall, func() error {
		var err error
		v, err = starlark.Call(r.thread, fn, starlark.Tuple{state.View(initial).Root(), r.tx.Root()}, kwargs)
		return err
	})
	r.release()
	return v, err
}

// inspectSteps bounds a check or invariant, which may scan the whole state.
const inspectSteps = 50_000_000

// Violations implements audit.Inspector.
func (s *Session) Violations(ctx context.Context) ([]string, error) {
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	d := s.env.domain
	violations := []string{}
	for _, fn := range d.invariants {
		v, err := d.inspect(ctx, fn, s.world.initial, root, nil)
		if err != nil {
			return nil, d.broken("invariant "+fn.Name(), err)
		}
		switch v.(type) {
		case starlark.NoneType:
		case starlark.String:
			violations = append(violations, fn.Name()+": "+pyText(v))
		default:
			return nil, d.broken("invariant "+fn.Name(), fmt.Errorf("returned %s; want a text that says what does not hold, or None", v.String()))
		}
	}
	return violations, nil
}
