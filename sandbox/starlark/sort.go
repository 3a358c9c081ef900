package starlark

import (
	"fmt"
	"math/bits"
	"sort"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// ranking puts values in order by their keys. Every comparison is charged, so
// that neither long values nor many of them outlast the call's limits.
type ranking struct {
	run          *run
	values, keys []starlark.Value // the same slice when there is no key function
	reverse      bool
	err          error // of the first comparison that failed
}

var _ sort.Interface = (*ranking)(nil)

// rank collects the elements of it and their keys.
func rank(r *run, it starlark.Iterable, key starlark.Callable) (*ranking, error) {
	if err := r.spendSlots(count(it), 3*slotBytes); err != nil {
		return nil, err
	}
	values := listOf(it)
	k := &ranking{run: r, values: values, keys: values}
	if key == nil {
		return k, nil
	}
	k.keys = make([]starlark.Value, len(values))
	for i, v := range values {
		if err := r.toil(16); err != nil {
			return nil, err
		}
		var err error
		if k.keys[i], err = starlark.Call(r.thread, key, starlark.Tuple{v}, nil); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Len implements sort.Interface.
func (k *ranking) Len() int { return len(k.values) }

// Less implements sort.Interface; after an error nothing is less.
func (k *ranking) Less(i, j int) bool {
	if k.reverse {
		i, j = j, i
	}
	return k.ordered(syntax.LT, i, j)
}

// Swap implements sort.Interface.
func (k *ranking) Swap(i, j int) {
	k.values[i], k.values[j] = k.values[j], k.values[i]
	if &k.values[0] != &k.keys[0] {
		k.keys[i], k.keys[j] = k.keys[j], k.keys[i]
	}
}

// ordered reports whether op holds for the keys of two elements.
func (k *ranking) ordered(op syntax.Token, i, j int) bool {
	if k.err != nil {
		return false
	}
	if k.err = k.run.toil(toilOfOrder(k.keys[i], k.keys[j])); k.err != nil {
		return false
	}
	v, err := compare(op, k.keys[i], k.keys[j])
	if err != nil {
		k.err = err
		return false
	}
	return bool(v.(starlark.Bool))
}

// toilOfOrder is what comparing two values takes at most, in sixteenths of a step.
func toilOfOrder(x, y starlark.Value) int {
	toil := func(v starlark.Value) int {
		switch v := v.(type) {
		case starlark.String:
			return len(v) / textToil
		case starlark.Tuple, *starlark.List:
			size, err := weigh(v, maxCompares)
			if err != nil {
				return maxCompares // compare refuses it
			}
			return int(size / slotBytes)
		}
		return 0
	}
	return 1 + min(toil(x), toil(y))
}

// builtinSorted is sorted(iterable, key=None, reverse=False): stable, as Python's.
func builtinSorted(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var it starlark.Iterable
	var key starlark.Callable
	reverse := false
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "iterable", &it, "key??", &key, "reverse?", &reverse); err != nil {
		return nil, err
	}
	r := runOf(thread)
	k, err := rank(r, it, key)
	if err != nil {
		return nil, err
	}
	if err := r.toil(k.Len() * bits.Len(uint(k.Len())) / 16); err != nil { // swaps
		return nil, err
	}
	k.reverse = reverse
	sort.Stable(k)
	return starlark.NewList(k.values), k.err
}

// builtinExtreme is min or max of the elements of one value, or of several values.
func builtinExtreme(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var key starlark.Callable
	if err := starlark.UnpackArgs(b.Name(), nil, kwargs, "key??", &key); err != nil {
		return nil, err
	}
	var it starlark.Iterable = args
	if len(args) == 1 {
		var ok bool
		if it, ok = args[0].(starlark.Iterable); !ok {
			return nil, fmt.Errorf("%s: %s value is not iterable", b.Name(), args[0].Type())
		}
	}
	k, err := rank(runOf(thread), it, key)
	if err != nil {
		return nil, err
	}
	if k.Len() == 0 {
		return nil, fmt.Errorf("%s: argument is an empty sequence", b.Name())
	}
	op := syntax.LT
	if b.Name() == "max" {
		op = syntax.GT
	}
	best := 0
	for i := 1; i < k.Len() && k.err == nil; i++ {
		if k.ordered(op, i, best) {
			best = i
		}
	}
	return k.values[best], k.err
}
