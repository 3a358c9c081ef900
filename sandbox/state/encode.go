package state

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

// JSONType is the JSON name of a value's type.
func JSONType(v starlark.Value) string {
	switch v.(type) {
	case starlark.NoneType:
		return "null"
	case starlark.Bool:
		return "boolean"
	case starlark.Int:
		return "integer"
	case starlark.Float:
		return "number"
	case starlark.String:
		return "string"
	case *Object, *Map, *starlark.Dict:
		return "object"
	case *Array, *List, *starlark.List, starlark.Tuple:
		return "array"
	}
	return v.Type()
}

// Style is a way of writing JSON.
type Style struct {
	Comma, Colon string
	ASCII        bool // escape everything beyond ASCII
	Sorted       bool // members of frozen objects by name, not in order of insertion
	Limit        int  // bytes of the text, give or take one scalar; 0 = none
}

// ErrTooLarge is returned for a text beyond its limit: values can share parts, so
// that a small value has an astronomic text.
var ErrTooLarge = errors.New("the value is too large")

// Compact is the style of states and native responses.
func Compact() Style { return Style{Comma: ",", Colon: ":"} }

// Python is the style of Python's json.dumps with its defaults.
func Python() Style { return Style{Comma: ", ", Colon: ": ", ASCII: true} }

// AppendJSON appends a frozen value in the compact style.
func AppendJSON(b []byte, v starlark.Value) []byte {
	b, _ = Compact().Append(b, v)
	return b
}

// Append appends any JSON-like value: frozen, live or plain Starlark.
func (s Style) Append(b []byte, v starlark.Value) ([]byte, error) { return s.append(b, v, 0) }

func (s *Style) append(b []byte, v starlark.Value, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("more than %d levels", MaxDepth)
	}
	if s.Limit > 0 && len(b) > s.Limit {
		return nil, ErrTooLarge
	}
	switch v := v.(type) {
	case starlark.NoneType:
		return append(b, "null"...), nil
	case starlark.Bool:
		return strconv.AppendBool(b, bool(v)), nil
	case starlark.Int:
		return appendInt(b, v), nil
	case starlark.Float:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("%v is not a JSON number", v)
		}
		return appendFloat(b, float64(v)), nil
	case starlark.String:
		if s.Limit > 0 && len(v) > s.Limit {
			return nil, ErrTooLarge
		}
		return s.appendString(b, string(v)), nil
	case *Object:
		if v.root == nil {
			return s.appendSmall(b, v, depth)
		}
		return s.appendWide(b, v, depth)
	case *Map:
		if len(v.slots) == 0 {
			return s.append(b, v.base, depth)
		}
		return s.appendMap(b, v, depth)
	case *starlark.Dict:
		return s.appendDict(b, v, depth)
	case *Array:
		return s.appendElements(b, v.vals, depth)
	case starlark.Tuple:
		return s.appendElements(b, v, depth)
	case *List:
		if v.items == nil {
			return s.appendElements(b, v.base.vals, depth)
		}
		return s.appendElements(b, v.items, depth)
	case *starlark.List:
		return s.appendList(b, v, depth)
	case starlark.Iterable:
		return s.appendElements(b, elements(v), depth)
	}
	return nil, fmt.Errorf("a %s is not a JSON value", v.Type())
}

func elements(it starlark.Iterable) []starlark.Value {
	vals := make([]starlark.Value, 0, max(starlark.Len(it), 0))
	i := it.Iterate()
	defer i.Done()
	for v := starlark.Value(nil); i.Next(&v); {
		vals = append(vals, v)
	}
	return vals
}

// appendSmall appends an object in its small form.
func (s *Style) appendSmall(b []byte, o *Object, depth int) ([]byte, error) {
	b = append(b, '{')
	var names nameOrder
	if s.Sorted {
		names = o.byName()
	}
	var err error
	for i := range o.keys {
		at := i
		if s.Sorted {
			at = int(names[i])
		}
		if b, err = s.appendMember(b, o.keys[at], o.vals[at], depth, i == 0); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (s *Style) appendMember(b []byte, k string, v starlark.Value, depth int, first bool) ([]byte, error) {
	if !first {
		b = append(b, s.Comma...)
	}
	b = append(s.appendString(b, k), s.Colon...)
	return s.append(b, v, depth+1)
}

func (s *Style) appendWide(b []byte, o *Object, depth int) ([]byte, error) {
	b = append(b, '{')
	first := true
	var err error
	member := func(k string, v starlark.Value) bool {
		b, err = s.appendMember(b, k, v, depth, first)
		first = false
		return err == nil
	}
	if s.Sorted {
		o.eachSorted(member)
	} else {
		o.Each(member)
	}
	return append(b, '}'), err
}

func (s *Style) appendMap(b []byte, m *Map, depth int) ([]byte, error) {
	b = append(b, '{')
	first := true
	var err error
	m.each(func(k string, v starlark.Value) bool {
		b, err = s.appendMember(b, k, v, depth, first)
		first = false
		return err == nil
	})
	return append(b, '}'), err
}

func (s *Style) appendDict(b []byte, d *starlark.Dict, depth int) ([]byte, error) {
	b = append(b, '{')
	for i, item := range d.Items() {
		k, ok := item[0].(starlark.String)
		if !ok {
			return nil, fmt.Errorf("a key is of type %s, not a string", item[0].Type())
		}
		var err error
		if b, err = s.appendMember(b, string(k), item[1], depth, i == 0); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (s *Style) appendElements(b []byte, vals []starlark.Value, depth int) ([]byte, error) {
	b = append(b, '[')
	for i, v := range vals {
		if i > 0 {
			b = append(b, s.Comma...)
		}
		var err error
		if b, err = s.append(b, v, depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func (s *Style) appendList(b []byte, l *starlark.List, depth int) ([]byte, error) {
	b = append(b, '[')
	for i := range l.Len() {
		if i > 0 {
			b = append(b, s.Comma...)
		}
		var err error
		if b, err = s.append(b, l.Index(i), depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

const hexDigits = "0123456789abcdef"

func (s *Style) appendString(b []byte, text string) []byte {
	b = append(b, '"')
	if plain(text) {
		return append(append(b, text...), '"')
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && (c < utf8.RuneSelf || !s.ASCII) {
			i++
			continue
		}
		b = append(b, text[start:i]...)
		if c < utf8.RuneSelf {
			b = appendEscape(b, c)
			i++
		} else {
			r, size := utf8.DecodeRuneInString(text[i:])
			b = appendRune(b, r)
			i += size
		}
		start = i
	}
	return append(append(b, text[start:]...), '"')
}

// plain reports whether text is ASCII without anything to escape.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func appendEscape(b []byte, c byte) []byte {
	if i := strings.IndexByte("\"\\\b\f\n\r\t", c); i >= 0 {
		return append(b, '\\', `"\bfnrt`[i])
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

func appendRune(b []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		return appendRune(appendRune(b, 0xd800+r>>10), 0xdc00+r&0x3ff)
	}
	return append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// FloatText is Python's repr of a finite double: 25.0, 0.1, 1e+16, 1e-05.
func FloatText(f float64) string { return string(appendFloat(nil, f)) }

func appendInt(b []byte, i starlark.Int) []byte {
	if n, ok := i.Int64(); ok {
		return strconv.AppendInt(b, n, 10)
	}
	return append(b, i.String()...)
}

func appendFloat(b []byte, f float64) []byte {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, 'f', -1, 64)
	for _, c := range b[start:] {
		if c == '.' || c == 'n' || c == 'I' {
			return b
		}
	}
	return append(b, ".0"...)
}
