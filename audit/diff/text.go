package diff

import (
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string and returns where its decoded content lies: in src as it
// is, or in esc when it had escapes.
func (p *parser) str() (lo, hi uint32, escaped bool, err error) {
	p.pos++
	from := p.pos
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '"':
			p.pos++
			return uint32(from), uint32(p.pos - 1), false, nil
		case c == '\\':
			lo, hi, err = p.escapedStr(from)
			return lo, hi, true, err
		case c < 0x20:
			return 0, 0, false, p.fail(ClassSyntax, "control character in a string")
		}
		p.pos++
	}
	return 0, 0, false, p.fail(ClassTruncated, "want a closing quote")
}

// escapedStr goes on with a string that began at from and has an escape at p.pos.
func (p *parser) escapedStr(from int) (lo, hi uint32, err error) {
	start := len(p.esc)
	p.esc = append(p.esc, p.src[from:p.pos]...)
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '"':
			p.pos++
			return uint32(start), uint32(len(p.esc)), nil
		case c == '\\':
			if err := p.escape(); err != nil {
				return 0, 0, err
			}
		case c < 0x20:
			return 0, 0, p.fail(ClassSyntax, "control character in a string")
		default:
			p.esc = append(p.esc, c)
			p.pos++
		}
	}
	return 0, 0, p.fail(ClassTruncated, "want a closing quote")
}

// escape decodes one escape sequence into esc.
func (p *parser) escape() error {
	if p.pos+1 >= len(p.src) {
		p.pos++
		return p.fail(ClassTruncated, "want an escape")
	}
	c := p.src[p.pos+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return p.unicodeEscape()
	default:
		return p.fail(ClassSyntax, "unknown escape")
	}
	p.esc = append(p.esc, c)
	p.pos += 2
	return nil
}

// unicodeEscape decodes \uXXXX, and a surrogate pair as one rune. A lone
// surrogate is kept as three WTF-8 bytes, so that it survives.
func (p *parser) unicodeEscape() error {
	r, ok := hex4(p.src, p.pos+2)
	if !ok {
		if p.pos+6 > len(p.src) {
			p.pos = len(p.src)
		}
		return p.fail(ClassSyntax, "want four hexadecimal digits")
	}
	p.pos += 6
	if utf16.IsSurrogate(r) && p.pos+1 < len(p.src) && p.src[p.pos] == '\\' && p.src[p.pos+1] == 'u' {
		if low, ok := hex4(p.src, p.pos+2); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				p.pos += 6
				p.esc = utf8.AppendRune(p.esc, pair)
				return nil
			}
		}
	}
	p.esc = appendWTF8(p.esc, r)
	return nil
}

func hex4(src []byte, at int) (r rune, ok bool) {
	if at+4 > len(src) {
		return 0, false
	}
	for _, c := range src[at : at+4] {
		var digit byte
		switch {
		case c-'0' <= 9:
			digit = c - '0'
		case (c|0x20)-'a' <= 5:
			digit = (c | 0x20) - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	return r, true
}

// appendWTF8 is utf8.AppendRune that keeps surrogates.
func appendWTF8(dst []byte, r rune) []byte {
	if utf16.IsSurrogate(r) {
		return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0x3F|0x80, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(dst, r)
}

// AppendJSON appends v as compact JSON: members by name, numbers as they were
// written, strings with the shortest escapes. It is a pure function of the value
// but for the spelling of numbers.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.Type() {
	case TypeAbsent:
		return dst
	case TypeString:
		return appendString(dst, v.text())
	case TypeNull, TypeBool, TypeNumber:
		return append(dst, v.text()...)
	case TypeArray:
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = v.At(i).AppendJSON(dst)
		}
		return append(dst, ']')
	case TypeObject:
		dst = append(dst, '{')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			kid := v.At(i)
			dst = append(appendString(dst, kid.name()), ':')
			dst = kid.AppendJSON(dst)
		}
		return append(dst, '}')
	}
	return dst
}

// JSON is v as compact JSON in a slice of its own, nil when v is absent.
func (v Value) JSON() []byte {
	if v.d == nil {
		return nil
	}
	const quotes = 2
	return v.AppendJSON(make([]byte, 0, len(v.text())+quotes))
}

// String is v as compact JSON, for people.
func (v Value) String() string { return string(v.JSON()) }

// appendString appends a JSON string. Lone surrogates become escapes again.
func appendString(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		surrogate := c == 0xED && i+2 < len(text) && text[i+1] >= 0xA0
		if c >= 0x20 && c != '"' && c != '\\' && !surrogate {
			continue
		}
		dst = append(dst, text[from:i]...)
		switch {
		case surrogate:
			r := rune(0xD000) | rune(text[i+1]&0x3F)<<6 | rune(text[i+2]&0x3F)
			dst = append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
			i += 2
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		from = i + 1
	}
	return append(append(dst, text[from:]...), '"')
}
