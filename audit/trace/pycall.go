package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// parseCalls reads the call syntax of BFCL and ToolACE: one call or a list of
// calls, with keyword arguments that are Python literals:
//
//	[Get Weather(city='Oslo', days=3), list_items()]
//
// Positional arguments are kept under "_0", "_1", ... since the text does not
// name them. Names may hold spaces, dots and slashes, as ToolACE's do.
func parseCalls(source string) ([]function, error) {
	p := &literalParser{rest: strings.TrimSpace(source)}
	list := p.take("[")
	var calls []function
	for p.skipSpace(); p.rest != "" && !strings.HasPrefix(p.rest, "]"); p.skipSpace() {
		call, err := p.call()
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
		if !p.take(",") {
			break
		}
	}
	if list && !p.take("]") {
		return nil, errors.New("call list: missing ]")
	}
	if p.skipSpace(); p.rest != "" {
		return nil, fmt.Errorf("call list: unexpected %.20q", p.rest)
	}
	if len(calls) == 0 {
		return nil, errors.New("no call")
	}
	return calls, nil
}

// parseLiteral turns one Python literal into JSON.
func parseLiteral(source string) (json.RawMessage, error) {
	p := &literalParser{rest: source}
	var out bytes.Buffer
	if err := p.literal(&out); err != nil {
		return nil, err
	}
	if p.skipSpace(); p.rest != "" {
		return nil, fmt.Errorf("literal: unexpected %.20q", p.rest)
	}
	return out.Bytes(), nil
}

// literalParser consumes Python literals from the front of rest and writes JSON.
type literalParser struct {
	rest  string
	depth int
}

// maxLiteralDepth keeps hostile nesting off the stack; it is the program's one limit.
const maxLiteralDepth = 200

func (p *literalParser) skipSpace() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *literalParser) take(token string) bool {
	p.skipSpace()
	after, found := strings.CutPrefix(p.rest, token)
	if found {
		p.rest = after
	}
	return found
}

func (p *literalParser) call() (function, error) {
	name, after, found := strings.Cut(p.rest, "(")
	name = strings.TrimSpace(name)
	if !found || name == "" || strings.ContainsAny(name, "'\"{}[],=\n") {
		return function{}, fmt.Errorf("no call at %.20q", p.rest)
	}
	p.rest = after
	var out bytes.Buffer
	out.WriteByte('{')
	for n := 0; !p.take(")"); n++ {
		if n > 0 {
			out.WriteByte(',')
		}
		key, err := p.keyword(n)
		if err != nil {
			return function{}, err
		}
		writeString(&out, key)
		out.WriteByte(':')
		if err := p.literal(&out); err != nil {
			return function{}, fmt.Errorf("argument %s of %s: %w", key, name, err)
		}
		if !p.take(",") && !strings.HasPrefix(p.rest, ")") {
			return function{}, fmt.Errorf("argument %s of %s: expected , or ) at %.20q", key, name, p.rest)
		}
	}
	out.WriteByte('}')
	return function{Name: name, Arguments: out.Bytes()}, nil
}

// keyword takes "name=", or names a positional argument by its place.
func (p *literalParser) keyword(n int) (string, error) {
	p.skipSpace()
	if p.rest == "" {
		return "", errors.New("call is cut off")
	}
	end := strings.IndexAny(p.rest, "=,()'\"[]{}")
	if end > 0 && p.rest[end] == '=' {
		key := strings.TrimSpace(p.rest[:end])
		p.rest = p.rest[end+1:]
		return key, nil
	}
	return fmt.Sprintf("_%d", n), nil
}

// literal writes the next Python (or JSON) literal as JSON.
func (p *literalParser) literal(out *bytes.Buffer) error {
	p.skipSpace()
	if p.rest == "" {
		return errors.New("value is cut off")
	}
	if p.depth++; p.depth > maxLiteralDepth {
		return errors.New("nested too deeply")
	}
	defer func() { p.depth-- }()
	switch p.rest[0] {
	case '\'', '"':
		value, err := p.quoted()
		writeString(out, value)
		return err
	case '[':
		return p.sequence(out, "[", "]")
	case '(':
		return p.sequence(out, "(", ")")
	case '{':
		return p.object(out)
	}
	return p.word(out)
}

func (p *literalParser) sequence(out *bytes.Buffer, open, closing string) error {
	p.take(open)
	out.WriteByte('[')
	for n := 0; !p.take(closing); n++ {
		if n > 0 {
			out.WriteByte(',')
		}
		if err := p.literal(out); err != nil {
			return err
		}
		if !p.take(",") && !strings.HasPrefix(p.rest, closing) {
			return fmt.Errorf("expected , or %s at %.20q", closing, p.rest)
		}
	}
	out.WriteByte(']')
	return nil
}

func (p *literalParser) object(out *bytes.Buffer) error {
	p.take("{")
	out.WriteByte('{')
	for n := 0; !p.take("}"); n++ {
		if n > 0 {
			out.WriteByte(',')
		}
		var key bytes.Buffer
		if err := p.literal(&key); err != nil {
			return err
		}
		if key.Bytes()[0] == '"' {
			out.Write(key.Bytes())
		} else {
			writeString(out, key.String())
		}
		if !p.take(":") {
			return fmt.Errorf("expected : at %.20q", p.rest)
		}
		out.WriteByte(':')
		if err := p.literal(out); err != nil {
			return err
		}
		if !p.take(",") && !strings.HasPrefix(p.rest, "}") {
			return fmt.Errorf("expected , or } at %.20q", p.rest)
		}
	}
	out.WriteByte('}')
	return nil
}

// word reads a number, a constant, or a bare word, which ToolACE uses for strings.
func (p *literalParser) word(out *bytes.Buffer) error {
	end := strings.IndexAny(p.rest, ",)]}:")
	if end < 0 {
		end = len(p.rest)
	}
	word := strings.TrimSpace(p.rest[:end])
	if word == "" {
		return fmt.Errorf("no value at %.20q", p.rest)
	}
	p.rest = p.rest[end:]
	switch word {
	case "True", "true":
		out.WriteString("true")
	case "False", "false":
		out.WriteString("false")
	case "None", "null":
		out.WriteString("null")
	default:
		if json.Valid([]byte(word)) {
			out.WriteString(word)
		} else {
			writeString(out, word)
		}
	}
	return nil
}

// quoted reads a Python string in single or double quotes.
func (p *literalParser) quoted() (string, error) {
	quote := p.rest[0]
	var value strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == quote:
			p.rest = p.rest[i+1:]
			return value.String(), nil
		case c == '\\' && i+1 < len(p.rest):
			i++
			value.WriteString(unescape(p.rest[i]))
		default:
			value.WriteByte(c)
		}
	}
	return "", errors.New("string is cut off")
}

func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case '\\', '\'', '"':
		return string(c)
	default:
		return `\` + string(c) // as Python keeps an unknown escape
	}
}

func writeString(out *bytes.Buffer, s string) {
	encoded, _ := json.Marshal(s) // a string always encodes
	out.Write(encoded)
}
