package state

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"understudy/audit/diff"
)

// Diff is the canonical delta between two frozen values: the patch of audit/diff
// for the same two values, found without visiting what they share. The result
// is never nil.
func Diff(before, after starlark.Value) diff.Patch {
	p, _ := DiffWithin(before, after, math.MaxInt/2)
	return p
}

// DiffWithin is Diff for a delta of at most limit bytes; beyond it is ErrTooLarge.
func DiffWithin(before, after starlark.Value, limit int) (diff.Patch, error) {
	var path [128]byte
	d := differ{patch: diff.Patch{}, left: limit}
	d.value(path[:0], before, after)
	if d.left < 0 {
		return nil, ErrTooLarge
	}
	return d.patch, nil
}

// opBytes is what an operation takes beside its path and cells.
const opBytes = 64

// differ collects operations until left is used up; then it only unwinds.
type differ struct {
	patch diff.Patch
	left  int
	texts []byte // of the cells of patch, one after the other
}

// at compares one member or element of what is at path; the next one may use the
// memory behind path again.
func (d *differ) at(path []byte, token string, before, after starlark.Value) {
	path = appendToken(path, token)
	switch {
	case before == nil:
		d.op(diff.OpAdd, path, after, nil)
	case after == nil:
		d.op(diff.OpRemove, path, nil, before)
	default:
		d.value(path, before, after)
	}
}

func (d *differ) op(name string, path []byte, value, old starlark.Value) {
	d.left -= opBytes + len(path)
	if cap(d.patch) == 0 {
		d.patch = make(diff.Patch, 0, 4)
	}
	op := diff.Op{Op: name, Path: string(path)}
	op.Value, op.Old = d.text(value), d.text(old)
	d.patch = append(d.patch, op)
}

// text is a cell's value as a patch holds it: members by name, so that the patch
// does not depend on their order; nil for an absent cell.
func (d *differ) text(v starlark.Value) json.RawMessage {
	if v == nil || d.left < 0 {
		return nil
	}
	if d.texts == nil {
		d.texts = make([]byte, 0, 192)
	}
	start := len(d.texts)
	style := Compact()
	style.Sorted, style.Limit = true, start+d.left
	b, err := style.Append(d.texts, v)
	if err != nil {
		d.left = -1
		return nil
	}
	d.texts = b
	d.left -= len(b) - start
	return b[start:len(b):len(b)]
}

func (d *differ) value(path []byte, before, after starlark.Value) {
	switch b := before.(type) {
	case *Object:
		if a, ok := after.(*Object); ok {
			d.object(path, b, a)
			return
		}
	case *Array:
		if a, ok := after.(*Array); ok {
			d.array(path, b, a)
			return
		}
	}
	if !same(before, after) {
		d.op(diff.OpReplace, path, after, before)
	}
}

// change is one key on which two objects disagree; a nil side is absent.
type change struct {
	key           string
	before, after starlark.Value
}

func (d *differ) object(path []byte, before, after *Object) {
	if before == after || before.sum() == after.sum() || d.left < 0 {
		return
	}
	var few [8]change
	changes := objectChanges(few[:0], before, after)
	slices.SortFunc(changes, func(x, y change) int { return strings.Compare(x.key, y.key) })
	for _, c := range changes {
		d.at(path, c.key, c.before, c.after)
	}
}

func (d *differ) array(path []byte, before, after *Array) {
	if before == after || before.sum() == after.sum() || d.left < 0 {
		return
	}
	old, now := before.vals, after.vals
	start := 0
	for start < len(old) && start < len(now) && equal(old[start], now[start]) {
		start++
	}
	end := 0
	for end < len(old)-start && end < len(now)-start && equal(old[len(old)-1-end], now[len(now)-1-end]) {
		end++
	}
	old, now = old[start:len(old)-end], now[start:len(now)-end]
	for i := range min(len(old), len(now)) {
		d.at(path, strconv.Itoa(start+i), old[i], now[i])
	}
	for i := len(old) - 1; i >= len(now); i-- {
		d.at(path, strconv.Itoa(start+i), old[i], nil)
	}
	for i := len(old); i < len(now); i++ {
		d.at(path, strconv.Itoa(start+i), nil, now[i])
	}
}

