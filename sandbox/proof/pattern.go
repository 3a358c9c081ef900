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
	d := drawing{rng: rng, left: maxDrawn}
	if !d.draw(re) {
		return "", false
	}
	return d.text.String(), true
}

// maxDrawn bounds the parts of a pattern that are drawn: repetitions of repetitions
// multiply.
const maxDrawn = 10_000

// drawing is a text in the making.
type drawing struct {
	rng  *rand.Rand
	text strings.Builder
	left int
}

func (d *drawing) draw(re *syntax.Regexp) bool {
	if d.left--; d.left < 0 {
		return false
	}
	repeat := func(low, high int) bool {
		if high < 0 || high > low+6 {
			high = low + 6
		}
		for range low + d.rng.IntN(high-low+1) {
			if !d.draw(re.Sub[0]) {
				return false
			}
		}
		return true
	}
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpBeginLine, syntax.OpEndLine:
	case syntax.OpLiteral:
		d.text.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		if len(re.Rune) == 0 { // nothing matches
			return false
		}
		at := 2 * d.rng.IntN(len(re.Rune)/2)
		low, high := re.Rune[at], min(re.Rune[at+1], re.Rune[at]+127)
		d.text.WriteRune(low + d.rng.Int32N(high-low+1))
	case syntax.OpCapture:
		return d.draw(re.Sub[0])
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
			if !d.draw(sub) {
				return false
			}
		}
	case syntax.OpAlternate:
		return d.draw(re.Sub[d.rng.IntN(len(re.Sub))])
	case syntax.OpNoMatch, syntax.OpAnyCharNotNL, syntax.OpAnyChar, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return false
	default:
		return false
	}
	return true
}
