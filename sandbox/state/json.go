package state

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

// The limits of one JSON text, the same everywhere in the program (design.md 4).
const (
	MaxDepth  = 200
	maxDigits = 1200 // of an integer: 4096 bits hold 1233
)

// SyntaxError says why a JSON text was refused, and where.
type SyntaxError struct {
	Offset int
	Reason string
}

// Error is the reason with its byte offset.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s (byte %d)", e.Reason, e.Offset) }

// Decode reads one JSON text strictly into frozen values: insertion order kept,
// integers exact, other numbers as doubles; duplicate keys, NaN, invalid UTF-8,
// more than MaxDepth levels and trailing text are *SyntaxError.
func Decode(data []byte) (starlark.Value, error) {
	d := decoder{data: data}
	if !utf8.Valid(data) {
		return nil, d.fail("text is not valid UTF-8")
	}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.space(); d.at < len(data) {
		return nil, d.fail("text after the end of the value")
	}
	return v, nil
}

// DecodeObject is Decode for a text that must hold an object.
func DecodeObject(data []byte) (*Object, error) {
	v, err := Decode(data)
	if err != nil {
		return nil, err
	}
	o, ok := v.(*Object)
	if !ok {
		return nil, &SyntaxError{Reason: "want an object, got " + JSONType(v)}
	}
	return o, nil
}

type decoder struct {
	data []byte
	at   int
}

func (d *decoder) fail(reason string) error { return &SyntaxError{Offset: d.at, Reason: reason} }

func (d *decoder) space() {
	for d.at < len(d.data) && (d.data[d.at] == ' ' || d.data[d.at] == '\n' || d.data[d.at] == '\t' || d.data[d.at] == '\r') {
		d.at++
	}
}

func (d *decoder) value(depth int) (starlark.Value, error) {
	d.space()
	if d.at >= len(d.data) {
		return nil, d.fail("text ends where a value was expected")
	}
	switch c := d.data[d.at]; {
	case c == '{':
		return d.object(depth + 1)
	case c == '[':
		return d.array(depth + 1)
	case c == '"':
		s, err := d.text()
		return starlark.String(s), err
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	}
	for _, w := range []struct {
		word string
		val  starlark.Value
	}{{"true", starlark.True}, {"false", starlark.False}, {"null", starlark.None}} {
		if len(d.data)-d.at >= len(w.word) && string(d.data[d.at:d.at+len(w.word)]) == w.word {
			d.at += len(w.word)
			return w.val, nil
		}
	}
	return nil, d.fail("not a JSON value: " + strconv.Quote(string(d.data[d.at:min(d.at+12, len(d.data))])))
}

func (d *decoder) object(depth int) (starlark.Value, error) {
	if depth > MaxDepth {
		return nil, d.fail(fmt.Sprintf("more than %d levels", MaxDepth))
	}
	d.at++
	var keys []string
	var vals []starlark.Value
	var seen map[string]bool
	for first := true; ; first = false {
		d.space()
		if d.at < len(d.data) && d.data[d.at] == '}' && first {
			d.at++
			return NewObject(nil, nil), nil
		}
		if d.at >= len(d.data) || d.data[d.at] != '"' {
			return nil, d.fail("want a quoted key")
		}
		key, err := d.text()
		if err != nil {
			return nil, err
		}
		if duplicate(keys, &seen, key) {
			return nil, d.fail("duplicate key " + strconv.Quote(key))
		}
		if d.space(); d.at >= len(d.data) || d.data[d.at] != ':' {
			return nil, d.fail("want : after a key")
		}
		d.at++
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		if keys == nil {
			keys, vals = make([]string, 0, 4), make([]starlark.Value, 0, 4)
		}
		keys, vals = append(keys, key), append(vals, v)
		more, err := d.next('}')
		if err != nil {
			return nil, err
		}
		if !more {
			return NewObject(keys, vals), nil
		}
	}
}

// duplicate reports whether keys holds key, by scanning few and indexing many.
func duplicate(keys []string, seen *map[string]bool, key string) bool {
	if len(keys) < smallMax {
		return slices.Contains(keys, key)
	}
	if *seen == nil {
		*seen = make(map[string]bool, 2*smallMax)
		for _, k := range keys {
			(*seen)[k] = true
		}
	}
	if (*seen)[key] {
		return true
	}
	(*seen)[key] = true
	return false
}

