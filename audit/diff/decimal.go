package diff

import "bytes"

// decimal is an exact decimal number: 0.digits × 10^exp, signed. It has neither
// leading nor trailing zeros, so that equal numbers have equal fields; zero has
// no digits and no sign.
type decimal struct {
	neg    bool
	exp    int
	digits []byte // ASCII
}

// parseDecimal reads a number that Decode has accepted. buf is scratch space for
// digits that the text does not hold in one piece.
func parseDecimal(text, buf []byte) decimal {
	var d decimal
	if text[0] == '-' {
		d.neg, text = true, text[1:]
	}
	if e := bytes.IndexAny(text, "eE"); e >= 0 {
		d.exp = parseExponent(text[e+1:])
		text = text[:e]
	}
	d.digits = text
	point := bytes.IndexByte(text, '.')
	if point >= 0 {
		d.digits = append(append(buf[:0], text[:point]...), text[point+1:]...)
	} else {
		point = len(text)
	}
	d.exp += point
	for len(d.digits) > 0 && d.digits[0] == '0' {
		d.digits = d.digits[1:]
		d.exp--
	}
	for len(d.digits) > 0 && d.digits[len(d.digits)-1] == '0' {
		d.digits = d.digits[:len(d.digits)-1]
	}
	if len(d.digits) == 0 {
		return decimal{}
	}
	return d
}

func parseExponent(text []byte) int {
	e, neg := 0, text[0] == '-'
	for _, c := range text {
		if c-'0' <= 9 {
			e = e*10 + int(c-'0')
		}
	}
	if neg {
		return -e
	}
	return e
}

func (d decimal) equal(e decimal) bool {
	return d.neg == e.neg && d.exp == e.exp && bytes.Equal(d.digits, e.digits)
}

// cmp orders by value.
func (d decimal) cmp(e decimal) int {
	if c := d.sign() - e.sign(); c != 0 {
		return c
	}
	c := d.exp - e.exp
	if c == 0 {
		c = bytes.Compare(d.digits, e.digits)
	}
	return c * d.sign()
}

// sign is -1, 0 or 1.
func (d decimal) sign() int {
	switch {
	case len(d.digits) == 0:
		return 0
	case d.neg:
		return -1
	}
	return 1
}

// sameNumber reports whether two number texts mean the same decimal.
func sameNumber(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var bufA, bufB [48]byte
	return parseDecimal(a, bufA[:]).equal(parseDecimal(b, bufB[:]))
}

// isFloat reports whether a number is written as a float: with a point or an
// exponent. Programs keep 1 and 1.0 apart, so a state delta does too.
func isFloat(text []byte) bool { return bytes.ContainsAny(text, ".eE") }
