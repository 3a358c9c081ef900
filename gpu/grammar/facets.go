package grammar

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// kinds is a set of JSON types.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBoolean
	kindObject
	kindArray
	kindInteger
	kindFraction // numbers that are written with a point
	kindString
	kindAll = 1<<7 - 1
)

func kindOf(name string) kinds {
	switch name {
	case "null":
		return kindNull
	case "boolean":
		return kindBoolean
	case "object":
		return kindObject
	case "array":
		return kindArray
	case "integer":
		return kindInteger
	case "number":
		return kindInteger | kindFraction
	case "string":
		return kindString
	}
	return 0
}

// facets are the keywords of one alternative of a schema, after references and
// combinations are gone. Nil and -1 mean "not said".
type facets struct {
	kinds                kinds
	enum                 []any // what const and enum leave; nil = anything
	closed               bool  // enum is said
	minLength, maxLength int64
	patterns             []string
	low, high            *big.Rat
	lowOpen, highOpen    bool
	minItems, maxItems   int
	prefix               []conjunction
	items                conjunction
	noItems              bool // no item after prefix
	members              map[string]conjunction
	required             []string
	extra                conjunction
	noExtra              bool // no member that is not declared
	minMembers           int
	maxMembers           int
}

func anything() facets {
	return facets{kinds: kindAll, maxLength: -1, maxItems: -1, maxMembers: -1}
}

// read adds keyword to f; combinations and references are not its business.
func (f *facets) read(l located, keyword string, ignore func(string)) error {
	value, _ := child(l.value, keyword)
	switch keyword {
	case "type":
		f.kinds &= kindsOf(value)
	case "const":
		f.restrict([]any{value})
	case "enum":
		values, _ := value.([]any)
		f.restrict(values)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return f.readCount(l, keyword, value)
	case "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum":
		return f.readBound(l, keyword, value)
	case "prefixItems", "items", "properties", "required", "additionalProperties":
		f.readParts(l, keyword, value)
	case "pattern":
		expression, _ := value.(string)
		f.patterns = append(f.patterns, expression)
	case "uniqueItems":
		if value == true {
			return unsupported(l, keyword, "")
		}
	case "format", "contentEncoding", "contentMediaType", "contentSchema":
		ignore(l.at + "/" + keyword)
	case "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
		"$schema", "$id", "$comment", "$defs", "definitions", "$anchor", "strict":
	default:
		if !strings.HasPrefix(keyword, "x-") {
			return unsupported(l, keyword, "")
		}
	}
	return nil
}

func kindsOf(value any) kinds {
	if name, ok := value.(string); ok {
		return kindOf(name)
	}
	names, _ := value.([]any)
	var k kinds
	for _, n := range names {
		name, _ := n.(string)
		k |= kindOf(name)
	}
	return k
}

// restrict intersects what enum and const allow.
func (f *facets) restrict(values []any) {
	if f.closed {
		kept := make(map[string]bool, len(f.enum))
		for _, v := range f.enum {
			kept[canonical(v)] = true
		}
		values = slices.DeleteFunc(slices.Clone(values), func(v any) bool { return !kept[canonical(v)] })
	}
	f.closed, f.enum = true, values
}

// mostCount bounds counts so that arithmetic stays far from overflow.
const mostCount = 1 << 30

func (f *facets) readCount(l located, keyword string, value any) error {
	number, _ := value.(json.Number)
	rat, ok := new(big.Rat).SetString(string(number))
	if !ok || !rat.IsInt() || rat.Num().Cmp(big.NewInt(mostCount)) > 0 {
		return fmt.Errorf("schema at %s: %s %v is no usable count", l.at, keyword, value)
	}
	n := int(rat.Num().Int64())
	switch keyword {
	case "minLength":
		f.minLength = max(f.minLength, int64(n))
	case "maxLength":
		f.maxLength = int64(lower(int(f.maxLength), n))
	case "minItems":
		f.minItems = max(f.minItems, n)
	case "maxItems":
		f.maxItems = lower(f.maxItems, n)
	case "minProperties":
		f.minMembers = max(f.minMembers, n)
	case "maxProperties":
		f.maxMembers = lower(f.maxMembers, n)
	}
	return nil
}

// lower is the smaller bound, where -1 is none.
func lower(a, b int) int {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

func (f *facets) readBound(l located, keyword string, value any) error {
	number, _ := value.(json.Number)
	rat, ok := new(big.Rat).SetString(string(number))
	if !ok {
		return unsupported(l, keyword, fmt.Sprintf("%v is no number", value))
	}
	open := strings.HasPrefix(keyword, "exclusive")
	if strings.HasSuffix(strings.ToLower(keyword), "minimum") {
		f.raise(rat, open)
	} else {
		f.reduce(rat, open)
	}
	return nil
}

func (f *facets) raise(low *big.Rat, open bool) {
	if f.low == nil || low.Cmp(f.low) > 0 || low.Cmp(f.low) == 0 && open {
		f.low, f.lowOpen = low, open
	}
}

func (f *facets) reduce(high *big.Rat, open bool) {
	if f.high == nil || high.Cmp(f.high) < 0 || high.Cmp(f.high) == 0 && open {
		f.high, f.highOpen = high, open
	}
}

func (f *facets) readParts(l located, keyword string, value any) {
	here := l.child(keyword)
	switch keyword {
	case "prefixItems":
		list, _ := value.([]any)
		for i := range list {
			f.prefix = append(f.prefix, conjunction{here.child(strconv.Itoa(i))})
		}
	case "items":
		f.noItems = value == false
		f.items = conjunction{here}
	case "properties":
		list, _ := value.(map[string]any)
		f.members = make(map[string]conjunction, len(list))
		for name := range list {
			f.members[name] = conjunction{here.child(name)}
		}
	case "required":
		list, _ := value.([]any)
		for _, name := range list {
			if s, ok := name.(string); ok {
				f.required = append(f.required, s)
			}
		}
	case "additionalProperties":
		f.noExtra = value == false
		f.extra = conjunction{here}
	}
}

// member is what f says of one member.
func (f *facets) member(name string) (c conjunction, allowed bool) {
	if c, ok := f.members[name]; ok {
		return c, true
	}
	return f.extra, !f.noExtra
}

// item is what f says of the i-th item.
func (f *facets) item(i int) (c conjunction, allowed bool) {
	if i < len(f.prefix) {
		return f.prefix[i], true
	}
	return f.items, !f.noItems
}
