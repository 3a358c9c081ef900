package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Patch is the canonical list of cell changes between two JSON values: RFC 6902
// add, remove and replace operations, each with the old value, so that a patch
// can be inverted. It is a pure function of the two values, never of the order
// in which they were written: two effects are equal exactly when their patches
// are equal. A nil Patch means "not known"; an empty one means "known to be none".
type Patch []Op

// Op is one changed cell. Value and Old hold compact JSON text; Value is nil for
// a remove, Old is nil for an add.
type Op struct {
	Op    string          `json:"op"`   // add, remove or replace
	Path  string          `json:"path"` // RFC 6901 JSON Pointer
	Value json.RawMessage `json:"value,omitempty"`
	Old   json.RawMessage `json:"old,omitempty"`
}

// The operations of a Patch.
const (
	OpAdd     = "add"
	OpRemove  = "remove"
	OpReplace = "replace"
)

// Invert is the patch that undoes p.
func (p Patch) Invert() Patch {
	if p == nil {
		return nil
	}
	inverse := make(Patch, 0, len(p))
	for _, op := range slices.Backward(p) {
		undo := Op{Op: op.Op, Path: op.Path, Value: op.Old, Old: op.Value}
		switch op.Op {
		case OpAdd:
			undo.Op = OpRemove
		case OpRemove:
			undo.Op = OpAdd
		}
		inverse = append(inverse, undo)
	}
	return inverse
}

// Equal reports whether two patches say the same: the same cells, with values
// that are structurally equal (1 and 1.0 are). Known-to-be-none differs from not
// known.
func (p Patch) Equal(q Patch) bool {
	return (p == nil) == (q == nil) && slices.EqualFunc(p, q, func(a, b Op) bool {
		return a.Op == b.Op && a.Path == b.Path && sameJSON(a.Value, b.Value) && sameJSON(a.Old, b.Old)
	})
}

// sameJSON compares two texts as values; what does not decode, as text.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := Decode(a, unlimited())
	y, errY := Decode(b, unlimited())
	return errX == nil && errY == nil && Equal(x, y)
}

// unlimited is for texts that were decoded under limits before: parts of a value
// never exceed the whole, but the state of a world may be larger than an answer.
func unlimited() Limits {
	return Limits{Bytes: math.MaxUint32, Depth: 10_000, Leaves: math.MaxUint32, Exponent: math.MaxInt32}
}

// MarshalJSON writes an operation. It keeps lone surrogates in paths, which
// encoding/json would replace.
func (o Op) MarshalJSON() ([]byte, error) {
	dst := appendString([]byte(`{"op":`), []byte(o.Op))
	dst = appendString(append(dst, `,"path":`...), []byte(o.Path))
	if o.Value != nil {
		dst = append(append(dst, `,"value":`...), o.Value...)
	}
	if o.Old != nil {
		dst = append(append(dst, `,"old":`...), o.Old...)
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON reads an operation; an unknown one is an error.
func (o *Op) UnmarshalJSON(text []byte) error {
	v, err := Decode(bytes.Clone(text), unlimited())
	if err != nil {
		return fmt.Errorf("patch operation: %w", err)
	}
	op, _ := v.Get("op")
	path, hasPath := v.Get("path")
	value, _ := v.Get("value")
	old, _ := v.Get("old")
	*o = Op{Op: op.Text(), Path: path.Text(), Value: value.JSON(), Old: old.JSON()}
	if !hasPath || path.Type() != TypeString {
		return fmt.Errorf("patch operation %s: want a path", text)
	}
	return o.check()
}

// check says what an operation lacks.
func (o *Op) check() error {
	switch o.Op {
	case OpAdd, OpReplace:
		if o.Value == nil {
			return fmt.Errorf("patch operation %s %s: want a value", o.Op, o.Path)
		}
	case OpRemove:
	default:
		return fmt.Errorf("patch operation %q: want add, remove or replace", o.Op)
	}
	return nil
}
