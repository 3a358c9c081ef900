package state

import (
	"fmt"
	"slices"

	"go.starlark.net/starlark"
)

// Changed lists the keys under which two map-like values differ: changed and
// removed keys in the order of a, then added ones in the order of b. What two
// states share is not visited, so the cost is one look a key.
func Changed(a, b starlark.Value) ([]string, error) {
	before, ok := mapping(rest(a))
	after, alsoOK := mapping(rest(b))
	if !ok || !alsoOK {
		return nil, fmt.Errorf("want two dicts, got %s and %s", JSONType(a), JSONType(b))
	}
	var keys []string
	var err error
	before.each(func(k, v starlark.Value) bool {
		same := false
		if w := after.get(k); w != nil {
			same, err = Equal(v, w)
		}
		if !same {
			keys = append(keys, keyText(k))
		}
		return err == nil
	})
	after.each(func(k, _ starlark.Value) bool {
		if before.get(k) == nil {
			keys = append(keys, keyText(k))
		}
		return true
	})
	return slices.Clip(keys), err
}

// rest is the frozen value behind a live one: looking at it makes no handles.
func rest(v starlark.Value) starlark.Value {
	if h, ok := v.(handle); ok {
		return h.frozen()
	}
	return v
}

func keyText(k starlark.Value) string {
	s, _ := starlark.AsString(k)
	return s
}
