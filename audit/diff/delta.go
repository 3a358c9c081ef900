package diff

import (
	"bytes"
)

// Diff is the canonical patch that turns before into after. Operations are
// ordered by path: members by name; of a list the common prefix and suffix are
// left out, the middle is compared pairwise, and then the surplus is removed from
// the end or added. Canonical beats minimal: a rotated list gives a long patch.
// 1 and 1.0 are different cells, as they are to the program that wrote them; 1.0
// and 1.00 are not, nor is the order of members. The result is never nil.
func Diff(before, after Value) Patch {
	d := differ{patch: Patch{}}
	d.value(before, after)
	return d.patch
}

// Cells is Diff with every list as one cell: a list that differs is replaced
// as a whole.
func Cells(before, after Value) Patch {
	d := differ{patch: Patch{}, wholeLists: true}
	d.value(before, after)
	return d.patch
}

// differ walks two values side by side; path is the pointer of where it is.
type differ struct {
	patch      Patch
	path       []byte
	wholeLists bool
}

func (d *differ) op(name string, old, value Value) {
	d.patch = append(d.patch, Op{Op: name, Path: string(d.path), Value: value.JSON(), Old: old.JSON()})
}

func (d *differ) value(a, b Value) {
	switch {
	case a.Type() == TypeAbsent && b.Type() == TypeAbsent:
	case a.Type() == TypeAbsent:
		d.op(OpAdd, a, b)
	case b.Type() == TypeAbsent:
		d.op(OpRemove, a, b)
	case a.Type() == TypeObject && b.Type() == TypeObject:
		d.object(a, b)
	case a.Type() == TypeArray && b.Type() == TypeArray && !d.wholeLists:
		d.array(a, b)
	case !equal(a, b, true):
		d.op(OpReplace, a, b)
	}
}

func (d *differ) object(a, b Value) {
	here := len(d.path)
	for x, y := range joinMembers(a, b) {
		named := x
		if x.d == nil {
			named = y
		}
		d.path = appendToken(d.path[:here], named.name())
		d.value(x, y)
	}
	d.path = d.path[:here]
}

func (d *differ) array(a, b Value) {
	here, la, lb := len(d.path), a.Len(), b.Len()
	prefix, suffix := commonEnds(a, b, func(x, y Value) bool { return equal(x, y, true) })
	middle := min(la, lb) - suffix
	at := func(i int) { d.path = appendIndex(d.path[:here], i) }
	for i := prefix; i < middle; i++ {
		at(i)
		d.value(a.At(i), b.At(i))
	}
	for i := la - suffix - 1; i >= middle; i-- {
		at(i)
		d.op(OpRemove, a.At(i), Value{})
	}
	for i := middle; i < lb-suffix; i++ {
		at(i)
		d.op(OpAdd, Value{}, b.At(i))
	}
	d.path = d.path[:here]
}

// commonEnds counts the equal elements at the beginning and, of the rest, at the
// end of two arrays.
func commonEnds(a, b Value, same func(x, y Value) bool) (prefix, suffix int) {
	la, lb := a.Len(), b.Len()
	for prefix < min(la, lb) && same(a.At(prefix), b.At(prefix)) {
		prefix++
	}
	for suffix < min(la, lb)-prefix && same(a.At(la-1-suffix), b.At(lb-1-suffix)) {
		suffix++
	}
	return prefix, suffix
}

// joinMembers pairs the members of two objects by name, in order of name; the
// side that lacks a name is absent.
func joinMembers(a, b Value) func(yield func(x, y Value) bool) {
	return func(yield func(x, y Value) bool) {
		i, j := 0, 0
		for i < a.Len() || j < b.Len() {
			var x, y Value
			c := memberOrder(a, b, i, j)
			if c <= 0 {
				x = a.At(i)
				i++
			}
			if c >= 0 {
				y = b.At(j)
				j++
			}
			if !yield(x, y) {
				return
			}
		}
	}
}

// memberOrder says which of member i of a and member j of b comes first by name;
// one past the last comes after all others.
func memberOrder(a, b Value, i, j int) int {
	switch {
	case i == a.Len():
		return 1
	case j == b.Len():
		return -1
	}
	return bytes.Compare(a.At(i).name(), b.At(j).name())
}
