package state

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

// The errors of a write; each text carries the remedy for the domain's author.
var (
	errClosed    = errors.New("the call is over: a handle of its state cannot be written any more")
	errReadOnly  = errors.New("the state is read-only here")
	errStale     = errors.New("stale handle: its value was replaced or removed; read it again from the state")
	errIterating = errors.New("cannot change the number of elements during an iteration; iterate over a copy")
)

// Tx is one call's transaction over a frozen root. It belongs to one goroutine.
type Tx struct {
	base     *Object
	root     *Map
	closed   bool
	readOnly bool
	left     int // values that may still be stored
}

// Begin starts a transaction over root.
func Begin(root *Object) *Tx {
	t := &Tx{base: root, left: maxStored}
	t.root = &Map{tx: t, base: root, size: root.size}
	return t
}

// View is a transaction that refuses writes.
func View(root *Object) *Tx {
	t := Begin(root)
	t.readOnly = true
	return t
}

// Root is the live handle of the root.
func (t *Tx) Root() *Map { return t.root }

// Commit closes the transaction and returns the new root, which is the old one
// when nothing changed. Dropping a Tx without Commit is the rollback.
func (t *Tx) Commit() *Object {
	t.closed = true
	return t.root.freeze()
}

// Close ends the transaction and drops its writes: handles that leaked cannot be
// written any more.
func (t *Tx) Close() { t.closed = true }

// handle is a live container.
type handle interface {
	starlark.Value
	owner() handle
	detach()
	attach(tx *Tx, parent handle)
	mark() (wasDirty bool)
	frozen() starlark.Value
}

// writable checks that a write through h can reach the root, and marks the way dirty.
func (t *Tx) writable(h handle) error {
	switch {
	case t.closed:
		return errClosed
	case t.readOnly:
		return errReadOnly
	}
	for at := h; at != handle(t.root); at = at.owner() {
		if at.owner() == nil {
			return errStale
		}
	}
	for at := h; at != nil; at = at.owner() {
		if at.mark() {
			break
		}
	}
	return nil
}

// adopt turns a value into what a container may hold: a scalar, a frozen node,
// or a live handle moved under parent. JSON is a tree: a value that already lives
// elsewhere is copied (which costs nothing: the copy shares its nodes), and a
// plain dict or list is frozen, so that a later write through the variable is an
// error and not a silent no-op. Elements of the list that is being replaced move
// with their handles, so that `db["l"] = [e for e in db["l"] if ...]` keeps them.
func (t *Tx) adopt(parent handle, v starlark.Value, replaced handle) (starlark.Value, error) {
	switch v := v.(type) {
	case handle:
		switch {
		case v.owner() == nil && v != handle(t.root) && !within(parent, v):
			v.attach(t, parent)
			return v, nil
		default:
			return v.frozen(), nil
		}
	case *starlark.List:
		vals, err := t.adoptAll(v, replaced)
		if err != nil {
			return nil, err
		}
		v.Freeze()
		if !anyHandle(vals) {
			return NewArray(vals), nil
		}
		l := &List{tx: t, items: vals, dirty: true, base: NewArray(nil)}
		for _, e := range vals {
			if h, ok := e.(handle); ok {
				h.attach(t, l)
			}
		}
		l.attach(t, parent)
		return l, nil
	}
	return freezeValue(v, 0, &t.left)
}

func within(h, ancestor handle) bool {
	for ; h != nil; h = h.owner() {
		if h == ancestor {
			return true
		}
	}
	return false
}

func anyHandle(vals []starlark.Value) bool {
	for _, v := range vals {
		if _, ok := v.(handle); ok {
			return true
		}
	}
	return false
}

// adoptAll adopts the elements of a plain list; those that live in the replaced
// container stay live, once each.
func (t *Tx) adoptAll(l *starlark.List, replaced handle) ([]starlark.Value, error) {
	vals := make([]starlark.Value, l.Len())
	moved := map[handle]bool{}
	for i := range vals {
		e := l.Index(i)
		if h, ok := e.(handle); ok && replaced != nil && h.owner() == replaced && !moved[h] {
			moved[h] = true
			vals[i] = h
			continue
		}
		var err error
		if vals[i], err = freezeValue(e, 1, &t.left); err != nil {
			return nil, err
		}
	}
	return vals, nil
}

