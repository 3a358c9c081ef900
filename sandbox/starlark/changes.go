package starlark

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/sandbox/state"
)

// Changes is the canonical patch from the state of one session to that of another
// session of the same domain, without the engine's own counters.
func Changes(from, to audit.Session) (diff.Patch, error) {
	a, ok1 := from.(*Session)
	b, ok2 := to.(*Session)
	if !ok1 || !ok2 {
		return nil, errors.New("compare states: both sessions must be of this engine")
	}
	before, err := a.root()
	if err != nil {
		return nil, err
	}
	after, err := b.root()
	if err != nil {
		return nil, err
	}
	return ownCells(state.Diff(before, after)), nil
}

// ownCells leaves out what the engine keeps in the state: clock, seed, counters.
func ownCells(patch diff.Patch) diff.Patch {
	own := diff.Patch{}
	for _, op := range patch {
		if op.Path != "/$sys" && !strings.HasPrefix(op.Path, "/$sys/") {
			own = append(own, op)
		}
	}
	return own
}

// builtinChanges is changes(initial, final): the canonical patch between two
// states as a list of {"op", "path", "old", "value"}.
func builtinChanges(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var initial, final *state.Map
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "initial", &initial, "final", &final); err != nil {
		return nil, err
	}
	before, err := state.Freeze(initial)
	if err != nil {
		return nil, err
	}
	after, err := state.Freeze(final)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(ownCells(state.Diff(before, after)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	v, err := state.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	return state.Plain(v), nil
}
