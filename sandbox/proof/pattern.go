package proof

import (
	"math/rand/v2"
	"regexp/syntax"
	"strings"
)

// fromPattern draws a text that matches a regular expression, or false for one
// that uses more than literals, classes, groups and repetition.
func fromPattern(rng *rand.Rand, pattern string) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	if !draw(rng, re, &b) {
		return "", false
	}
	return b.String(), true
}

func draw(rng *rand.Rand, re *syntax.Regexp, b *strings.Builder) bool {
	repeat := func(low, high int) bool {
		if high < 0 || high > low+6 {
			high = low + 6
		}
		for range low + rng.IntN(high-low+1) {
			if !draw(rng, re.Sub[0], b) {
				return false
			}
		}
		return true
	}
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		at := 2 * rng.IntN(len(re.Rune)/2)
		low, high := re.Rune[at], min(re.Rune[at+1], re.Rune[at]+127)
		b.WriteRune(low + rng.Int32N(high-low+1))
	case syntax.OpCapture:
		return draw(rng, re.Sub[0], b)
	case syntax.OpStar:
		return repeat(0, -1)
	case syntax.OpPlus:
		return repeat(1, -1)
	case syntax.OpQuest:
		return repeat(0, 1)
	case syntax.OpRepeat:
		return repeat(re.Min, re.Max)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if !draw(rng, sub, b) {
				return false
			}
		}
	case syntax.OpAlternate:
		return draw(rng, re.Sub[rng.IntN(len(re.Sub))], b)
	case syntax.OpNoMatch, syntax.OpAnyCharNotNL, syntax.OpAnyChar, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return false
	default:
		return false
	}
	return true
}
