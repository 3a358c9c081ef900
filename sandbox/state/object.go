package state

import (
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// smallMax is the size up to which an Object is two parallel slices. The form is
// a function of the size alone, so that equal values have equal digests.
const smallMax = 16

// Object is a frozen, insertion-ordered JSON object. It is safe for concurrent use.
type Object struct {
	keys   []string         // small form, in insertion order
	vals   []starlark.Value // small form, parallel to keys
	root   *node            // wide form: key → (value, position)
	order  *order           // wide form: position → key; removed ones included
	size   int
	digest seal
}

// entry is a key with its value and its position in the order of insertion.
type entry struct {
	key string
	val starlark.Value
	seq int
}

// NewObject builds an object from distinct keys and frozen values, which it keeps.
func NewObject(keys []string, vals []starlark.Value) *Object {
	if len(keys) <= smallMax {
		return &Object{keys: keys, vals: vals, size: len(keys)}
	}
	entries := make([]entry, len(keys))
	for i, k := range keys {
		entries[i] = entry{key: k, val: vals[i], seq: i}
	}
	return &Object{root: buildNode(entries, 0), order: newOrder(keys), size: len(keys)}
}

// Len is the number of keys.
func (o *Object) Len() int { return o.size }

// Get returns the value at key, or nil.
func (o *Object) Get(key string) starlark.Value {
	if o.root != nil {
		if e := o.root.get(key); e != nil {
			return e.val
		}
		return nil
	}
	for i, k := range o.keys {
		if k == key {
			return o.vals[i]
		}
	}
	return nil
}

// Each calls f for every key in the order of insertion until f returns false.
func (o *Object) Each(f func(key string, val starlark.Value) bool) {
	if o.root == nil {
		for i, k := range o.keys {
			if !f(k, o.vals[i]) {
				return
			}
		}
		return
	}
	o.order.each(func(at int, k string) bool {
		e := o.root.get(k)
		return e == nil || e.seq != at || f(k, e.val)
	})
}

// eachSorted is Each in the order of the keys' bytes.
func (o *Object) eachSorted(f func(key string, val starlark.Value) bool) {
	entries := make([]entry, 0, o.size)
	o.Each(func(k string, v starlark.Value) bool {
		entries = append(entries, entry{key: k, val: v})
		return true
	})
	slices.SortFunc(entries, byKey)
	for _, e := range entries {
		if !f(e.key, e.val) {
			return
		}
	}
}

// nameOrder lists the positions of a small object's keys in the order of their bytes.
type nameOrder [smallMax]uint8

// byName sorts the keys of a small object by insertion: they are few.
func (o *Object) byName() nameOrder {
	var names nameOrder
	for i := range o.keys {
		j := i
		for ; j > 0 && o.keys[names[j-1]] > o.keys[i]; j-- {
			names[j] = names[j-1]
		}
		names[j] = uint8(i)
	}
	return names
}

func byKey(a, b entry) int { return strings.Compare(a.key, b.key) }

// edit is one change of an object: a nil value removes the key. A moved key goes
// to the end of the order although the object had it.
type edit struct {
	key   string
	val   starlark.Value
	moved bool
}

// apply returns the object with the edits made in order.
func (o *Object) apply(edits []edit) *Object {
	if o.root == nil || len(edits) > o.size/4 {
		return o.rebuild(edits)
	}
	next := &Object{root: o.root, order: o.order, size: o.size}
	for _, e := range edits {
		next.applyOne(e)
	}
	if next.size <= smallMax || next.order.size > 2*next.size+smallMax {
		return next.rebuild(nil)
	}
	return next
}

// applyOne makes one edit on an object that nobody else sees yet.
func (o *Object) applyOne(e edit) {
	h := hashKey(e.key)
	old := o.root.get(e.key)
	if old != nil && (e.val == nil || e.moved) {
		o.root = o.root.without(h, e.key, 0)
		o.size--
		old = nil
	}
	switch {
	case e.val == nil:
	case old != nil:
		o.root = o.root.with(h, entry{key: e.key, val: e.val, seq: old.seq}, 0)
	default:
		o.root = o.root.with(h, entry{key: e.key, val: e.val, seq: o.order.size}, 0)
		o.order = o.order.append(e.key)
		o.size++
	}
}

// rebuild makes the edits by building the object anew: for small objects, for
// large sets of edits, and to drop dead positions.
func (o *Object) rebuild(edits []edit) *Object {
	if next := o.amend(edits); next != nil {
		return next
	}
	pending := make(map[string]int, len(edits))
	for i, e := range edits {
		pending[e.key] = i
	}
	keys := make([]string, 0, o.size+len(edits))
	vals := make([]starlark.Value, 0, o.size+len(edits))
	o.Each(func(k string, v starlark.Value) bool {
		if i, ok := pending[k]; ok {
			if edits[i].val == nil || edits[i].moved {
				return true
			}
			v = edits[i].val
			pending[k] = -1
		}
		keys, vals = append(keys, k), append(vals, v)
		return true
	})
	for i, e := range edits {
		if e.val != nil && pending[e.key] == i {
			keys, vals = append(keys, e.key), append(vals, e.val)
		}
	}
	return NewObject(keys, vals)
}

// amend serves the commonest commits: a small object with values replaced, its
// keys shared, and values added. It returns nil when the edits do more.
func (o *Object) amend(edits []edit) *Object {
	if o.root != nil || len(edits) == 0 || len(edits) > smallMax {
		return nil
	}
	var at [smallMax]int
	size := len(o.keys)
	for i, e := range edits {
		if e.val == nil || e.moved {
			return nil
		}
		if at[i] = slices.Index(o.keys, e.key); at[i] < 0 {
			at[i] = size
			size++
		}
	}
	if size > smallMax {
		return nil
	}
	keys, vals := o.keys, make([]starlark.Value, size)
	if size > len(keys) {
		keys = make([]string, size)
		copy(keys, o.keys)
	}
	copy(vals, o.vals)
	for i, e := range edits {
		if vals[at[i]] = e.val; at[i] >= len(o.keys) {
			keys[at[i]] = e.key
		}
	}
	return &Object{keys: keys, vals: vals, size: size}
}
