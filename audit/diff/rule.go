package diff

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ArrayMode says how the elements of two arrays find each other.
type ArrayMode string

// The array modes; "" is Ordered.
const (
	Ordered  ArrayMode = "ordered"  // edit script
	Keyed    ArrayMode = "keyed"    // by the value of Rule.Fields; a duplicate key makes it a Multiset, flagged
	Multiset ArrayMode = "multiset" // order means nothing
)

// Void names one of the four ways of not being there.
type Void string

// The four voids. They are four different things unless a rule equates two.
const (
	VoidAbsent Void = "absent"
	VoidNull   Void = "null"
	VoidEmpty  Void = "empty" // "", [] or {}
	VoidZero   Void = "zero"  // the number 0
)

// Presence says whether a value must be there.
type Presence string

// The presence rules; "" is Required.
const (
	Required Presence = "required"
	Optional Presence = "optional" // a value on one side only is no difference and weighs nothing
)

// Rule says how the values under one path pattern are compared. Fields that are
// zero are left to less specific patterns, and at last to exact comparison.
type Rule struct {
	Class     Class         `json:"rule,omitempty"`
	Abs       float64       `json:"abs,omitempty"`       // number: absolute tolerance, inclusive
	Rel       float64       `json:"rel,omitempty"`       // number: of the larger magnitude, inclusive
	Tolerance time.Duration `json:"tolerance,omitempty"` // timestamp
	Array     ArrayMode     `json:"array,omitempty"`
	Fields    []string      `json:"fields,omitempty"`   // keyed: member names, or pointers that begin with /
	Map       bool          `json:"map,omitempty"`      // member names are data: * in patterns
	Equate    [][2]Void     `json:"equate,omitempty"`   // pairs that differ only cosmetically
	Presence  Presence      `json:"presence,omitempty"` // whether one side may lack the value
	Coerce    bool          `json:"coerce,omitempty"`   // 25 and "25" differ only cosmetically
	Fold      bool          `json:"fold,omitempty"`     // letter case and outer space differ only cosmetically
	Weight    *float64      `json:"weight,omitempty"`   // of a leaf; nil = by class

	masked bool // learned noise: neither compared nor weighed
}

// PathRule is a rule with the pattern of the paths it is for: a JSON Pointer in
// which * stands for one token and ** for any number, or "regex:" and an RE2
// expression that is searched in the pointer's text.
type PathRule struct {
	Pattern string `json:"pattern"`
	Rule    Rule   `json:"rule"`
}

const regexPrefix = "regex:"

// validate says what is wrong with a rule, and the remedy.
func (r *Rule) validate() (message, hint string) {
	switch {
	case r.Class != "" && !slices.Contains(classes(), r.Class):
		return fmt.Sprintf("unknown rule %q", r.Class), nearestHint(string(r.Class), classes())
	case r.Array != "" && !slices.Contains(arrayModes(), r.Array):
		return fmt.Sprintf("unknown array mode %q", r.Array), nearestHint(string(r.Array), arrayModes())
	case r.Presence != "" && r.Presence != Required && r.Presence != Optional:
		return fmt.Sprintf("unknown presence %q", r.Presence),
			nearestHint(string(r.Presence), []Presence{Required, Optional})
	case (r.Abs != 0 || r.Rel != 0) && r.Class != Number:
		return "abs and rel contradict a rule other than number", "write rule: number"
	case !finite(r.Abs) || !finite(r.Rel):
		return "a tolerance is negative or not finite", "write a decimal such as 0.01"
	case r.Tolerance != 0 && r.Class != Timestamp:
		return "tolerance contradicts a rule other than timestamp", "write rule: timestamp"
	case r.Tolerance < 0:
		return "a tolerance is negative", "write a duration such as 5s"
	case r.Array == Keyed && len(r.Fields) == 0:
		return "array: keyed without fields", "name the fields that tell elements apart, such as fields: [id]"
	case r.Array != Keyed && len(r.Fields) > 0:
		return "fields contradict an array mode other than keyed", "write array: keyed"
	case r.Weight != nil && !finite(*r.Weight):
		return "a weight is negative or not finite", "write a number from 0 on"
	}
	return r.validateParts()
}

