package starlark

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"understudy/audit"
)

// builtinCalculate is calculate(expression): arithmetic over decimals with
// + - * / and parentheses, as text rounded to two digits. It is a parser of its
// own: nothing is ever evaluated as code.
func builtinCalculate(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var expression string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "expression", &expression); err != nil {
		return nil, err
	}
	if strings.Trim(expression, "0123456789+-*/(). ") != "" && strings.IndexFunc(expression, outsideArithmetic) >= 0 {
		return nil, &refusal{family: audit.SchemaInvalid, message: "Invalid characters in expression"}
	}
	v, err := calculate(expression)
	if err != nil {
		return nil, &refusal{family: audit.SchemaInvalid, message: err.Error()}
	}
	return starlark.String(floatText(roundFloat(v, 2))), nil
}

func outsideArithmetic(r rune) bool { return !strings.ContainsRune("0123456789+-*/(). ", r) }

var (
	errArithmetic   = errors.New("invalid syntax")
	errZeroDivision = errors.New("division by zero")
)

// calculator is a recursive-descent parser that evaluates as it reads.
type calculator struct {
	text  string
	at    int
	depth int
}

func calculate(text string) (float64, error) {
	if len(text) > 10_000 {
		return 0, errors.New("the expression is longer than 10,000 characters")
	}
	c := calculator{text: text}
	v, err := c.sum()
	if err != nil {
		return 0, err
	}
	if c.peek() != 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, errArithmetic
	}
	return v, nil
}

// peek is the next character that is not a space, or 0.
func (c *calculator) peek() byte {
	for c.at < len(c.text) && c.text[c.at] == ' ' {
		c.at++
	}
	if c.at == len(c.text) {
		return 0
	}
	return c.text[c.at]
}

func (c *calculator) sum() (float64, error) {
	v, err := c.product()
	for err == nil {
		op := c.peek()
		if op != '+' && op != '-' {
			break
		}
		c.at++
		var w float64
		if w, err = c.product(); op == '-' {
			w = -w
		}
		v += w
	}
	return v, err
}

func (c *calculator) product() (float64, error) {
	v, err := c.factor()
	for err == nil {
		op := c.peek()
		if op != '*' && op != '/' {
			break
		}
		c.at++
		var w float64
		w, err = c.factor()
		switch {
		case err != nil:
		case op == '*':
			v *= w
		case w == 0:
			err = errZeroDivision
		default:
			v /= w
		}
	}
	return v, err
}

func (c *calculator) factor() (float64, error) {
	if c.depth++; c.depth > 200 {
		return 0, errors.New("too many nested parentheses")
	}
	defer func() { c.depth-- }()
	switch b := c.peek(); {
	case b == '-' || b == '+':
		c.at++
		v, err := c.factor()
		if b == '-' {
			v = -v
		}
		return v, err
	case b == '(':
		c.at++
		v, err := c.sum()
		if err == nil && c.peek() != ')' {
			err = errArithmetic
		}
		c.at++
		return v, err
	}
	start := c.at
	for c.at < len(c.text) && (c.text[c.at] >= '0' && c.text[c.at] <= '9' || c.text[c.at] == '.') {
		c.at++
	}
	v, err := strconv.ParseFloat(c.text[start:c.at], 64)
	if err != nil {
		return 0, errArithmetic
	}
	return v, nil
}
