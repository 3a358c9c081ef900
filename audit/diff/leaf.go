package diff

import (
	"bytes"

	"golang.org/x/text/unicode/norm"
)

// emptyWeight is the weight of {} and of [], as of an array of no elements.
const emptyWeight = 1

// leafWeight is what a leaf weighs under its rule: what decides a later call
// weighs most, what only a person reads least.
func leafWeight(v Value, rule *Rule) float64 {
	if rule.Weight != nil {
		return *rule.Weight
	}
	switch rule.Class {
	case Echo, Enum:
		return 3
	case Timestamp:
		return 1
	case Text:
		return 0.5
	case Volatile:
		return 0
	case Exact, Number, ID:
	}
	switch v.Type() {
	case TypeBool:
		return 3
	case TypeArray, TypeObject:
		return emptyWeight
	case TypeAbsent, TypeNull, TypeNumber, TypeString:
	}
	return 2
}

// leaf compares two scalars of one type.
func (c *comparer) leaf(x, y Value, rule *Rule) mass {
	weight := leafWeight(x, rule)
	if rule.Class == ID {
		return c.id(x, y, rule, weight)
	}
	if sameScalar(x, y) {
		return both(weight, true)
	}
	matched, cosmetic := false, false
	switch rule.Class {
	case Number:
		matched = x.Type() == TypeNumber && within(x.text(), y.text(), rule)
	case Timestamp:
		matched, cosmetic = sameInstant(x, y, rule.Tolerance)
	case Text:
		matched = x.Type() == TypeString && sameMeaning(x.text(), y.text())
	case Volatile:
		matched = true
	case Exact, Echo, Enum, ID:
	}
	if !matched && x.Type() == TypeString && sameLetters(x.text(), y.text(), rule.Fold) {
		matched, cosmetic = true, true
	}
	if !matched {
		c.record(Changed, x, y, rule, weight, false)
	} else if cosmetic {
		c.record(Changed, x, y, rule, 0, true)
	}
	return both(weight, matched)
}

// id compares two surrogate ids under the episode's bijection.
func (c *comparer) id(x, y Value, rule *Rule, weight float64) mass {
	realID, rehearsedID := string(x.JSON()), string(y.JSON())
	if c.scoring > 0 {
		return both(weight, c.ids.Consistent(realID, rehearsedID))
	}
	c.out.IDs++
	if c.ids.Bind(realID, rehearsedID) {
		c.out.ConsistentIDs++
		return both(weight, true)
	}
	c.record(Inconsistent, x, y, rule, weight, false)
	return both(weight, false)
}

// sameScalar is structural equality of two scalars of one type.
func sameScalar(x, y Value) bool {
	switch x.Type() {
	case TypeNumber:
		return sameNumber(x.text(), y.text())
	case TypeBool, TypeString:
		return bytes.Equal(x.text(), y.text())
	case TypeNull:
		return true
	case TypeAbsent, TypeArray, TypeObject:
	}
	return Equal(x, y)
}

// sameLetters reports whether two strings differ only in how their characters
// are composed, and with fold in letter case and outer space.
func sameLetters(a, b []byte, fold bool) bool {
	if fold {
		return bytes.EqualFold(norm.NFC.Bytes(bytes.TrimSpace(a)), norm.NFC.Bytes(bytes.TrimSpace(b)))
	}
	return !isASCII(a) && !isASCII(b) && bytes.Equal(norm.NFC.Bytes(a), norm.NFC.Bytes(b))
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// voidOf says in which way a value is not there; "" if it is.
func voidOf(v Value) Void {
	switch t := v.Type(); {
	case t == TypeAbsent:
		return VoidAbsent
	case t == TypeNull:
		return VoidNull
	case v.IsEmpty():
		return VoidEmpty
	case t == TypeNumber && sameNumber(v.text(), []byte("0")):
		return VoidZero
	}
	return ""
}

// voids records two values that the rule equates: cosmetic, never silent.
func (c *comparer) voids(x, y Value, at here, rule *Rule) mass {
	kind := TypeChanged
	tx, ty := x.Type(), y.Type()
	switch {
	case tx+ty == TypeNull: // absent and null
		kind = AbsentNull
	case tx == TypeAbsent:
		kind = Extra
	case ty == TypeAbsent:
		kind = Missing
	case tx == ty:
		kind = Changed
	}
	if tx != TypeAbsent && ty != TypeAbsent {
		c.see(at, tx, tx) // of both types: neither is invented
		c.see(at, ty, ty)
	}
	c.record(kind, x, y, rule, 0, true)
	var m mass
	if tx != TypeAbsent {
		w := leafWeight(x, rule)
		m.real, m.hitReal, m.creditReal = w, w, w
	}
	if ty != TypeAbsent {
		w := leafWeight(y, rule)
		m.rehearsed, m.hitReh, m.credReh = w, w, w
	}
	return m
}

// coerced records two values that mean the same in two types.
func (c *comparer) coerced(x, y Value, at here, rule *Rule) mass {
	c.see(at, x.Type(), x.Type())
	c.see(at, y.Type(), y.Type())
	c.record(TypeChanged, x, y, rule, 0, true)
	return both(leafWeight(x, rule), true)
}

// coerces reports whether one side is the other's text in a string: 25 and "25",
// true and "True".
func coerces(x, y Value) bool {
	if y.Type() != TypeString {
		x, y = y, x
	}
	if y.Type() != TypeString {
		return false
	}
	switch text := bytes.TrimSpace(y.text()); x.Type() {
	case TypeNumber:
		v, err := Decode(text, Limits{})
		return err == nil && v.Type() == TypeNumber && Equal(x, v)
	case TypeBool:
		return bytes.EqualFold(text, x.text())
	case TypeNull:
		return bytes.EqualFold(text, []byte("null")) || bytes.EqualFold(text, []byte("none"))
	case TypeAbsent, TypeString, TypeArray, TypeObject:
	}
	return false
}
