package diff

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrConflict is returned when a patch does not fit the value: a path that is
// not there, or an old value other than the one found.
var ErrConflict = errors.New("patch does not fit the value")

// Apply is the value after every operation of p, in order. Each operation that
// carries an old value must find it. before is not changed. The error wraps
// ErrConflict or says what is wrong with an operation.
func (p Patch) Apply(before Value) (Value, error) {
	root := &cell{value: before}
	for i, op := range p {
		if err := op.check(); err != nil {
			return Value{}, err
		}
		if err := op.apply(&root); err != nil {
			return Value{}, fmt.Errorf("operation %d, %s %s: %w", i, op.Op, op.Path, err)
		}
	}
	if root == nil {
		return Value{}, nil
	}
	after, err := Decode(root.appendJSON(nil), unlimited())
	if err != nil {
		return Value{}, fmt.Errorf("apply patch: %w", err)
	}
	return after, nil
}

// cell is a value that is unfolded only along the paths a patch touches.
type cell struct {
	value    Value
	unfolded bool
	members  map[string]*cell
	elements []*cell
}

func (c *cell) unfold() {
	if c.unfolded {
		return
	}
	c.unfolded = true
	switch c.value.Type() {
	case TypeObject:
		c.members = make(map[string]*cell, c.value.Len())
		for name, kid := range c.value.Members() {
			c.members[name] = &cell{value: kid}
		}
	case TypeArray:
		for _, kid := range c.value.Elements() {
			c.elements = append(c.elements, &cell{value: kid})
		}
	case TypeAbsent, TypeNull, TypeBool, TypeNumber, TypeString:
	}
}

func (c *cell) appendJSON(dst []byte) []byte {
	switch {
	case !c.unfolded || !c.value.isContainer():
		return c.value.AppendJSON(dst)
	case c.value.Type() == TypeArray:
		dst = append(dst, '[')
		for i, kid := range c.elements {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = kid.appendJSON(dst)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(c.members)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, []byte(name)), ':')
		dst = c.members[name].appendJSON(dst)
	}
	return append(dst, '}')
}

// apply performs o below *root.
func (o *Op) apply(root **cell) error {
	tokens, err := parsePointer(o.Path)
	if err != nil {
		return err
	}
	var fresh *cell
	if o.Op != OpRemove {
		v, err := Decode(o.Value, unlimited())
		if err != nil {
			return err
		}
		fresh = &cell{value: v}
	}
	if len(tokens) == 0 {
		return o.applyRoot(root, fresh)
	}
	parent := *root
	for _, token := range tokens[:len(tokens)-1] {
		if parent = parent.child(token); parent == nil {
			return ErrConflict
		}
	}
	return o.applyIn(parent, tokens[len(tokens)-1], fresh)
}

func (o *Op) applyRoot(root **cell, fresh *cell) error {
	if absent := *root == nil || (*root).value.Type() == TypeAbsent; absent == (o.Op == OpAdd) {
		if absent || o.checkOld(*root) == nil {
			*root = fresh
			return nil
		}
	}
	return ErrConflict
}

func (o *Op) applyIn(parent *cell, token string, fresh *cell) error {
	if parent == nil {
		return ErrConflict
	}
	found := parent.child(token) // unfolds the parent
	if o.Op != OpAdd {
		if found == nil {
			return ErrConflict
		}
		if err := o.checkOld(found); err != nil {
			return err
		}
	}
	switch parent.value.Type() {
	case TypeObject:
		return o.applyMember(parent, token, found, fresh)
	case TypeArray:
		return o.applyElement(parent, token, found, fresh)
	case TypeAbsent, TypeNull, TypeBool, TypeNumber, TypeString:
	}
	return ErrConflict
}

func (o *Op) applyMember(parent *cell, name string, found, fresh *cell) error {
	if o.Op == OpRemove {
		delete(parent.members, name)
		return nil
	}
	if o.Op == OpAdd && found != nil {
		return ErrConflict
	}
	parent.members[name] = fresh
	return nil
}

func (o *Op) applyElement(parent *cell, token string, found, fresh *cell) error {
	i, ok := arrayIndex(token)
	if token == "-" && o.Op == OpAdd {
		i, ok = len(parent.elements), true
	}
	switch {
	case !ok || i > len(parent.elements):
		return ErrConflict
	case o.Op == OpAdd:
		parent.elements = slices.Insert(parent.elements, i, fresh)
	case o.Op == OpRemove:
		parent.elements = slices.Delete(parent.elements, i, i+1)
	default:
		*found = *fresh
	}
	return nil
}

// child finds a child, nil if there is none.
func (c *cell) child(token string) *cell {
	if c == nil {
		return nil
	}
	c.unfold()
	if c.value.Type() == TypeObject {
		return c.members[token]
	}
	if i, ok := arrayIndex(token); ok && i < len(c.elements) {
		return c.elements[i]
	}
	return nil
}

// checkOld compares the old value that o carries, if any, with what is there.
func (o *Op) checkOld(found *cell) error {
	if o.Old != nil && !sameJSON(o.Old, found.appendJSON(nil)) {
		return fmt.Errorf("%w: want the old value %s", ErrConflict, o.Old)
	}
	return nil
}
