package grammar

// The states of a string beyond those of a rune: an escape in progress.
const (
	strEscape = runeStates + iota // after the backslash
	strHex4                       // \u, four digits to come
	strHex3                       // three, the first is no D
	strHex2                       // two
	strHex1                       // one
	strHexD                       // \uD, three to come: a surrogate?
	strHigh2                      // a high surrogate's last two digits
	strHigh1                      // its last one
	strPair                       // the low surrogate's backslash
	strPairU                      // its u
	strPairD                      // its D
	strPairCF                     // its C..F
	strPair2                      // its last two digits
	strPair1                      // its last one
	strOpen                       // before the opening quote
	strStates
)

// charRest is how many bytes complete the character in progress.
func charRest(state int32) int {
	if state < runeStates {
		return runeRest(state)
	}
	return [...]int{1, 4, 3, 2, 1, 3, 8, 7, 6, 5, 4, 3, 2, 1}[state-strEscape]
}

// text is a JSON string of least..most characters (code points, as JSON Schema
// counts them). A frame's count is the characters completed, as far as it
// matters.
type text struct {
	fewest int64
	most   int64 // -1 = any
}

func (t *text) enter(dst []*stack, parent *stack) []*stack {
	return append(dst, frame{node: t, state: strOpen}.on(parent, t.least()))
}

func (t *text) least() int { return 2 + int(t.fewest) }

func (t *text) at(dst []*stack, s *stack, state int32, count int64) []*stack {
	if t.most < 0 {
		count = min(count, t.fewest)
	}
	if state == s.state && count == s.count {
		return append(dst, s)
	}
	own := 1 + int(max(t.fewest-count, 0)) // the closing quote, and what is missing
	if state != runeDone {
		own = charRest(state) + 1 + int(max(t.fewest-count-1, 0))
	}
	return append(dst, frame{node: t, state: state, count: count}.on(s.parent, own))
}

func (t *text) step(dst []*stack, s *stack, b byte) []*stack {
	switch {
	case s.state == strOpen && b == '"':
		return t.at(dst, s, runeDone, 0)
	case s.state == strOpen:
		return dst
	case s.state == runeDone && b == '"':
		if s.count < t.fewest {
			return dst
		}
		return leave(dst, s.parent)
	case s.state == runeDone && t.most >= 0 && s.count >= t.most:
		return dst
	}
	next, ok := nextChar(s.state, b)
	if !ok {
		return dst
	}
	count := s.count
	if next == runeDone {
		count++
	}
	return t.at(dst, s, next, count)
}

// nextChar continues a character of a JSON string's inside.
func nextChar(state int32, b byte) (next int32, ok bool) {
	switch {
	case state == runeDone && b == '\\':
		return strEscape, true
	case state == runeDone && (b < 0x20 || b == '"'):
		return 0, false
	case state < runeStates:
		return nextRune(state, b)
	}
	return nextEscape(state, b)
}

func nextEscape(state int32, b byte) (next int32, ok bool) {
	digit, isHex := hexDigit(b)
	switch state {
	case strEscape:
		if b == 'u' {
			return strHex4, true
		}
		return runeDone, b == '"' || b == '\\' || b == '/' || b == 'b' || b == 'f' || b == 'n' || b == 'r' || b == 't'
	case strHex4:
		if digit == 0xD {
			return strHexD, isHex
		}
		return strHex3, isHex
	case strHexD: // a lone low surrogate is no character
		if digit >= 8 {
			return strHigh2, isHex && digit < 0xC
		}
		return strHex2, isHex
	case strHex3, strHex2, strHigh2, strPair2:
		return state + 1, isHex
	case strHigh1:
		return strPair, isHex
	case strHex1, strPair1:
		return runeDone, isHex
	case strPair:
		return strPairU, b == '\\'
	case strPairU:
		return strPairD, b == 'u'
	case strPairD:
		return strPairCF, digit == 0xD
	case strPairCF:
		return strPair2, isHex && digit >= 0xC
	}
	return 0, false
}

func hexDigit(b byte) (value byte, ok bool) {
	switch {
	case b >= '0' && b <= '9':
		return b - '0', true
	case b >= 'a' && b <= 'f':
		return b - 'a' + 10, true
	case b >= 'A' && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}

// maskKey makes frames equal that allow the same tokens: a string that no token
// could fill needs no exact count.
func (t *text) maskKey(f frame, maxRunes int) frame {
	if t.most >= 0 && f.count >= t.fewest && t.most-f.count >= int64(maxRunes) {
		f.count = t.fewest
	}
	return f
}