func (d *decoder) array(depth int) (starlark.Value, error) {
	if depth > MaxDepth {
		return nil, d.fail(fmt.Sprintf("more than %d levels", MaxDepth))
	}
	d.at++
	if d.space(); d.at < len(d.data) && d.data[d.at] == ']' {
		d.at++
		return NewArray(nil), nil
	}
	var vals []starlark.Value
	for {
		v, err := d.value(depth)
		if err != nil {
			return nil, err
		}
		vals = append(vals, v)
		more, err := d.next(']')
		if err != nil {
			return nil, err
		}
		if !more {
			return NewArray(vals), nil
		}
	}
}

// next reads a comma (more) or the closing bracket.
func (d *decoder) next(closing byte) (more bool, err error) {
	d.space()
	if d.at >= len(d.data) {
		return false, d.fail("text ends inside a container")
	}
	c := d.data[d.at]
	if c != ',' && c != closing {
		return false, d.fail("want , or " + string(closing))
	}
	d.at++
	return c == ',', nil
}

func (d *decoder) number() (starlark.Value, error) {
	start := d.at
	if d.data[d.at] == '-' {
		d.at++
	}
	digits := d.digits()
	if digits == 0 || digits > 1 && d.data[d.at-digits] == '0' {
		return nil, d.fail("malformed number")
	}
	whole := true
	if d.at < len(d.data) && d.data[d.at] == '.' {
		d.at++
		whole = false
		if d.digits() == 0 {
			return nil, d.fail("malformed number")
		}
	}
	if d.at < len(d.data) && (d.data[d.at] == 'e' || d.data[d.at] == 'E') {
		d.at++
		whole = false
		if d.at < len(d.data) && (d.data[d.at] == '+' || d.data[d.at] == '-') {
			d.at++
		}
		if d.digits() == 0 {
			return nil, d.fail("malformed number")
		}
	}
	text := string(d.data[start:d.at])
	if whole {
		return d.integer(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, d.fail("number out of range: " + text[:min(len(text), 40)])
	}
	return starlark.Float(f), nil
}

func (d *decoder) integer(text string) (starlark.Value, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return starlark.MakeInt64(i), nil
	}
	if len(text) > maxDigits {
		return nil, d.fail(fmt.Sprintf("integer of more than %d digits", maxDigits))
	}
	i, _ := new(big.Int).SetString(text, 10)
	return starlark.MakeBigInt(i), nil
}

func (d *decoder) digits() int {
	start := d.at
	for d.at < len(d.data) && d.data[d.at] >= '0' && d.data[d.at] <= '9' {
		d.at++
	}
	return d.at - start
}

// text reads a quoted string.
func (d *decoder) text() (string, error) {
	d.at++
	start := d.at
	for d.at < len(d.data) {
		switch c := d.data[d.at]; {
		case c == '"':
			d.at++
			return string(d.data[start : d.at-1]), nil
		case c == '\\':
			return d.escaped(start)
		case c < ' ':
			return "", d.fail("control character in a string")
		}
		d.at++
	}
	return "", d.fail("text ends inside a string")
}

// escaped reads the rest of a string that holds an escape.
func (d *decoder) escaped(start int) (string, error) {
	b := append([]byte(nil), d.data[start:d.at]...)
	for d.at < len(d.data) {
		c := d.data[d.at]
		switch {
		case c == '"':
			d.at++
			return string(b), nil
		case c < ' ':
			return "", d.fail("control character in a string")
		case c != '\\':
			b = append(b, c)
			d.at++
			continue
		}
		if d.at+1 >= len(d.data) {
			break
		}
		e := d.data[d.at+1]
		if i := strings.IndexByte(`"\/bfnrt`, e); i >= 0 {
			b = append(b, "\"\\/\b\f\n\r\t"[i])
			d.at += 2
			continue
		}
		r, ok := d.unicode()
		if !ok {
			return "", d.fail("malformed escape in a string")
		}
		b = utf8.AppendRune(b, r) // a lone surrogate becomes U+FFFD
	}
	return "", d.fail("text ends inside a string")
}

// unicode reads \uXXXX, or a surrogate pair of two.
func (d *decoder) unicode() (rune, bool) {
	r, ok := hex4(d.data[d.at:])
	if !ok {
		return 0, false
	}
	d.at += 6
	if utf16.IsSurrogate(r) {
		if low, ok := hex4(d.data[d.at:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				d.at += 6
				return pair, true
			}
		}
	}
	return r, true
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	return rune(n), err == nil
}
