package diff

import (
	"bytes"
	"unicode/utf8"
)

// pythonToJSON turns the text of a Python literal into JSON, as json.dumps would:
// dicts with scalar keys, lists, tuples, strings in either quote, True, False,
// None and numbers. ok is false for anything else, and for plain JSON errors.
func pythonToJSON(text []byte, limits Limits) (converted []byte, ok bool) {
	p := python{src: text, depth: limits.Depth}
	p.value(false)
	p.space()
	return p.out, !p.failed && p.pos == len(p.src)
}

// python is a recursive descent over src that writes JSON to out.
type python struct {
	src    []byte
	out    []byte
	pos    int
	depth  int // nesting left
	failed bool
}

func (p *python) space() {
	for p.pos < len(p.src) && bytes.IndexByte([]byte(" \t\r\n"), p.src[p.pos]) >= 0 {
		p.pos++
	}
}

// peek is the next byte after white space, 0 at the end or after a failure.
func (p *python) peek() byte {
	p.space()
	if p.failed || p.pos >= len(p.src) {
		return 0
	}
	return p.src[p.pos]
}

func (p *python) fail() { p.failed = true }

// value reads one literal; as a key, a scalar is written as a string.
func (p *python) value(key bool) {
	switch c := p.peek(); {
	case c == '\'' || c == '"':
		p.str()
	case key && c != '{' && c != '[' && c != '(':
		p.out = append(p.out, '"')
		p.word()
		p.out = append(p.out, '"')
	case key:
		p.fail()
	case c == '{':
		p.sequence('{', '}', '}')
	case c == '[':
		p.sequence('[', ']', ']')
	case c == '(':
		p.sequence('[', ')', ']')
	default:
		p.word()
	}
}

// sequence reads a dict, list or tuple up to its closing bracket; a trailing
// comma is allowed.
func (p *python) sequence(open, closing, written byte) {
	if p.depth--; p.depth < 0 {
		p.fail()
		return
	}
	p.pos++
	p.out = append(p.out, open)
	for first := true; !p.failed && p.peek() != closing; first = false {
		if !first {
			if p.peek() != ',' {
				p.fail()
				return
			}
			p.pos++
			if p.peek() == closing {
				break
			}
			p.out = append(p.out, ',')
		}
		p.value(open == '{')
		if open == '{' {
			if p.peek() != ':' {
				p.fail()
				return
			}
			p.pos++
			p.out = append(p.out, ':')
			p.value(false)
		}
	}
	p.pos++
	p.depth++
	p.out = append(p.out, written)
}

// word reads a constant or a number.
func (p *python) word() {
	from := p.pos
	for p.pos < len(p.src) && bytes.IndexByte([]byte(" \t\r\n,:]})"), p.src[p.pos]) < 0 {
		p.pos++
	}
	switch word := p.src[from:p.pos]; string(word) {
	case "True":
		p.out = append(p.out, "true"...)
	case "False":
		p.out = append(p.out, "false"...)
	case "None":
		p.out = append(p.out, "null"...)
	case "nan", "inf", "-inf":
		p.out = append(p.out, "NaN"...) // Decode classifies it
	default:
		if _, err := Decode(word, Limits{}); err != nil || word[0] != '-' && word[0]-'0' > 9 {
			p.fail()
			return
		}
		p.out = append(p.out, word...)
	}
}

// str reads a string in single or double quotes.
func (p *python) str() {
	quote := p.src[p.pos]
	p.pos++
	var content []byte
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		p.pos++
		switch c {
		case quote:
			p.out = appendString(p.out, content)
			return
		case '\\':
			content = p.escape(content)
		case '\n':
			p.fail()
			return
		default:
			content = append(content, c)
		}
	}
	p.fail()
}

// escape decodes what follows a backslash.
func (p *python) escape(dst []byte) []byte {
	if p.pos >= len(p.src) {
		p.fail()
		return dst
	}
	c := p.src[p.pos]
	p.pos++
	switch c {
	case '\\', '\'', '"':
		return append(dst, c)
	case 'n':
		return append(dst, '\n')
	case 'r':
		return append(dst, '\r')
	case 't':
		return append(dst, '\t')
	case 'x':
		return p.hexEscape(dst, 2)
	case 'u':
		return p.hexEscape(dst, 4)
	case 'U':
		return p.hexEscape(dst, 8)
	}
	return append(dst, '\\', c) // Python keeps an unknown escape as it is
}

func (p *python) hexEscape(dst []byte, digits int) []byte {
	var r rune
	for range digits / 2 {
		var pair [4]byte
		copy(pair[:], "00")
		if p.pos+2 > len(p.src) {
			p.fail()
			return dst
		}
		copy(pair[2:], p.src[p.pos:p.pos+2])
		b, ok := hex4(pair[:], 0)
		if !ok || r > utf8.MaxRune {
			p.fail()
			return dst
		}
		r = r<<8 | b
		p.pos += 2
	}
	if r > utf8.MaxRune {
		p.fail()
		return dst
	}
	return appendWTF8(dst, r)
}
