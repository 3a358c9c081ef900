package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// tokenizer.json writes bytes as characters: printable ones of Latin-1 as themselves,
// the other 68, in order, from U+0100 on (GPT-2's convention; a space is Ġ).

// latin reports whether a byte is written as the character of the same number.
func latin(b byte) bool {
	return '!' <= b && b <= '~' || 0xa1 <= b && b <= 0xac || b >= 0xae
}

// alphabet is the byte → character table and its inverse.
type alphabet struct {
	chars [256]rune
	bytes [0x100 + 68]int16 // character → byte, or -1
}

func newAlphabet() *alphabet {
	a, next := &alphabet{}, rune(0x100)
	for i := range a.bytes {
		a.bytes[i] = -1
	}
	for b := range 256 {
		char := rune(b)
		if !latin(byte(b)) {
			char = next
			next++
		}
		a.chars[b], a.bytes[char] = char, int16(b)
	}
	return a
}

// encode writes bytes as characters.
func (a *alphabet) encode(raw string) string {
	var b strings.Builder
	for i := range len(raw) {
		b.WriteRune(a.chars[raw[i]])
	}
	return b.String()
}

// decode is the bytes that characters stand for; false when one stands for none.
func (a *alphabet) decode(text string) (string, bool) {
	raw := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if int(r) >= len(a.bytes) || a.bytes[r] < 0 {
			return "", false
		}
		raw = append(raw, byte(a.bytes[r]))
		i += n
	}
	return string(raw), true
}
