package starlark

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"understudy/sandbox/state"
)

// pyText is Python's str(x).
func pyText(v starlark.Value) string {
	if s, ok := v.(starlark.String); ok {
		return string(s)
	}
	return string(appendRepr(nil, v, 0))
}

func builtinText(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &v); err != nil {
		return nil, err
	}
	if err := charge(thread, v); err != nil {
		return nil, err
	}
	return starlark.String(pyText(v)), nil
}

func builtinReprPy(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var v starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &v); err != nil {
		return nil, err
	}
	if err := charge(thread, v); err != nil {
		return nil, err
	}
	return starlark.String(appendRepr(nil, v, 0)), nil
}

// appendRepr appends Python's repr of a JSON-like value.
func appendRepr(b []byte, v starlark.Value, depth int) []byte {
	if depth > state.MaxDepth {
		return append(b, "..."...)
	}
	switch v := v.(type) {
	case starlark.NoneType:
		return append(b, "None"...)
	case starlark.Bool:
		return append(b, strings.ToUpper(strconv.FormatBool(bool(v))[:1])+strconv.FormatBool(bool(v))[1:]...)
	case starlark.Float:
		return append(b, floatText(float64(v))...)
	case starlark.String:
		return appendQuoted(b, string(v))
	case starlark.IterableMapping:
		b = append(b, '{')
		for i, item := range v.Items() {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(appendRepr(b, item[0], depth+1), ": "...)
			b = appendRepr(b, item[1], depth+1)
		}
		return append(b, '}')
	case starlark.Tuple:
		return appendSequence(b, v, "()", depth)
	case starlark.Iterable:
		return appendSequence(b, v, "[]", depth)
	}
	return append(b, v.String()...)
}

func appendSequence(b []byte, it starlark.Iterable, brackets string, depth int) []byte {
	b = append(b, brackets[0])
	n := 0
	i := it.Iterate()
	defer i.Done()
	for v := starlark.Value(nil); i.Next(&v); n++ {
		if n > 0 {
			b = append(b, ", "...)
		}
		b = appendRepr(b, v, depth+1)
	}
	if n == 1 && brackets == "()" {
		b = append(b, ',')
	}
	return append(b, brackets[1])
}

// appendQuoted quotes as Python does: single quotes unless the text has them and
// no double ones.
func appendQuoted(b []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b = append(b, quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r < ' ' || r == 0x7f:
			b = fmt.Appendf(b, `\x%02x`, r)
		case r <= 0xffff && !strconv.IsPrint(r):
			if r <= 0xff {
				b = fmt.Appendf(b, `\x%02x`, r)
			} else {
				b = fmt.Appendf(b, `\u%04x`, r)
			}
		case !strconv.IsPrint(r):
			b = fmt.Appendf(b, `\U%08x`, r)
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, quote)
}

func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return state.FloatText(f)
}

// builtinRound is Python's round: half to even on the exact binary value; an
// integer without digits, a float with.
func builtinRound(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, n starlark.Value
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &x, "n?", &n); err != nil {
		return nil, err
	}
	digits, err := roundDigits(n)
	if err != nil {
		return nil, err
	}
	switch x := x.(type) {
	case starlark.Int:
		if digits >= 0 {
			return x, nil
		}
		return roundInt(x, -digits), nil
	case starlark.Float:
		f := float64(x)
		if n == nil || n == starlark.None {
			return starlark.NumberToInt(starlark.Float(math.RoundToEven(f)))
		}
		return starlark.Float(roundFloat(f, digits)), nil
	}
	return nil, fmt.Errorf("round: want a number, got %s", x.Type())
}

func roundDigits(n starlark.Value) (int, error) {
	if n == nil || n == starlark.None {
		return 0, nil
	}
	digits, err := starlark.AsInt32(n)
	if err != nil || digits < -400 || digits > 400 {
		return 0, fmt.Errorf("round: digits must be between -400 and 400, not %s", brief(n))
	}
	return digits, nil
}

// roundFloat rounds to digits after the point (before it, when negative). The
// decimal expansion that strconv prints is exact, so halves are seen as such.
func roundFloat(f float64, digits int) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return f
	}
	if digits >= 0 {
		r, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
		return r
	}
	unit := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-digits)), nil))
	q := new(big.Rat).Quo(new(big.Rat).SetFloat64(f), unit)
	r, _ := new(big.Rat).Mul(new(big.Rat).SetInt(halfEven(q)), unit).Float64()
	return math.Copysign(r, f)
}

func roundInt(x starlark.Int, digits int) starlark.Int {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(digits)), nil)
	q := halfEven(new(big.Rat).SetFrac(x.BigInt(), unit))
	return starlark.MakeBigInt(q.Mul(q, unit))
}

func halfEven(q *big.Rat) *big.Int {
	floor := new(big.Int).Div(q.Num(), q.Denom()) // Euclidean; the denominator is positive
	twice := new(big.Rat).Sub(q, new(big.Rat).SetInt(floor))
	switch c := twice.Cmp(big.NewRat(1, 2)); {
	case c > 0, c == 0 && floor.Bit(0) == 1:
		floor.Add(floor, big.NewInt(1))
	}
	return floor
}

// builtinSum is Python's sum over numbers.
func builtinSum(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var it starlark.Iterable
	var total starlark.Value = starlark.MakeInt(0)
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &it, "start?", &total); err != nil {
		return nil, err
	}
	i := it.Iterate()
	defer i.Done()
	for v := starlark.Value(nil); i.Next(&v); {
		switch v.(type) {
		case starlark.Int, starlark.Float:
		default:
			return nil, fmt.Errorf("sum: want numbers, got %s", v.Type())
		}
		next, err := starlark.Binary(syntax.PLUS, total, v)
		if err != nil {
			return nil, err
		}
		total = next
	}
	return total, nil
}

// builtinFixed is fixed(x, n): Python's "%.nf" % x.
func builtinFixed(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x starlark.Value
	n := 2
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &x, "n?", &n); err != nil {
		return nil, err
	}
	f, ok := starlark.AsFloat(x)
	if !ok {
		return nil, fmt.Errorf("fixed: want a number, got %s", x.Type())
	}
	if n < 0 || n > 100 {
		return nil, errors.New("fixed: digits must be between 0 and 100")
	}
	return starlark.String(strconv.FormatFloat(f, 'f', n, 64)), nil
}