// maxStored bounds the values that one call stores; a generated world may have
// as many as Freeze takes.
const (
	maxStored    = 1 << 20
	maxGenerated = 1 << 26
)

// Freeze copies any JSON-like value into a frozen one.
func Freeze(v starlark.Value) (starlark.Value, error) {
	left := maxGenerated
	return freezeValue(v, 0, &left)
}

func freezeValue(v starlark.Value, depth int, left *int) (starlark.Value, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("a value of more than %d levels cannot be stored (or it contains itself)", MaxDepth)
	}
	if *left--; *left < 0 {
		return nil, ErrTooLarge
	}
	switch t := v.(type) { // scalars are returned as v: t would be boxed again
	case starlark.NoneType, starlark.Bool, starlark.Int, *Object, *Array:
		return v, nil
	case starlark.String:
		return v, storable(string(t))
	case starlark.Float:
		if math.IsNaN(float64(t)) || math.IsInf(float64(t), 0) {
			return nil, fmt.Errorf("%v cannot be stored: it is not a JSON number", t)
		}
		return v, nil
	case handle:
		return t.frozen(), nil
	case *starlark.Dict:
		return freezeDict(t, depth, left)
	case *starlark.List:
		vals := make([]starlark.Value, t.Len())
		for i := range vals {
			vals[i] = t.Index(i)
		}
		t.Freeze()
		return freezeElements(vals, depth, left)
	case starlark.Tuple:
		return freezeElements(append([]starlark.Value(nil), t...), depth, left)
	}
	return nil, fmt.Errorf("a %s cannot be stored: the state holds JSON values", v.Type())
}

// storable refuses a text that JSON cannot hold; two such keys would be one.
func storable(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("a string that is not valid UTF-8 cannot be stored: a slice cut a character; use chars(s)")
	}
	return nil
}

func freezeDict(d *starlark.Dict, depth int, left *int) (starlark.Value, error) {
	items := d.Items()
	keys, vals := make([]string, len(items)), make([]starlark.Value, len(items))
	for i, item := range items {
		k, ok := item[0].(starlark.String)
		if !ok {
			return nil, fmt.Errorf("key %s cannot be stored: keys of the state are strings", item[0])
		}
		err := storable(string(k))
		if err == nil {
			vals[i], err = freezeValue(item[1], depth+1, left)
		}
		if err != nil {
			return nil, err
		}
		keys[i] = string(k)
	}
	d.Freeze()
	return NewObject(keys, vals), nil
}

func freezeElements(vals []starlark.Value, depth int, left *int) (starlark.Value, error) {
	for i, v := range vals {
		var err error
		if vals[i], err = freezeValue(v, depth+1, left); err != nil {
			return nil, err
		}
	}
	return NewArray(vals), nil
}

// live wraps a frozen container in a handle under parent.
func (t *Tx) live(parent handle, v starlark.Value) (handle, bool) {
	switch v := v.(type) {
	case *Object:
		return &Map{tx: t, up: parent, base: v, size: v.size}, true
	case *Array:
		return &List{tx: t, up: parent, base: v}, true
	}
	return nil, false
}

// Plain copies a value into ordinary Starlark dicts and lists.
func Plain(v starlark.Value) starlark.Value {
	switch v := v.(type) {
	case *Object:
		return plainDict(v.size, v.Each)
	case *Map:
		return plainDict(v.size, v.each)
	case *Array:
		return plainList(v.vals)
	case *List:
		return plainList(v.all())
	case *starlark.List:
		return plainList(elements(v))
	case starlark.Tuple:
		return plainList(v)
	case *starlark.Dict:
		d := starlark.NewDict(v.Len())
		for _, item := range v.Items() {
			_ = d.SetKey(item[0], Plain(item[1])) // a key that was a key hashes again
		}
		return d
	}
	return v
}

func plainDict(size int, each func(func(string, starlark.Value) bool)) starlark.Value {
	d := starlark.NewDict(size)
	each(func(k string, v starlark.Value) bool {
		return d.SetKey(starlark.String(k), Plain(v)) == nil
	})
	return d
}

func plainList(vals []starlark.Value) starlark.Value {
	out := make([]starlark.Value, len(vals))
	for i, v := range vals {
		out[i] = Plain(v)
	}
	return starlark.NewList(out)
}
