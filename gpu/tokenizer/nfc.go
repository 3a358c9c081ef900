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
	ranges := [...][2]rune{
		{0x7fd, 0x7fd}, {0x898, 0x89f}, {0x8ca, 0x8d3}, {0x9fe, 0x9fe}, {0xc3c, 0xc3c}, {0xd3b, 0xd3c},
		{0xeba, 0xeba}, {0x1715, 0x1715}, {0x1abf, 0x1ace}, {0x1df6, 0x1dfa}, {0xa82c, 0xa82c},
		{0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85},
		{0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930},
		{0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47},
		{0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42},
		{0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
		{0x1e4ec, 0x1e4ef},
	}
	if r < ranges[0][0] {
		return false
	}
	_, found := slices.BinarySearchFunc(ranges[:], r, func(span [2]rune, r rune) int {
		switch {
		case span[1] < r:
			return -1
		case span[0] > r:
			return 1
		}
		return 0
	})
	return found
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
