package starlark

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

// maxWidth bounds the width and precision of one conversion.
const maxWidth = 1000

// spec is one conversion of a % format: %[(key)][flags][width][.precision]verb.
type spec struct {
	minus, zero, plus, space, comma bool
	width, precision                int // precision -1 = not given
	verb                            byte
}

// percent is Python's format % args, flags, widths and precisions included.
func percent(r *run, format string, operand starlark.Value) (starlark.Value, error) {
	if err := r.spend(int64(len(format))); err != nil {
		return nil, err
	}
	args, isTuple := operand.(starlark.Tuple)
	if !isTuple {
		args = starlark.Tuple{operand}
	}
	var b []byte
	next := 0
	for i := 0; i < len(format); {
		if format[i] != '%' {
			j := strings.IndexByte(format[i:], '%')
			if j < 0 {
				j = len(format) - i
			}
			b = append(b, format[i:i+j]...)
			i += j
			continue
		}
		s, key, n, err := parseSpec(format[i+1:])
		if err != nil {
			return nil, err
		}
		i += n + 1
		if s.verb == '%' {
			b = append(b, '%')
			continue
		}
		v, err := operandOf(operand, args, key, &next)
		if err != nil {
			return nil, err
		}
		if b, err = s.append(r, b, v); err != nil {
			return nil, err
		}
	}
	if _, isMap := operand.(starlark.IterableMapping); next < len(args) && !isMap {
		return nil, errors.New("not all arguments converted during string formatting")
	}
	return starlark.String(b), nil
}

func operandOf(operand starlark.Value, args starlark.Tuple, key string, next *int) (starlark.Value, error) {
	if key != "" {
		m, ok := operand.(starlark.Mapping)
		if !ok {
			return nil, errors.New("format requires a mapping")
		}
		v, found, err := m.Get(starlark.String(key))
		if err == nil && !found {
			err = fmt.Errorf("key %q not found", key)
		}
		return v, err
	}
	if *next >= len(args) {
		return nil, errors.New("not enough arguments for format string")
	}
	*next++
	return args[*next-1], nil
}

// parseSpec reads what follows a % and returns how long it is.
func parseSpec(text string) (s spec, key string, n int, err error) {
	s.precision = -1
	if strings.HasPrefix(text, "(") {
		end := strings.IndexByte(text, ')')
		if end < 0 {
			return s, "", 0, errors.New("incomplete format key")
		}
		key, n = text[1:end], end+1
	}
	for n < len(text) && strings.IndexByte("-0+ ", text[n]) >= 0 {
		switch text[n] {
		case '-':
			s.minus = true
		case '0':
			s.zero = true
		case '+':
			s.plus = true
		case ' ':
			s.space = true
		}
		n++
	}
	s.width, n = number(text, n)
	if n < len(text) && text[n] == '.' {
		s.precision, n = number(text, n+1)
	}
	if n >= len(text) {
		return s, key, n, errors.New("incomplete format")
	}
	if s.width > maxWidth || s.precision > maxWidth {
		return s, key, n, fmt.Errorf("a width or precision over %d", maxWidth)
	}
	s.verb = text[n]
	return s, key, n + 1, nil
}

func number(text string, n int) (value, after int) {
	for n < len(text) && text[n] >= '0' && text[n] <= '9' {
		if value <= maxWidth {
			value = value*10 + int(text[n]-'0')
		}
		n++
	}
	return value, n
}

// append appends one converted value.
func (s spec) append(r *run, b []byte, v starlark.Value) ([]byte, error) {
	var text string
	switch s.verb {
	case 's', 'r':
		if err := charge(r.thread, v); err != nil {
			return nil, err
		}
		if text = pyText(v); s.verb == 'r' {
			text = string(appendRepr(nil, v, 0))
		}
		if s.precision >= 0 {
			text = firstRunes(text, s.precision)
		}
		if s.comma && !strings.Contains(text, "e") { // of a float
			text = thousands(text)
		}
	case 'd', 'i', 'u', 'x', 'X', 'o':
		i, err := wholeNumber(v, s.verb)
		if err != nil {
			return nil, err
		}
		text = s.sign(i)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		f, ok := starlark.AsFloat(v)
		if !ok {
			return nil, fmt.Errorf("must be real number, not %s", v.Type())
		}
		text = s.real(f)
	case 'c':
		c, ok := v.(starlark.String)
		if !ok || utf8.RuneCountInString(string(c)) != 1 {
			return nil, errors.New("%c requires a single character")
		}
		text = string(c)
	default:
		return nil, fmt.Errorf("unsupported format character %q", s.verb)
	}
	return s.pad(b, text), r.spend(int64(len(text) + s.width))
}

// wholeNumber is the integer that %d and its like print.
func wholeNumber(v starlark.Value, verb byte) (*big.Int, error) {
	switch v := v.(type) {
	case starlark.Int:
		return v.BigInt(), nil
	case starlark.Bool:
		if v {
			return big.NewInt(1), nil
		}
		return new(big.Int), nil
	case starlark.Float:
		if i, err := starlark.NumberToInt(v); err == nil && verb == 'd' {
			return i.BigInt(), nil
		}
	}
	return nil, fmt.Errorf("%%%c format: a number is required, not %s", verb, v.Type())
}

