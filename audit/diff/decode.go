package diff

import (
	"bytes"
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// Decode reads one strict JSON text (RFC 8259, UTF-8, no byte order mark).
// Numbers keep their text and are exact decimals; a repeated member name is
// flagged and the last one wins; a lone surrogate and NUL survive. The error is
// always a *DecodeError. The value refers to raw, which must not change.
func Decode(raw []byte, limits Limits) (Value, error) {
	limits = limits.withDefaults()
	if len(raw) > limits.Bytes {
		return Value{}, &DecodeError{ClassOversizeBytes, limits.Bytes, "longer than the limit"}
	}
	if !utf8.Valid(raw) {
		return Value{}, &DecodeError{ClassEncoding, invalidUTF8(raw), "not UTF-8"}
	}
	// A node takes 15 to 20 bytes of text in a tool's answer.
	size := len(raw)/15 + 8
	indices := make([]uint32, 2*size) // one allocation for kids and for open
	p := parser{
		doc:    &doc{src: raw, nodes: make([]node, 0, size), kids: indices[:0:size]},
		limits: limits,
		open:   indices[size:size],
	}
	if err := p.document(); err != nil {
		return Value{}, err
	}
	return Value{p.doc, 0}, nil
}

func invalidUTF8(raw []byte) int {
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(raw)
}

// parser is a recursive descent over doc.src; Limits.Depth bounds the recursion.
type parser struct {
	*doc
	limits    Limits
	pos       int
	leaves    int
	open      []uint32 // finished children of the containers that are still open
	nonFinite int      // 1 + offset of the first NaN or Infinity
}

func (p *parser) fail(class DecodeClass, message string) error {
	if class == ClassSyntax && p.pos >= len(p.src) {
		class = ClassTruncated
	}
	return &DecodeError{class, p.pos, message}
}

func (p *parser) document() error {
	p.space()
	if p.pos == len(p.src) {
		return p.fail(ClassEmpty, "no value")
	}
	if err := p.value(0, node{}); err != nil {
		return err
	}
	p.space()
	if p.pos < len(p.src) {
		return p.fail(ClassTrailing, "data after the value")
	}
	if p.nonFinite > 0 {
		return &DecodeError{ClassNonFinite, p.nonFinite - 1, "NaN and Infinity are not JSON"}
	}
	return nil
}

func (p *parser) space() {
	for p.pos < len(p.src) {
		switch p.src[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// value reads one value. n carries the member name; the node's index is pushed
// on p.open.
func (p *parser) value(depth int, n node) error {
	if p.pos >= len(p.src) {
		return p.fail(ClassSyntax, "want a value")
	}
	at := len(p.nodes)
	n.lo = uint32(p.pos)
	var err error
	switch c := p.src[p.pos]; c {
	case '{', '[':
		return p.container(depth+1, n, c == '{')
	case '"':
		n.typ = TypeString
		var escaped bool
		if n.lo, n.hi, escaped, err = p.str(); escaped {
			n.flags |= flagEscaped
		}
	case 't':
		n.typ, err = TypeBool, p.literal("true")
	case 'f':
		n.typ, err = TypeBool, p.literal("false")
	case 'n':
		n.typ, err = TypeNull, p.literal("null")
	case 'N':
		n.typ, err = TypeNull, p.nonFiniteLiteral("NaN")
	case 'I':
		n.typ, err = TypeNull, p.nonFiniteLiteral("Infinity")
	default:
		n.typ, err = TypeNumber, p.number()
	}
	if err != nil {
		return err
	}
	if n.typ != TypeString {
		n.hi = uint32(p.pos)
	}
	p.nodes = append(p.nodes, n)
	p.open = append(p.open, uint32(at))
	return p.leaf()
}

func (p *parser) leaf() error {
	if p.leaves++; p.leaves > p.limits.Leaves {
		return p.fail(ClassOversizeLeaves, "too many leaves")
	}
	return nil
}

// container reads an array or an object, from its opening to its closing bracket.
func (p *parser) container(depth int, n node, object bool) error {
	if depth > p.limits.Depth {
		return p.fail(ClassOversizeDepth, "nested too deep")
	}
	at, first := len(p.nodes), len(p.open)
	n.typ = TypeArray
	closing := byte(']')
	if object {
		n.typ, closing = TypeObject, '}'
	}
	p.nodes = append(p.nodes, n)
	p.pos++
	p.space()
	if p.pos < len(p.src) && p.src[p.pos] == closing {
		p.pos++
		p.finish(at, first)
		return p.leaf()
	}
	for {
		child, err := p.memberName(object)
		if err != nil {
			return err
		}
		if err := p.value(depth, child); err != nil {
			return err
		}
		p.space()
		if p.pos >= len(p.src) {
			return p.fail(ClassTruncated, "want a comma or a closing bracket")
		}
		c := p.src[p.pos]
		if c != ',' && c != closing {
			return p.fail(ClassSyntax, "want a comma or a closing bracket")
		}
		p.pos++
		if c == closing {
			p.finish(at, first)
			return nil
		}
		p.space()
	}
}

// memberName reads `"name":` of an object; of an array nothing.
func (p *parser) memberName(object bool) (n node, err error) {
	if !object {
		return n, nil
	}
	if p.pos >= len(p.src) || p.src[p.pos] != '"' {
		return n, p.fail(ClassSyntax, "want a member name in double quotes")
	}
	var escaped bool
	if n.klo, n.khi, escaped, err = p.str(); err != nil {
		return n, err
	}
	if escaped {
		n.flags |= flagKeyEscaped
	}
	p.space()
	if p.pos >= len(p.src) || p.src[p.pos] != ':' {
		return n, p.fail(ClassSyntax, "want a colon")
	}
	p.pos++
	p.space()
	return n, nil
}

// finish moves the children from p.open into kids and closes the container.
func (p *parser) finish(at, first int) {
	n := &p.nodes[at]
	n.hi = uint32(p.pos)
	n.kids = uint32(len(p.kids))
	p.kids = append(p.kids, p.open[first:]...)
	if n.typ == TypeObject {
		p.sortMembers(p.kids[n.kids:])
		p.dropDuplicates(int(n.kids))
	}
	n.n = uint32(len(p.kids)) - n.kids
	p.open = append(p.open[:first], uint32(at))
}

// sortMembers orders members by name, and equal names by position.
func (p *parser) sortMembers(kids []uint32) {
	const small = 16 // up to it insertion beats the general sort
	if len(kids) > small {
		slices.SortStableFunc(kids, func(a, b uint32) int {
			return bytes.Compare(p.name(&p.nodes[a]), p.name(&p.nodes[b]))
		})
		return
	}
	var heads [small]uint64 // most names differ in their first eight bytes
	for i, kid := range kids {
		head := nameHead(p.name(&p.nodes[kid]))
		j := i
		for ; j > 0 && (heads[j-1] > head || heads[j-1] == head && p.nameAfter(kids[j-1], kid)); j-- {
			heads[j], kids[j] = heads[j-1], kids[j-1]
		}
		heads[j], kids[j] = head, kid
	}
}

// nameHead is the first eight bytes of a name, as a number that orders like them.
func nameHead(name []byte) (head uint64) {
	if len(name) >= 8 {
		return binary.BigEndian.Uint64(name)
	}
	for i, c := range name {
		head |= uint64(c) << (56 - 8*i)
	}
	return head
}

// nameAfter reports whether the name of a comes after that of b.
func (p *parser) nameAfter(a, b uint32) bool {
	return bytes.Compare(p.name(&p.nodes[a]), p.name(&p.nodes[b])) > 0
}

// dropDuplicates keeps the last of each run of equal names.
func (p *parser) dropDuplicates(from int) {
	kids := p.kids[from:]
	repeated := false
	for i := 1; i < len(kids) && !repeated; i++ {
		repeated = bytes.Equal(p.name(&p.nodes[kids[i-1]]), p.name(&p.nodes[kids[i]]))
	}
	if !repeated {
		return
	}
	p.dup = true
	out := 0
	for i, k := range kids {
		if i+1 < len(kids) && bytes.Equal(p.name(&p.nodes[k]), p.name(&p.nodes[kids[i+1]])) {
			continue
		}
		kids[out] = k
		out++
	}
	p.kids = p.kids[:from+out]
}

func (p *parser) literal(word string) error {
	for i := range len(word) {
		if p.pos+i >= len(p.src) {
			return &DecodeError{ClassTruncated, p.pos, "want " + word}
		}
		if p.src[p.pos+i] != word[i] {
			return p.fail(ClassSyntax, "want "+word)
		}
	}
	p.pos += len(word)
	return nil
}

// nonFiniteLiteral accepts a non-finite number so that the rest of the text is
// still checked; document then refuses it under its own class.
func (p *parser) nonFiniteLiteral(word string) error {
	if p.nonFinite == 0 {
		p.nonFinite = p.pos + 1
	}
	return p.literal(word)
}

// number checks the grammar of a number; its text stays where it is.
func (p *parser) number() error {
	if p.src[p.pos] == '-' {
		p.pos++
		if p.pos < len(p.src) && p.src[p.pos] == 'I' {
			return p.nonFiniteLiteral("Infinity")
		}
	}
	switch {
	case p.pos < len(p.src) && p.src[p.pos] == '0':
		p.pos++
	case p.digits() == 0:
		return p.fail(ClassSyntax, "want a value")
	}
	if p.pos < len(p.src) && p.src[p.pos] == '.' {
		p.pos++
		if p.digits() == 0 {
			return p.fail(ClassSyntax, "want a digit after the decimal point")
		}
	}
	if p.pos < len(p.src) && p.src[p.pos]|0x20 == 'e' {
		return p.exponent()
	}
	return nil
}

func (p *parser) digits() int {
	from := p.pos
	for p.pos < len(p.src) && p.src[p.pos]-'0' <= 9 {
		p.pos++
	}
	return p.pos - from
}

// exponent checks an exponent and its limit without ever computing its power.
func (p *parser) exponent() error {
	p.pos++
	if p.pos < len(p.src) && (p.src[p.pos] == '+' || p.src[p.pos] == '-') {
		p.pos++
	}
	from := p.pos
	if p.digits() == 0 {
		return p.fail(ClassSyntax, "want a digit in the exponent")
	}
	value := 0
	for _, c := range p.src[from:p.pos] {
		if value = value*10 + int(c-'0'); value > p.limits.Exponent {
			return p.fail(ClassOversizeExponent, "exponent beyond the limit")
		}
	}
	return nil
}
