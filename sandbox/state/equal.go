package state

import (
	"errors"

	"go.starlark.net/starlark"
)

// errTooLarge is returned when a comparison visits more than equalBudget values:
// plain lists can share parts so often that their size as a tree is astronomic.
var errTooLarge = errors.New("values are too large to compare")

const (
	equalBudget  = 1_000_000
	searchBudget = 1 << 24 // of looking through a list for an equal element
	textVisit    = 256     // bytes of a text that are compared in the time of a visit
)

// Equal compares any two values as Python would: live, frozen and plain
// containers by content, 1 == 1.0, a tuple equals a list of the same elements.
func Equal(x, y starlark.Value) (bool, error) {
	budget := equalBudget
	return EqualWithin(x, y, &budget)
}

// EqualWithin is Equal for several comparisons that share a budget of visited
// values, which it takes from.
func EqualWithin(x, y starlark.Value, budget *int) (bool, error) {
	e := equality{left: *budget}
	eq, err := e.equal(x, y, 0)
	*budget = e.left
	return eq, err
}

type equality struct{ left int }

func (e *equality) equal(x, y starlark.Value, depth int) (bool, error) {
	if e.left--; e.left < 0 || depth > MaxDepth {
		return false, errTooLarge
	}
	if sameFrozen(x, y) {
		return true, nil
	}
	if n, ok := sequence(x); ok {
		m, ok := sequence(y)
		if !ok || n.Len() != m.Len() {
			return false, nil
		}
		return e.sequences(n, m, depth)
	}
	if a, ok := mapping(x); ok {
		b, ok := mapping(y)
		if !ok || a.size != b.size {
			return false, nil
		}
		return e.mappings(a, b, depth)
	}
	switch y := y.(type) {
	case *Map, *Object, *List, *Array:
		return false, nil
	case starlark.String:
		e.left -= len(y) / textVisit
	}
	return starlark.Equal(x, y)
}

func (e *equality) sequences(a, b starlark.Indexable, depth int) (bool, error) {
	for i := range a.Len() {
		if eq, err := e.equal(a.Index(i), b.Index(i), depth+1); !eq || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (e *equality) mappings(a, b keyed, depth int) (bool, error) {
	eq := true
	var err error
	a.each(func(k, v starlark.Value) bool {
		w := b.get(k)
		if w == nil {
			eq = false
			return false
		}
		eq, err = e.equal(v, w, depth+1)
		return eq && err == nil
	})
	return eq && err == nil, err
}

// sameFrozen reports whether both values rest on one frozen container that
// neither has written to: two states share whatever no call changed, so that
// comparing them costs what differs.
func sameFrozen(x, y starlark.Value) bool {
	a := frozenOf(x)
	return a != nil && a == frozenOf(y)
}

func frozenOf(v starlark.Value) starlark.Value {
	switch v := v.(type) {
	case *Object, *Array:
		return v
	case *Map:
		if !v.dirty && v.base != nil {
			return v.base
		}
	case *List:
		if !v.dirty && v.base != nil {
			return v.base
		}
	}
	return nil
}

// sequence views a list-like value.
func sequence(v starlark.Value) (starlark.Indexable, bool) {
	switch v := v.(type) {
	case *List:
		return v, true
	case *starlark.List:
		return v, true
	case starlark.Tuple:
		return v, true
	case *Array:
		return starlark.Tuple(v.vals), true
	}
	return nil, false
}

// keyed is a map-like value of any kind.
type keyed struct {
	size int
	get  func(k starlark.Value) starlark.Value
	each func(f func(k, v starlark.Value) bool)
}

func mapping(v starlark.Value) (keyed, bool) {
	switch v := v.(type) {
	case *Map:
		return keyed{v.size, byText(v.lookup), eachText(v.each)}, true
	case *Object:
		return keyed{v.size, byText(v.Get), eachText(v.Each)}, true
	case *starlark.Dict:
		get := func(k starlark.Value) starlark.Value {
			w, found, err := v.Get(k)
			if !found || err != nil {
				return nil
			}
			return w
		}
		each := func(f func(k, v starlark.Value) bool) {
			for _, item := range v.Items() {
				if !f(item[0], item[1]) {
					return
				}
			}
		}
		return keyed{v.Len(), get, each}, true
	}
	return keyed{}, false
}

func byText(get func(string) starlark.Value) func(starlark.Value) starlark.Value {
	return func(k starlark.Value) starlark.Value {
		if s, ok := k.(starlark.String); ok {
			return get(string(s))
		}
		return nil
	}
}

func eachText(each func(func(string, starlark.Value) bool)) func(func(k, v starlark.Value) bool) {
	return func(f func(k, v starlark.Value) bool) {
		each(func(k string, v starlark.Value) bool { return f(starlark.String(k), v) })
	}
}