func (s spec) sign(i *big.Int) string {
	base := map[byte]int{'x': 16, 'X': 16, 'o': 8}[s.verb]
	if base == 0 {
		base = 10
	}
	text := i.Text(base)
	if s.verb == 'X' {
		text = strings.ToUpper(text)
	}
	if s.comma {
		text = thousands(text)
	}
	return s.prefixed(text)
}

func (s spec) prefixed(text string) string {
	switch {
	case strings.HasPrefix(text, "-"):
	case s.plus:
		return "+" + text
	case s.space:
		return " " + text
	}
	return text
}

func (s spec) real(f float64) string {
	precision := s.precision
	if precision < 0 {
		precision = 6
	}
	verb := s.verb
	if verb == 'F' {
		verb = 'f'
	}
	if verb == 'g' || verb == 'G' {
		precision = max(precision, 1)
	}
	text := strconv.FormatFloat(f, verb, precision, 64)
	if s.comma {
		text = thousands(text)
	}
	return s.prefixed(text)
}

// thousands puts a comma between groups of three digits before the point.
func thousands(text string) string {
	whole, fraction, hasPoint := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole, "-+")
	var b []byte
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b = append(b, ',')
		}
		b = append(b, digits[i])
	}
	out := whole[:len(whole)-len(digits)] + string(b)
	if hasPoint {
		out += "." + fraction
	}
	return out
}

// pad appends text in the spec's width.
func (s spec) pad(b []byte, text string) []byte {
	missing := s.width - utf8.RuneCountInString(text)
	switch {
	case missing <= 0:
		return append(b, text...)
	case s.minus:
		return append(append(b, text...), strings.Repeat(" ", missing)...)
	case s.zero && s.verb != 's' && s.verb != 'r' && s.verb != 'c':
		at := 0
		if text[0] == '-' || text[0] == '+' || text[0] == ' ' {
			at = 1
		}
		return append(append(append(b, text[:at]...), strings.Repeat("0", missing)...), text[at:]...)
	}
	return append(append(b, strings.Repeat(" ", missing)...), text...)
}

func firstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// formatText is Python's str.format: {}, {0}, {name}, and specs such as {:.2f},
// {:,}, {:>8} and {:05d}.
func formatText(r *run, format string, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if err := r.spend(int64(len(format))); err != nil {
		return nil, err
	}
	var b []byte
	next := 0
	for i := 0; i < len(format); {
		c := format[i]
		if c != '{' && c != '}' {
			b = append(b, c)
			i++
			continue
		}
		if i+1 < len(format) && format[i+1] == c {
			b = append(b, c)
			i += 2
			continue
		}
		end := strings.IndexByte(format[i:], '}')
		if c == '}' || end < 0 {
			return nil, fmt.Errorf("single %q in a format", c)
		}
		name, layout, _ := strings.Cut(format[i+1:i+end], ":")
		v, err := fieldOf(name, args, kwargs, &next)
		if err != nil {
			return nil, err
		}
		s, err := parseLayout(layout, v)
		if err != nil {
			return nil, err
		}
		if b, err = s.append(r, b, v); err != nil {
			return nil, err
		}
		i += end + 1
	}
	return starlark.String(b), nil
}

func fieldOf(name string, args starlark.Tuple, kwargs []starlark.Tuple, next *int) (starlark.Value, error) {
	if name == "" {
		name = strconv.Itoa(*next)
		*next++
	}
	if i, err := strconv.Atoi(name); err == nil {
		if i < 0 || i >= len(args) {
			return nil, fmt.Errorf("format: no argument %d", i)
		}
		return args[i], nil
	}
	for _, kv := range kwargs {
		if string(kv[0].(starlark.String)) == name {
			return kv[1], nil
		}
	}
	return nil, fmt.Errorf("format: no argument %q", name)
}

// parseLayout reads the part of a replacement field after its colon.
func parseLayout(layout string, v starlark.Value) (spec, error) {
	_, isText := v.(starlark.String)
	_, isFloat := v.(starlark.Float)
	s := spec{precision: -1, minus: isText}
	i := 0
	if i < len(layout) && (layout[i] == '<' || layout[i] == '>') {
		s.minus = layout[i] == '<'
		i++
	}
	if i < len(layout) && layout[i] == '+' {
		s.plus = true
		i++
	}
	if i < len(layout) && layout[i] == '0' {
		s.zero = true
		i++
	}
	s.width, i = number(layout, i)
	if i < len(layout) && layout[i] == ',' {
		s.comma = true
		i++
	}
	if i < len(layout) && layout[i] == '.' {
		s.precision, i = number(layout, i+1)
	}
	switch {
	case i < len(layout):
		s.verb = layout[i]
		i++
	case s.comma && s.precision < 0 && !isFloat:
		s.verb = 'd'
	case s.precision >= 0 && !isText:
		s.verb = 'f'
	default:
		s.verb = 's'
	}
	if i != len(layout) || s.width > maxWidth || s.precision > maxWidth {
		return s, fmt.Errorf("format: %q is not a layout that is offered", layout)
	}
	return s, nil
}
