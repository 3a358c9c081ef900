package starlark

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"understudy/audit"
)

// builtinCalculate is calculate(expression): arithmetic over decimals with
// + - * / // ** and parentheses, as text rounded to two digits. It is a parser
// of its own: nothing is ever evaluated as code. Integers are exact and the
// failures are worded as CPython words them, because tau2-bench's calculator is
// Python's eval behind a character filter.
func builtinCalculate(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var expression string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "expression", &expression); err != nil {
		return nil, err
	}
	if strings.ContainsFunc(expression, outsideArithmetic) {
		return nil, &refusal{family: audit.SchemaInvalid, message: "Invalid characters in expression"}
	}
	v, err := calculate(expression)
	if err != nil {
		return nil, &refusal{family: audit.SchemaInvalid, message: err.Error()}
	}
	return starlark.String(floatText(roundFloat(v, 2))), nil
}

func outsideArithmetic(r rune) bool { return !strings.ContainsRune("0123456789+-*/(). ", r) }

// maxCalculation bounds the text; maxIntegerBits an integer on the way (a float ends at 1,024).
const (
	maxCalculation = 10_000
	maxIntegerBits = 1 << 16
	maxNesting     = 90 // CPython gives up at about 100 in its parser
)

func calculate(text string) (float64, error) {
	if len(text) > maxCalculation {
		return 0, fmt.Errorf("the expression is longer than %d characters", maxCalculation)
	}
	tokens, err := arithmeticTokens(strings.TrimLeft(text, " "))
	if err != nil {
		return 0, err
	}
	if len(tokens) == 0 {
		return 0, syntaxError("invalid syntax", 0)
	}
	c := calculator{tokens: tokens}
	v, err := c.sum()
	if err == nil && c.at < len(c.tokens) {
		err = c.unexpected()
	}
	if err != nil {
		return 0, err
	}
	if v.failed != nil { // what is wrong with the value comes after what is wrong with the text
		return 0, v.failed
	}
	return v.number()
}

func syntaxError(what string, line int) error {
	return fmt.Errorf("%s (<string>, line %d)", what, line)
}

// arithmeticTokens splits the text into numbers, operators and parentheses.
func arithmeticTokens(text string) ([]string, error) {
	var tokens []string
	var open int
	for i := 0; i < len(text); {
		n := 1
		switch c := text[i]; {
		case c == ' ':
			i++
			continue
		case c >= '0' && c <= '9', c == '.' && i+1 < len(text) && text[i+1] >= '0' && text[i+1] <= '9':
			n = numberLength(text[i:])
			if s := text[i : i+n]; len(s) > 1 && s[0] == '0' && !strings.Contains(s, ".") && strings.Trim(s, "0") != "" {
				return nil, syntaxError("leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers", 1)
			}
		case (c == '*' || c == '/') && i+1 < len(text) && text[i+1] == c:
			n = 2
		case c == '(':
			open++
		case c == ')':
			if open--; open < 0 {
				return nil, syntaxError("unmatched ')'", 1)
			}
		}
		tokens = append(tokens, text[i:i+n])
		i += n
	}
	if open > 0 {
		return nil, syntaxError("'(' was never closed", 1)
	}
	return tokens, nil
}

// numberLength is the length of the number at the start of text.
func numberLength(text string) int {
	n := 0
	for dots := 0; n < len(text); n++ {
		if text[n] == '.' {
			if dots++; dots > 1 {
				break
			}
		} else if text[n] < '0' || text[n] > '9' {
			break
		}
	}
	return n
}

// calculator is a recursive-descent parser that evaluates as it reads.
type calculator struct {
	tokens []string
	at     int
	depth  int // of unary operators and parentheses
	parens int
}

func (c *calculator) peek() string {
	if c.at < len(c.tokens) {
		return c.tokens[c.at]
	}
	return ""
}

// unexpected is the syntax error at the current token. Inside parentheses two
// adjacent operands look to CPython like a tuple without its comma.
func (c *calculator) unexpected() error {
	if next := c.peek(); c.parens > 0 && c.at > 0 && next != "" && isDigitOrDot(next[0]) && (isDigitOrDot(c.tokens[c.at-1][0]) || c.tokens[c.at-1] == ")") {
		return syntaxError("invalid syntax. Perhaps you forgot a comma?", 1)
	}
	return syntaxError("invalid syntax", 1)
}

func isDigitOrDot(c byte) bool { return c >= '0' && c <= '9' || c == '.' }

func (c *calculator) sum() (operand, error) {
	v, err := c.product()
	for err == nil && (c.peek() == "+" || c.peek() == "-") {
		op := c.peek()
		c.at++
		var w operand
		w, err = c.product()
		v = binary(op, v, w)
	}
	return v, err
}

func (c *calculator) product() (operand, error) {
	v, err := c.factor()
	for err == nil && (c.peek() == "*" || c.peek() == "/" || c.peek() == "//") {
		op := c.peek()
		c.at++
		var w operand
		w, err = c.factor()
		v = binary(op, v, w)
	}
	return v, err
}

// factor is a signed power: -2**2 is -(2**2), and 2**-1 has a signed exponent.
func (c *calculator) factor() (operand, error) {
	if c.depth++; c.depth > maxNesting {
		return operand{}, errors.New("too many nested parentheses (<string>, line 1)")
	}
	defer func() { c.depth-- }()
	if op := c.peek(); op == "-" || op == "+" {
		c.at++
		v, err := c.factor()
		return unary(op, v), err
	}
	v, err := c.call()
	if err == nil && c.peek() == "**" {
		c.at++
		var w operand
		w, err = c.factor()
		v = binary("**", v, w)
	}
	return v, err
}

// call is an atom and the parentheses that follow it, which Python reads as a call.
func (c *calculator) call() (operand, error) {
	v, err := c.atom()
	for err == nil && c.peek() == "(" {
		var w operand
		if w, err = c.atom(); err == nil && v.failed == nil {
			if v = failed("'" + v.kind() + "' object is not callable"); w.failed != nil {
				v = w
			}
		}
	}
	return v, err
}

func (c *calculator) atom() (operand, error) {
	token := c.peek()
	switch {
	case token == "(":
		c.at++
		if c.peek() == ")" {
			c.at++
			return operand{tuple: true}, nil
		}
		c.parens++
		v, err := c.sum()
		if err == nil && c.peek() != ")" {
			err = c.unexpected()
		}
		c.parens--
		c.at++
		return v, err
	case token == "" || !isDigitOrDot(token[0]) || token == ".":
		return operand{}, c.unexpected()
	}
	c.at++
	if !strings.Contains(token, ".") {
		i, _ := new(big.Int).SetString(token, 10) // digits alone
		return operand{integer: i}, nil
	}
	f, err := strconv.ParseFloat(token, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return operand{}, c.unexpected()
	}
	return operand{float: f}, nil
}
