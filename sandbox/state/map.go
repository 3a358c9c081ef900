package state

import (
	"fmt"

	"go.starlark.net/starlark"
)

// Map is the live handle of an object: a frozen base and an overlay of what this
// transaction has touched. Reading a nested container gives the same handle
// every time.
type Map struct {
	tx    *Tx
	up    handle
	base  *Object
	slots []slot         // touched keys, in the order of first touch
	first [1]slot        // memory of slots while there is one: most calls touch one row of a table
	index map[string]int // into slots, once there are many
	size  int
	iters int
	dirty bool
}

// slot is one touched key.
type slot struct {
	key string
	val starlark.Value // nil = removed; a frozen container until it is first read
	// moved: the base's key was removed, so a later value comes last in order.
	// fresh: the base never had the key, or it was moved.
	written, moved, fresh bool
}

var (
	_ starlark.IterableMapping = (*Map)(nil)
	_ starlark.HasSetKey       = (*Map)(nil)
	_ starlark.HasAttrs        = (*Map)(nil)
	_ starlark.Container       = (*Map)(nil)
	_ handle                   = (*Map)(nil)
)

// String is the map as JSON.
func (m *Map) String() string {
	b, err := Compact().Append(nil, m)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Type names the handle in error messages.
func (m *Map) Type() string { return "state map" }

// Freeze does nothing: a handle is writable until its call ends.
func (m *Map) Freeze() {}

// Truth reports whether the map has a key.
func (m *Map) Truth() starlark.Bool { return m.size > 0 }

// Hash refuses: maps are not keys.
func (m *Map) Hash() (uint32, error) { return 0, fmt.Errorf("unhashable: %s", m.Type()) }

// Len is the number of keys.
func (m *Map) Len() int { return m.size }

// Has implements starlark.Container.
func (m *Map) Has(k starlark.Value) (bool, error) {
	_, found, err := m.Get(k)
	return found, err
}

// Get implements starlark.Mapping.
func (m *Map) Get(k starlark.Value) (starlark.Value, bool, error) {
	key, ok := k.(starlark.String)
	if !ok {
		return nil, false, nil
	}
	v := m.lookup(string(key))
	return v, v != nil, nil
}

// lookup returns the value at key, live if it is a container, or nil.
func (m *Map) lookup(key string) starlark.Value {
	i := m.slotOf(key)
	if i < 0 {
		v := m.base.Get(key)
		if h, ok := m.tx.live(m, v); ok {
			m.touch(slot{key: key, val: h})
			return h
		}
		return v
	}
	s := &m.slots[i]
	if h, ok := m.tx.live(m, s.val); ok {
		s.val = h
	}
	return s.val
}

func (m *Map) slotOf(key string) int {
	if m.index != nil {
		if i, ok := m.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range m.slots {
		if m.slots[i].key == key {
			return i
		}
	}
	return -1
}

func (m *Map) touch(s slot) {
	if m.slots == nil {
		m.slots = m.first[:0]
	}
	m.slots = append(m.slots, s)
	switch {
	case m.index != nil:
		m.index[s.key] = len(m.slots) - 1
	case len(m.slots) > smallMax:
		m.index = make(map[string]int, 4*smallMax)
		for i := range m.slots {
			m.index[m.slots[i].key] = i
		}
	}
}

// SetKey implements starlark.HasSetKey.
func (m *Map) SetKey(k, v starlark.Value) error {
	key, ok := k.(starlark.String)
	if !ok {
		return fmt.Errorf("a key of type %s cannot be stored: keys of the state are strings", k.Type())
	}
	return m.set(string(key), v)
}

func (m *Map) set(key string, v starlark.Value) error {
	old := m.lookup(key)
	if h, ok := v.(handle); ok && old == v && h.owner() == handle(m) {
		return m.tx.writable(m)
	}
	if old == nil && m.iters > 0 {
		return errIterating
	}
	if err := m.tx.writable(m); err != nil {
		return err
	}
	replaced, _ := old.(handle)
	var stored starlark.Value
	err := storable(key)
	if err == nil {
		stored, err = m.tx.adopt(m, v, replaced)
	}
	if err != nil {
		return fmt.Errorf("store at key %q: %w", key, err)
	}
	if replaced != nil {
		replaced.detach()
	}
	m.put(key, stored, old == nil)
	return nil
}

// put writes a slot; absent says that the map has no value at key now.
func (m *Map) put(key string, v starlark.Value, absent bool) {
	i := m.slotOf(key)
	if i < 0 {
		m.touch(slot{key: key, val: v, written: true, fresh: absent})
	} else {
		s := &m.slots[i]
		if absent { // removed earlier: now it comes last
			moved := s.moved || !s.fresh
			m.retire(i)
			m.touch(slot{key: key, val: v, written: true, fresh: true, moved: moved})
		} else {
			s.val, s.written = v, true
		}
	}
	if absent {
		m.size++
	}
}

// retire takes slot i out of the overlay so that its key can be touched anew.
func (m *Map) retire(i int) {
	m.slots = append(m.slots[:i], m.slots[i+1:]...)
	if m.index != nil {
		m.index = make(map[string]int, 2*len(m.slots))
		for j := range m.slots {
			m.index[m.slots[j].key] = j
		}
	}
}

// remove takes key out and returns its value (detached, if live), or nil.
func (m *Map) remove(key string) (starlark.Value, error) {
	old := m.lookup(key)
	if old == nil {
		return nil, nil
	}
	if m.iters > 0 {
		return nil, errIterating
	}
	if err := m.tx.writable(m); err != nil {
		return nil, err
	}
	if h, ok := old.(handle); ok {
		h.detach()
	}
	if i := m.slotOf(key); i >= 0 {
		s := &m.slots[i]
		s.val, s.written = nil, true
	} else {
		m.touch(slot{key: key, written: true})
	}
	m.size--
	return old, nil
}

// each calls f for the present keys in order: the base's, then the fresh ones.
func (m *Map) each(f func(key string, v starlark.Value) bool) {
	stopped := false
	m.base.Each(func(k string, v starlark.Value) bool {
		if i := m.slotOf(k); i >= 0 {
			s := &m.slots[i]
			if s.val == nil || s.fresh {
				return true
			}
			v = s.val
		}
		stopped = !f(k, v)
		return !stopped
	})
	for i := 0; i < len(m.slots) && !stopped; i++ {
		if s := &m.slots[i]; s.fresh && s.val != nil {
			stopped = !f(s.key, s.val)
		}
	}
}

// keys lists the present keys in order.
func (m *Map) keys() []starlark.Value {
	keys := make([]starlark.Value, 0, m.size)
	m.each(func(k string, _ starlark.Value) bool {
		keys = append(keys, starlark.String(k))
		return true
	})
	return keys
}

// Items implements starlark.IterableMapping.
func (m *Map) Items() []starlark.Tuple {
	keys := m.keys()
	items := make([]starlark.Tuple, len(keys))
	for i, k := range keys {
		items[i] = starlark.Tuple{k, m.lookup(string(k.(starlark.String)))}
	}
	return items
}

// Iterate implements starlark.Iterable over the keys.
func (m *Map) Iterate() starlark.Iterator {
	m.iters++
	return &iterator{vals: m.keys(), iters: &m.iters}
}

// iterator walks a copy of the elements and forbids structural change meanwhile.
type iterator struct {
	vals  []starlark.Value
	iters *int
}

func (i *iterator) Next(p *starlark.Value) bool {
	if len(i.vals) == 0 {
		return false
	}
	*p, i.vals = i.vals[0], i.vals[1:]
	return true
}

func (i *iterator) Done() { *i.iters-- }

func (m *Map) owner() handle { return m.up }

func (m *Map) detach() { m.up = nil }

func (m *Map) attach(tx *Tx, parent handle) { m.tx, m.up = tx, parent }

func (m *Map) mark() bool {
	was := m.dirty
	m.dirty = true
	return was
}

func (m *Map) frozen() starlark.Value { return m.freeze() }

// freeze returns the map's present value as a frozen object; the old node when
// nothing changed.
func (m *Map) freeze() *Object {
	if !m.dirty {
		return m.base
	}
	var few [8]edit
	edits := few[:0]
	for i := range m.slots {
		s := &m.slots[i]
		v := s.val
		if h, ok := v.(handle); ok {
			v = h.frozen()
		}
		old := m.base.Get(s.key)
		switch {
		case v == nil && old == nil: // came and went
		case v != nil && old != nil && !s.moved && same(old, v):
		default:
			edits = append(edits, edit{key: s.key, val: v, moved: s.moved})
		}
	}
	if len(edits) == 0 {
		return m.base
	}
	return m.base.apply(edits)
}
