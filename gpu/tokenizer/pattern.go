package tokenizer

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// Pattern names how text is cut into words before merges are applied.
type Pattern string

// The patterns that are supported.
const (
	GPT2    Pattern = "gpt2"    // contractions, and runs of letters, digits or others with the space before
	SmolLM2 Pattern = "smollm2" // as GPT2, every digit on its own
	Qwen2   Pattern = "qwen2"   // one character before letters, every digit on its own, newlines kept together; Qwen3 too
	Llama3  Pattern = "llama3"  // as Qwen2, up to three digits together
)

// The regular expressions that the scanners below stand for.
const (
	gpt2Regex   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	qwen2Regex  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Regex = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// scanFunc is the bytes of the first word of a text that is not empty.
type scanFunc func(s string) int

// scanner is the pattern's scanner, and whether digits are cut off before it.
func (p Pattern) scanner() (scan scanFunc, digits bool, err error) {
	switch p {
	case GPT2:
		return scanGPT2, false, nil
	case SmolLM2:
		return scanGPT2, true, nil
	case Qwen2:
		return func(s string) int { return scanModern(s, 1) }, false, nil
	case Llama3:
		return func(s string) int { return scanModern(s, 3) }, false, nil
	}
	return nil, false, fmt.Errorf("pattern %q is not known", string(p))
}

// class is what a pattern distinguishes.
type class uint8

const (
	other  class = iota // [^\s\p{L}\p{N}]
	letter              // \p{L}
	number              // \p{N}
	space               // \s except \r and \n
	line                // \r and \n
)

// classify is the class and the bytes of the first character of s.
func classify(s string) (class, int) {
	if c := s[0]; c < utf8.RuneSelf {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			return letter, 1
		case c == ' ', c == '\t', c == '\v', c == '\f':
			return space, 1
		case '0' <= c && c <= '9':
			return number, 1
		case c == '\r', c == '\n':
			return line, 1
		}
		return other, 1
	}
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case unicode.IsLetter(r):
		return letter, n
	case unicode.IsNumber(r):
		return number, n
	case unicode.IsSpace(r):
		return space, n
	}
	return other, n
}

// run is the end of the characters of a class that begin at i.
func run(s string, i int, want class) int {
	for i < len(s) {
		c, n := classify(s[i:])
		if c != want {
			break
		}
		i += n
	}
	return i
}

// scanGPT2 is gpt2Regex.
func scanGPT2(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	i := 0
	if s[0] == ' ' {
		i = 1
	}
	if i < len(s) {
		if c, n := classify(s[i:]); c == letter || c == number || c == other {
			return run(s, i+n, c)
		}
	}
	end, last, _ := spaces(s)
	return beforeLast(s, end, last)
}

// scanModern is qwen2Regex with \p{N}{1,digits}.
func scanModern(s string, digits int) int {
	if n := contraction(s, true); n > 0 {
		return n
	}
	c, n := classify(s)
	switch {
	case c == letter:
		return run(s, n, letter)
	case c == number:
		i := n
		for ; digits > 1 && i < len(s); digits-- {
			c, n := classify(s[i:])
			if c != number {
				break
			}
			i += n
		}
		return i
	case c != line && n < len(s):
		if c, m := classify(s[n:]); c == letter {
			return run(s, n+m, letter)
		} else if c == other && s[0] == ' ' {
			return run(s, run(s, n+m, other), line)
		}
	}
	if c == other {
		return run(s, run(s, n, other), line)
	}
	end, last, newline := spaces(s)
	if newline > 0 { // \s*[\r\n]+
		return newline
	}
	return beforeLast(s, end, last)
}

// spaces is the end of the white space that s begins with, the start of its last
// character, and the end of its last line break, 0 if there is none.
func spaces(s string) (end, last, newline int) {
	for end < len(s) {
		c, n := classify(s[end:])
		if c != space && c != line {
			break
		}
		last, end = end, end+n
		if c == line {
			newline = end
		}
	}
	return end, last, newline
}

// beforeLast is \s+(?!\S)|\s+: the last space goes with the word that follows.
func beforeLast(s string, end, last int) int {
	if end < len(s) && last > 0 {
		return last
	}
	return end
}

// contraction is the bytes of a contraction that s begins with, or 0. Without regard to
// case, ſ (U+017F) is an s, as regular expressions have it.
func contraction(s string, fold bool) int {
	if s[0] != '\'' || len(s) < 2 {
		return 0
	}
	a, b := s[1], byte(0)
	if len(s) > 2 {
		b = s[2]
	}
	if fold {
		if len(s) > 2 && s[1:3] == "ſ" {
			return 3
		}
		a, b = lower(a), lower(b)
	}
	switch a {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if b == 'e' {
			return 3
		}
	case 'l':
		if b == 'l' {
			return 3
		}
	}
	return 0
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// digitsEnd is the end of the first digit when s begins with one, else of what is
// before the first digit.
func digitsEnd(s string) int {
	for i := 0; i < len(s); {
		c, n := classify(s[i:])
		switch {
		case c == number && i == 0:
			return n
		case c == number:
			return i
		}
		i += n
	}
	return len(s)
}
