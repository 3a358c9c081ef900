package state

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// List is the live handle of an array.
type List struct {
	tx    *Tx
	up    handle
	base  *Array
	items []starlark.Value // nil until an element is touched; frozen containers until they are read
	iters int
	dirty bool
}

var (
	_ starlark.HasSetIndex = (*List)(nil)
	_ starlark.Sliceable   = (*List)(nil)
	_ starlark.HasBinary   = (*List)(nil)
	_ starlark.HasAttrs    = (*List)(nil)
	_ starlark.Iterable    = (*List)(nil)
	_ starlark.Container   = (*List)(nil)
	_ handle               = (*List)(nil)
)

// String is the list as JSON.
func (l *List) String() string {
	b, err := Compact().Append(nil, l)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Type names the handle in error messages.
func (l *List) Type() string { return "state list" }

// Freeze does nothing: a handle is writable until its call ends.
func (l *List) Freeze() {}

// Truth reports whether the list has an element.
func (l *List) Truth() starlark.Bool { return l.Len() > 0 }

// Hash refuses: lists are not keys.
func (l *List) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: %s", l.Type()) }

// Len is the number of elements.
func (l *List) Len() int {
	if l.items != nil {
		return len(l.items)
	}
	return len(l.base.vals)
}

// Index implements starlark.Indexable.
func (l *List) Index(i int) starlark.Value {
	if l.items == nil {
		switch l.base.vals[i].(type) {
		case *Object, *Array:
			l.touch()
		default:
			return l.base.vals[i]
		}
	}
	if h, ok := l.tx.live(l, l.items[i]); ok {
		l.items[i] = h
	}
	return l.items[i]
}

// touch copies the base's elements so that handles and writes have a place.
func (l *List) touch() {
	if l.items == nil {
		l.items = make([]starlark.Value, len(l.base.vals), len(l.base.vals)+2)
		copy(l.items, l.base.vals)
	}
}

// all returns the elements as handles and scalars.
func (l *List) all() []starlark.Value {
	vals := make([]starlark.Value, l.Len())
	for i := range vals {
		vals[i] = l.Index(i)
	}
	return vals
}

// SetIndex implements starlark.HasSetIndex.
func (l *List) SetIndex(i int, v starlark.Value) error {
	old := l.Index(i)
	if h, ok := v.(handle); ok && old == v && h.owner() == handle(l) {
		return l.tx.writable(l)
	}
	if err := l.tx.writable(l); err != nil {
		return err
	}
	l.touch()
	replaced, _ := old.(handle)
	stored, err := l.tx.adopt(l, v, replaced)
	if err != nil {
		return fmt.Errorf("store at index %d: %w", i, err)
	}
	if replaced != nil {
		replaced.detach()
	}
	l.items[i] = stored
	return nil
}

// insert puts values before position i.
func (l *List) insert(i int, vals ...starlark.Value) error {
	if l.iters > 0 {
		return errIterating
	}
	if err := l.tx.writable(l); err != nil {
		return err
	}
	l.touch()
	for _, v := range vals {
		stored, err := l.tx.adopt(l, v, nil)
		if err != nil {
			return fmt.Errorf("store at index %d: %w", i, err)
		}
		l.items = append(l.items, nil)
		copy(l.items[i+1:], l.items[i:])
		l.items[i] = stored
		i++
	}
	return nil
}

// Extend adds values at the end.
func (l *List) Extend(vals []starlark.Value) error { return l.insert(l.Len(), vals...) }

// remove takes element i out and returns it, detached if live.
func (l *List) remove(i int) (starlark.Value, error) {
	if l.iters > 0 {
		return nil, errIterating
	}
	if err := l.tx.writable(l); err != nil {
		return nil, err
	}
	v := l.Index(i)
	l.touch()
	if h, ok := v.(handle); ok {
		h.detach()
	}
	l.items = append(l.items[:i], l.items[i+1:]...)
	return v, nil
}

// clear takes every element out.
func (l *List) clear() error {
	for l.Len() > 0 {
		if _, err := l.remove(l.Len() - 1); err != nil {
			return err
		}
	}
	return nil
}

// Slice implements starlark.Sliceable: a plain list of the elements.
func (l *List) Slice(start, end, step int) starlark.Value {
	var vals []starlark.Value
	for i := start; step > 0 && i < end || step < 0 && i > end; i += step {
		vals = append(vals, l.Index(i))
	}
	return starlark.NewList(vals)
}

// Binary implements starlark.HasBinary: + concatenates into a plain list.
func (l *List) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	other, ok := y.(starlark.Iterable)
	if op != syntax.PLUS || !ok {
		return nil, nil
	}
	if side == starlark.Left {
		return starlark.NewList(append(l.all(), elements(other)...)), nil
	}
	return starlark.NewList(append(elements(other), l.all()...)), nil
}

// Has implements starlark.Container by structural equality.
func (l *List) Has(y starlark.Value) (bool, error) {
	budget := searchBudget
	for i := range l.Len() {
		eq, err := EqualWithin(l.Index(i), y, &budget)
		if eq || err != nil {
			return eq, err
		}
	}
	return false, nil
}

// Iterate implements starlark.Iterable.
func (l *List) Iterate() starlark.Iterator {
	l.iters++
	return &iterator{vals: l.all(), iters: &l.iters}
}

func (l *List) owner() handle { return l.up }

func (l *List) detach() { l.up = nil }

func (l *List) attach(tx *Tx, parent handle) { l.tx, l.up = tx, parent }

func (l *List) mark() bool {
	was := l.dirty
	l.dirty = true
	return was
}

func (l *List) frozen() starlark.Value { return l.freeze() }

// freeze returns the list's present value as a frozen array; the old node when
// nothing changed.
func (l *List) freeze() *Array {
	if !l.dirty || l.items == nil {
		return l.base
	}
	vals := make([]starlark.Value, len(l.items))
	changed := len(vals) != len(l.base.vals)
	for i, v := range l.items {
		if h, ok := v.(handle); ok {
			v = h.frozen()
		}
		vals[i] = v
		changed = changed || !same(v, l.base.vals[i])
	}
	if !changed {
		return l.base
	}
	return NewArray(vals)
}
