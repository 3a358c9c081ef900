package diff

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"
)

// minTokenF1 is the token overlap from which two texts may say the same.
const minTokenF1 = 0.6

// sameMeaning reports whether two texts for people say the same as far as can be
// told without a judge: token F1, the same numbers and the same negation.
func sameMeaning(a, b []byte) bool {
	x, y := tokenise(a), tokenise(b)
	return slices.Equal(x.numbers, y.numbers) && x.negated == y.negated && tokenF1(x.words, y.words) >= minTokenF1
}

// tokens are the words of a text, sorted, in lower case, without numbers.
type tokens struct {
	words   []string
	numbers []string // canonical, sorted
	negated bool
}

func tokenise(text []byte) tokens {
	var t tokens
	text = bytes.ToLower(text)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case isDigit(r):
			n := numberLength(text)
			t.numbers = append(t.numbers, canonicalNumber(text[:n]))
			size = n
		case unicode.IsLetter(r):
			n := wordLength(text)
			word := string(text[:n])
			t.words = append(t.words, word)
			t.negated = t.negated || negates(word)
			size = n
		}
		text = text[size:]
	}
	slices.Sort(t.words)
	slices.Sort(t.numbers)
	t.numbers = slices.Compact(t.numbers)
	return t
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// numberLength is the length of digits with a decimal point and thousands commas.
func numberLength(text []byte) int {
	i := 0
	for i < len(text) {
		inside := i+1 < len(text) && isDigit(rune(text[i+1]))
		if !isDigit(rune(text[i])) && (text[i] != '.' && text[i] != ',' || !inside) {
			break
		}
		i++
	}
	return i
}

// canonicalNumber is a number without commas and the zeros that mean nothing.
func canonicalNumber(text []byte) string {
	text = bytes.ReplaceAll(text, []byte(","), nil)
	if bytes.Count(text, []byte(".")) > 1 { // a version or an address
		return string(text)
	}
	return string(appendNumber(nil, text))
}

// wordLength is the length of letters with inner apostrophes, as in "don't".
func wordLength(text []byte) int {
	i := 0
	for i < len(text) {
		r, size := utf8.DecodeRune(text[i:])
		if !unicode.IsLetter(r) && r != '\'' && r != '’' {
			break
		}
		i += size
	}
	return i
}

func negates(word string) bool {
	switch word {
	case "not", "no", "never", "none", "cannot", "without", "neither", "nor", "unable", "nothing",
		"dont", "doesnt", "isnt", "cant", "wont":
		return true
	}
	return len(word) > 3 && (word[len(word)-3:] == "n't" || len(word) > 5 && word[len(word)-5:] == "n’t")
}

// tokenF1 is the F1 of two sorted multisets of words; two empty ones agree.
func tokenF1(a, b []string) float64 {
	if len(a)+len(b) == 0 {
		return 1
	}
	common := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			common++
			i++
			j++
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	return 2 * float64(common) / float64(len(a)+len(b))
}