// objectChanges appends the keys whose values are not the same node.
func objectChanges(changes []change, before, after *Object) []change {
	if before.root != nil && after.root != nil {
		return trieChanges(changes, before.root, after.root)
	}
	common := 0
	before.Each(func(k string, v starlark.Value) bool {
		now := after.Get(k)
		if now != nil {
			common++
		}
		if now == nil || !same(v, now) {
			changes = append(changes, change{key: k, before: v, after: now})
		}
		return true
	})
	if common == after.size {
		return changes
	}
	after.Each(func(k string, v starlark.Value) bool {
		if before.Get(k) == nil {
			changes = append(changes, change{key: k, after: v})
		}
		return true
	})
	return changes
}

// trieChanges walks two tries together and stops where they share a node.
func trieChanges(changes []change, before, after *node) []change {
	if before == after {
		return changes
	}
	if before.kids == nil || after.kids == nil {
		return leafChanges(changes, before, after)
	}
	i, j := 0, 0
	for union := before.bitmap | after.bitmap; union != 0; union &= union - 1 {
		bit := union & -union
		var x, y *node
		if before.bitmap&bit != 0 {
			x = before.kids[i]
			i++
		}
		if after.bitmap&bit != 0 {
			y = after.kids[j]
			j++
		}
		switch {
		case x == nil:
			changes = leafChanges(changes, &node{}, y)
		case y == nil:
			changes = leafChanges(changes, x, &node{})
		default:
			changes = trieChanges(changes, x, y)
		}
	}
	return changes
}

func leafChanges(changes []change, before, after *node) []change {
	old, now := before.sorted(), after.sorted()
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(old) > 0 && old[0].key < now[0].key:
			changes = append(changes, change{key: old[0].key, before: old[0].val})
			old = old[1:]
		case len(old) == 0 || now[0].key < old[0].key:
			changes = append(changes, change{key: now[0].key, after: now[0].val})
			now = now[1:]
		default:
			if !same(old[0].val, now[0].val) {
				changes = append(changes, change{key: old[0].key, before: old[0].val, after: now[0].val})
			}
			old, now = old[1:], now[1:]
		}
	}
	return changes
}

// same reports whether two frozen values are one node or equal scalars of one type.
func same(a, b starlark.Value) bool {
	switch a := a.(type) {
	case *Object, *Array, starlark.NoneType, starlark.Bool, starlark.String:
		return a == b
	case starlark.Float:
		f, ok := b.(starlark.Float)
		return ok && a == f
	case starlark.Int:
		i, ok := b.(starlark.Int)
		return ok && sameInt(a, i)
	}
	return false
}

func sameInt(a, b starlark.Int) bool {
	x, small := a.Int64()
	y, alsoSmall := b.Int64()
	if small || alsoSmall {
		return small && alsoSmall && x == y
	}
	return a.BigInt().Cmp(b.BigInt()) == 0
}

// equal is deep equality of frozen values, shared parts for free.
func equal(a, b starlark.Value) bool {
	switch x := a.(type) {
	case *Object:
		y, ok := b.(*Object)
		return ok && (x == y || x.size == y.size && x.sum() == y.sum())
	case *Array:
		y, ok := b.(*Array)
		return ok && (x == y || len(x.vals) == len(y.vals) && x.sum() == y.sum())
	}
	return same(a, b)
}

// appendToken appends a JSON Pointer token to a path.
func appendToken(path []byte, token string) []byte {
	at := append(path, '/')
	for i := range len(token) {
		switch token[i] {
		case '~':
			at = append(at, "~0"...)
		case '/':
			at = append(at, "~1"...)
		default:
			at = append(at, token[i])
		}
	}
	return at
}
