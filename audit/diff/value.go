package diff

import (
	"bytes"
	"iter"
)

// Type is the JSON type of a Value. Absent, null, empty and zero are four
// different things.
type Type uint8

// The JSON types, in canonical order.
const (
	TypeAbsent Type = iota // the zero Value: not there at all
	TypeNull
	TypeBool
	TypeNumber
	TypeString
	TypeArray
	TypeObject
)

// String is the JSON name of the type.
func (t Type) String() string {
	return [...]string{"absent", "null", "bool", "number", "string", "array", "object"}[t]
}

// Value is one value of a decoded document: a document and a position in it. It
// is small, immutable and safe for concurrent use; the zero Value is absent.
// It keeps the raw bytes that it was decoded from alive.
type Value struct {
	d *doc
	i uint32
}

// doc is a decoded text: its nodes in document order, with offsets into the raw
// bytes, so that a typical answer costs two allocations.
//
//	nodes   0:object ── 1:"a" ── 2:array ── 3:1 ── 4:2
//	kids    [3 4 | 1 2]          the children of 2, then of 0 (by member name)
type doc struct {
	src   []byte   // raw bytes as given
	esc   []byte   // decoded content of strings that had escapes
	nodes []node   // document order, the root first
	kids  []uint32 // children of every container; of objects sorted by name, the last duplicate wins
	dup   bool     // some object repeated a name
}

// node is one value. The text of a string is its decoded content.
type node struct {
	typ      Type
	flags    uint8
	lo, hi   uint32 // text in src, or in esc when flagged
	klo, khi uint32 // member name, in src or in esc when flagged
	kids, n  uint32 // children: doc.kids[kids : kids+n]
}

// The flags of a node.
const (
	flagEscaped    uint8 = 1 << iota // text lies in esc
	flagKeyEscaped                   // member name lies in esc
)

// Type is the value's JSON type.
func (v Value) Type() Type {
	if v.d == nil {
		return TypeAbsent
	}
	return v.node().typ
}

func (v Value) node() *node { return &v.d.nodes[v.i] }

// Len is the number of elements or of distinct members; 0 for scalars.
func (v Value) Len() int {
	if v.d == nil {
		return 0
	}
	return int(v.node().n)
}

// At is the i-th element, or the i-th member by name.
func (v Value) At(i int) Value { return Value{v.d, v.d.kids[int(v.node().kids)+i]} }

// name is the member name under which an object holds v.
func (v Value) name() []byte { return v.d.name(v.node()) }

// Name is the member name under which an object holds v; "" elsewhere.
func (v Value) Name() string {
	if v.d == nil {
		return ""
	}
	return string(v.name())
}

func (d *doc) name(n *node) []byte {
	if n.flags&flagKeyEscaped != 0 {
		return d.esc[n.klo:n.khi]
	}
	return d.src[n.klo:n.khi]
}

// text is the source text of a scalar; for a string its decoded content. A lone
// surrogate is kept as its three WTF-8 bytes, which no UTF-8 input can contain.
func (v Value) text() []byte {
	n := v.node()
	if n.flags&flagEscaped != 0 {
		return v.d.esc[n.lo:n.hi]
	}
	return v.d.src[n.lo:n.hi]
}

// Text is the decoded content of a string, the literal of another scalar, "" for
// a container.
func (v Value) Text() string {
	if v.d == nil || v.isContainer() {
		return ""
	}
	return string(v.text())
}

// Bool reports whether v is the literal true.
func (v Value) Bool() bool { return v.Type() == TypeBool && v.text()[0] == 't' }

// Get finds a member of an object; the last one where the text repeats a name.
func (v Value) Get(name string) (Value, bool) {
	if v.Type() != TypeObject {
		return Value{}, false
	}
	lo, hi := 0, v.Len()
	for lo < hi {
		mid := (lo + hi) / 2
		kid := v.At(mid)
		switch c := bytes.Compare(kid.name(), []byte(name)); {
		case c == 0:
			return kid, true
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return Value{}, false
}

// Members iterates over an object by member name, in byte order.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Type() != TypeObject {
			return
		}
		for i := range v.Len() {
			if kid := v.At(i); !yield(kid.Name(), kid) {
				return
			}
		}
	}
}

// Elements iterates over an array.
func (v Value) Elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.Type() != TypeArray {
			return
		}
		for i := range v.Len() {
			if !yield(i, v.At(i)) {
				return
			}
		}
	}
}

// IsContainer reports whether v is an array or an object.
func (v Value) isContainer() bool { t := v.Type(); return t == TypeArray || t == TypeObject }

// isLeaf reports whether v is present and has no children.
func (v Value) isLeaf() bool { return v.d != nil && v.node().n == 0 }

// IsEmpty reports whether v is "", [] or {}.
func (v Value) IsEmpty() bool {
	switch v.Type() {
	case TypeString:
		return len(v.text()) == 0
	case TypeArray, TypeObject:
		return v.Len() == 0
	case TypeAbsent, TypeNull, TypeBool, TypeNumber:
		return false
	}
	return false
}

// DuplicateKeys reports whether some object of v's document repeated a member
// name. The last one wins, which hides a hallucinated value: always flag it.
func (v Value) DuplicateKeys() bool { return v.d != nil && v.d.dup }

// Leaves counts the scalars and empty containers of v.
func (v Value) Leaves() int {
	if v.d == nil {
		return 0
	}
	if v.isLeaf() {
		return 1
	}
	total := 0
	for i := range v.Len() {
		total += v.At(i).Leaves()
	}
	return total
}

// Raw is the source text of an array, an object, a number or a literal, and of a
// string its decoded content. It must not be modified.
func (v Value) Raw() []byte {
	if v.d == nil {
		return nil
	}
	return v.text()
}
