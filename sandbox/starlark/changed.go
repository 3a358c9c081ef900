package starlark

import (
	"fmt"

	"go.starlark.net/starlark"

	"understudy/sandbox/state"
)

// builtinChanged is changed(a, b): the keys under which two dicts differ, such
// as the rows of a table that a task changed, added or removed.
func builtinChanged(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var before, after starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "a", &before, "b", &after); err != nil {
		return nil, err
	}
	keys, err := state.Changed(before, after)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	vals := make([]starlark.Value, len(keys))
	for i, k := range keys {
		vals[i] = starlark.String(k)
	}
	return starlark.NewList(vals), nil
}