func (r *Rule) validateParts() (message, hint string) {
	for _, field := range r.Fields {
		if field == "" {
			return "a key field without a name", "write a member name, or a pointer that begins with /"
		}
		if _, err := parsePointer(fieldPointer(field)); err != nil {
			return fmt.Sprintf("field %q: %v", field, err), "write a member name, or a pointer that begins with /"
		}
	}
	for _, pair := range r.Equate {
		for _, void := range pair {
			if !slices.Contains(voids(), void) {
				return fmt.Sprintf("cannot equate %q", void), nearestHint(string(void), voids())
			}
		}
		if pair[0] == pair[1] {
			return fmt.Sprintf("equates %q with itself", pair[0]), "name two of " + list(voids())
		}
	}
	return "", ""
}

func finite(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// fieldPointer is the pointer below an element that a key field names.
func fieldPointer(field string) string {
	if strings.HasPrefix(field, "/") {
		return field
	}
	return string(appendToken(nil, field))
}

func classes() []Class { return []Class{Exact, Echo, Enum, Number, Timestamp, ID, Text, Volatile} }

func arrayModes() []ArrayMode { return []ArrayMode{Ordered, Keyed, Multiset} }

func voids() []Void { return []Void{VoidAbsent, VoidNull, VoidEmpty, VoidZero} }

// over is r with what it leaves open taken from the less specific base.
func (r *Rule) over(base *Rule) *Rule {
	out := *r
	if out.Class == "" {
		out.Class, out.Abs, out.Rel, out.Tolerance = base.Class, base.Abs, base.Rel, base.Tolerance
	}
	if out.Array == "" {
		out.Array, out.Fields = base.Array, base.Fields
	}
	if out.Equate == nil {
		out.Equate = base.Equate
	}
	if out.Presence == "" {
		out.Presence = base.Presence
	}
	if out.Weight == nil {
		out.Weight = base.Weight
	}
	out.Map = out.Map || base.Map
	out.Coerce = out.Coerce || base.Coerce
	out.Fold = out.Fold || base.Fold
	out.masked = out.masked || base.masked
	return &out
}

// contradicts names an attribute that two rules set differently, "" if none.
func (r *Rule) contradicts(s *Rule) string {
	switch {
	case r.Class != "" && s.Class != "" &&
		(r.Class != s.Class || r.Abs != s.Abs || r.Rel != s.Rel || r.Tolerance != s.Tolerance):
		return "rule"
	case r.Array != "" && s.Array != "" && (r.Array != s.Array || !slices.Equal(r.Fields, s.Fields)):
		return "array"
	case r.Equate != nil && s.Equate != nil && !slices.Equal(r.Equate, s.Equate):
		return "equate"
	case r.Presence != "" && s.Presence != "" && r.Presence != s.Presence:
		return "presence"
	case r.Weight != nil && s.Weight != nil && *r.Weight != *s.Weight:
		return "weight"
	}
	return ""
}

// equates reports whether the rule equates two voids.
func (r *Rule) equates(a, b Void) bool {
	for _, pair := range r.Equate {
		if pair == [2]Void{a, b} || pair == [2]Void{b, a} {
			return true
		}
	}
	return false
}

// regexRule is a rule whose pattern is an RE2 expression.
type regexRule struct {
	expression *regexp.Regexp
	rule       *Rule
	layer      int
}

// list joins words for a hint.
func list[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

// nearestHint names the valid word closest to a wrong one.
func nearestHint[T ~string](word string, valid []T) string {
	best := Nearest(word, valid, len(word)/2+1)
	if best == "" {
		return "want one of " + list(valid)
	}
	return fmt.Sprintf("did you mean %q? Want one of %s", best, list(valid))
}
