package diff

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// Hash is the canonical hash of a value: SHA-256 over type tag ‖ length ‖
// content, with the encodings of its children as the content of a container.
// Every encoding says where it ends, so equal hashes mean structurally equal
// values: numbers by decimal value, members by name in any order.
func Hash(v Value) [32]byte {
	var buf [512]byte
	return sha256.Sum256(appendCanonical(buf[:0], v))
}

// appendCanonical appends the injective encoding that Hash is taken of.
func appendCanonical(dst []byte, v Value) []byte {
	t := v.Type()
	dst = append(dst, byte(t))
	switch t {
	case TypeAbsent, TypeNull:
	case TypeBool:
		dst = append(dst, v.text()[0])
	case TypeString:
		dst = appendSized(dst, v.text())
	case TypeNumber:
		dst = appendNumber(dst, v.text())
	case TypeArray:
		dst = binary.AppendUvarint(dst, uint64(v.Len()))
		for i := range v.Len() {
			dst = appendCanonical(dst, v.At(i))
		}
	case TypeObject:
		dst = binary.AppendUvarint(dst, uint64(v.Len()))
		for i := range v.Len() {
			kid := v.At(i)
			dst = appendCanonical(appendSized(dst, kid.name()), kid)
		}
	}
	return dst
}

func appendSized(dst, content []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(content))), content...)
}

// appendNumber appends sign, exponent and digits: 25, 25.0 and 2.5e1 are one.
func appendNumber(dst, text []byte) []byte {
	var buf [48]byte
	d := parseDecimal(text, buf[:])
	dst = append(dst, byte(1+d.sign()))
	dst = binary.AppendVarint(dst, int64(d.exp))
	return appendSized(dst, d.digits)
}

// Equal reports whether two values are structurally equal: exactly when their
// hashes are. Absent equals only absent.
func Equal(a, b Value) bool { return equal(a, b, false) }

// equal compares structurally; spelled also keeps 1 and 1.0 apart.
func equal(a, b Value, spelled bool) bool {
	if a == b {
		return true
	}
	t := a.Type()
	if t != b.Type() || a.Len() != b.Len() {
		return false
	}
	switch t {
	case TypeAbsent, TypeNull:
		return true
	case TypeBool:
		return a.text()[0] == b.text()[0]
	case TypeString:
		return bytes.Equal(a.text(), b.text())
	case TypeNumber:
		return sameNumber(a.text(), b.text()) && (!spelled || isFloat(a.text()) == isFloat(b.text()))
	case TypeArray, TypeObject:
		if bytes.Equal(a.text(), b.text()) { // the same source text
			return true
		}
		for i := range a.Len() {
			x, y := a.At(i), b.At(i)
			if t == TypeObject && !bytes.Equal(x.name(), y.name()) || !equal(x, y, spelled) {
				return false
			}
		}
	}
	return true
}
