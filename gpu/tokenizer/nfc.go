package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// longRun is a number of combining marks below that from which x/text puts a
// U+034F into the text (Unicode's stream-safe format), which NFC itself does not.
const longRun = 20

// composed is the text's NFC as the Rust library forms it, with Unicode 9: a mark that
// is newer is no mark to it and keeps its place.
func composed(s string) string {
	i := strings.IndexFunc(s, sinceUnicode10)
	if i < 0 {
		return composedOld(s)
	}
	var b strings.Builder
	for ; i >= 0; i = strings.IndexFunc(s, sinceUnicode10) {
		_, n := utf8.DecodeRuneInString(s[i:])
		b.WriteString(composedOld(s[:i]))
		b.WriteString(s[i : i+n])
		s = s[i+n:]
	}
	b.WriteString(composedOld(s))
	return b.String()
}

// sinceUnicode10 reports whether a character takes part in normalization since then
// (Unicode 10 to 15), which x/text knows and the Rust library does not.
func sinceUnicode10(r rune) bool {
	bounds := [...]rune{ // first of a range, first after it, and so on
		0x7fd, 0x7fe, 0x898, 0x8a0, 0x8ca, 0x8d4, 0x9fe, 0x9ff, 0xc3c, 0xc3d, 0xd3b, 0xd3d, 0xeba, 0xebb,
		0x1715, 0x1716, 0x1abf, 0x1acf, 0x1df6, 0x1dfb, 0xa82c, 0xa82d, 0x10d24, 0x10d28, 0x10eab, 0x10ead,
		0x10efd, 0x10f00, 0x10f46, 0x10f51, 0x10f82, 0x10f86, 0x11070, 0x11071, 0x1133b, 0x1133c, 0x1145e,
		0x1145f, 0x11839, 0x1183b, 0x11930, 0x11931, 0x1193d, 0x1193f, 0x11943, 0x11944, 0x119e0, 0x119e1,
		0x11a34, 0x11a35, 0x11a47, 0x11a48, 0x11a99, 0x11a9a, 0x11d42, 0x11d43, 0x11d44, 0x11d46, 0x11d97,
		0x11d98, 0x11f41, 0x11f43, 0x16ff0, 0x16ff2, 0x1e08f, 0x1e090, 0x1e130, 0x1e137, 0x1e2ae, 0x1e2af,
		0x1e2ec, 0x1e2f0, 0x1e4ec, 0x1e4f0,
	}
	if r < bounds[0] {
		return false
	}
	i, found := slices.BinarySearch(bounds[:], r)
	if found {
		i++
	}
	return i%2 == 1 // of the bounds up to r, the last begins a range
}

// composedOld is NFC of a text whose marks are all known to Unicode 9.
func composedOld(s string) string {
	marks := 0
	for _, r := range s {
		if ccc(r) == 0 {
			marks = 0
			continue
		}
		if marks++; marks > longRun {
			return composedSlow(s)
		}
	}
	return norm.NFC.String(s)
}

// composedSlow is NFC by its definition: decompose, sort marks, compose.
func composedSlow(s string) string {
	var decomposed []rune
	for _, r := range s {
		decomposed = append(decomposed, []rune(norm.NFD.String(string(r)))...)
	}
	for i := 0; i < len(decomposed); {
		j := i
		for j < len(decomposed) && ccc(decomposed[j]) > 0 {
			j++
		}
		slices.SortStableFunc(decomposed[i:j], func(a, b rune) int { return int(ccc(a)) - int(ccc(b)) })
		i = max(j, i+1)
	}
	var out []rune
	starter, last := -1, uint8(0) // place of the last starter; class of the mark before
	for _, r := range decomposed {
		class := ccc(r)
		adjacent := starter == len(out)-1
		if starter >= 0 && (adjacent || last != 0 && last < class) {
			if c, ok := compose(out[starter], r); ok {
				out[starter] = c
				continue
			}
		}
		out = append(out, r)
		last = class
		if class == 0 {
			starter = len(out) - 1
		}
	}
	return string(out)
}

func ccc(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

// compose is the one character that two become, if they do.
func compose(a, b rune) (rune, bool) {
	var sb strings.Builder
	sb.WriteRune(a)
	sb.WriteRune(b)
	pair := norm.NFC.String(sb.String())
	r, n := utf8.DecodeRuneInString(pair)
	return r, n == len(pair)
}
