package grammar

// A number's digits are kept as an integer below 10^18: at most 12 before the
// point and 6 after it, or 15 and none.
const (
	fractionDigits = 6
	wholeDigits    = 12
	integerDigits  = 15
)

// The phases of a number.
const (
	numStart = iota
	numSign  // after '-'
	numWhole // digits before the point
	numPoint // the point, or digits after it
	numE
	numESign
	numEDigit  // one digit of the exponent
	numEDigits // two
)

// number is a JSON number within bounds, both inclusive and in units of the last
// digit (10^-scale). A frame's state packs phase, sign and the digits after the
// point; its count is the digits read, without sign and point.
type number struct {
	low, high int64
	scale     int // digits after the point; 0 = an integer
	whole     int // most digits before it
	exponent  bool
}

func newInteger() *number {
	return &number{low: 1 - power(integerDigits), high: power(integerDigits) - 1, whole: integerDigits}
}

func newNumber() *number {
	most := power(wholeDigits+fractionDigits) - 1
	return &number{low: -most, high: most, scale: fractionDigits, whole: wholeDigits, exponent: true}
}

func power(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

type numberState struct {
	phase    int32
	negative bool
	fraction int   // digits after the point
	digits   int64 // as an integer
}

func (s numberState) frame(n *number) frame {
	state := s.phase | int32(s.fraction)<<8 //nolint:gosec // at most six
	if s.negative {
		state |= 1 << 4
	}
	return frame{node: n, state: state, count: s.digits}
}

func unpack(f frame) numberState {
	return numberState{phase: f.state & 0xF, negative: f.state>>4&1 == 1, fraction: int(f.state >> 8), digits: f.count}
}

func (n *number) enter(dst []*stack, parent *stack) []*stack {
	return append(dst, frame{node: n}.on(parent, n.least()))
}

func (n *number) least() int { return n.rest(numberState{}) }

func (n *number) step(dst []*stack, s *stack, b byte) []*stack {
	next, ok := n.next(unpack(s.frame), b)
	if !ok {
		return dst
	}
	rest := n.rest(next)
	if rest >= unreachable {
		return dst
	}
	if rest == 0 {
		dst = leave(dst, s.parent)
	}
	// A whole number that goes on costs what it costs to be whole again; that is
	// never less than leaving, which is on the list beside it.
	return append(dst, next.frame(n).on(s.parent, rest))
}

func (n *number) next(s numberState, b byte) (numberState, bool) {
	isDigit := b >= '0' && b <= '9'
	switch {
	case s.phase == numStart && b == '-':
		s.phase, s.negative = numSign, true
		return s, true
	case s.phase <= numSign:
		s.phase, s.digits = numWhole, int64(b-'0')
		return s, isDigit
	case s.phase == numWhole && b == '.':
		s.phase = numPoint
		return s, n.scale > 0
	case s.phase == numWhole && (b == 'e' || b == 'E'):
		s.phase = numE
		return s, n.exponent
	case s.phase == numWhole:
		ok := isDigit && s.digits != 0 && s.digits < power(n.whole-1)
		s.digits = s.digits*10 + int64(b-'0')
		return s, ok
	case s.phase == numPoint && isDigit:
		ok := s.fraction < n.scale
		s.digits, s.fraction = s.digits*10+int64(b-'0'), s.fraction+1
		return s, ok
	}
	return n.nextExponent(s, b, isDigit)
}

// nextExponent reads what follows a fraction: e, a sign and up to two digits.
func (n *number) nextExponent(s numberState, b byte, isDigit bool) (numberState, bool) {
	switch s.phase {
	case numPoint:
		ok := s.fraction > 0 && n.exponent && (b == 'e' || b == 'E')
		s.phase = numE
		return s, ok
	case numE:
		if b == '+' || b == '-' {
			s.phase = numESign
			return s, true
		}
		s.phase = numEDigit
		return s, isDigit
	case numESign:
		s.phase = numEDigit
		return s, isDigit
	case numEDigit:
		s.phase = numEDigits
		return s, isDigit
	}
	return s, false
}

// rest is how few bytes make s a number within the bounds, or unreachable.
func (n *number) rest(s numberState) int {
	switch s.phase {
	case numStart:
		return min(n.restSigned(numberState{phase: numSign}), 1+n.restSigned(numberState{phase: numSign, negative: true}))
	case numE, numESign:
		return 1
	case numEDigit, numEDigits:
		return 0
	}
	return n.restSigned(s)
}

// restSigned tries all lengths: further whole digits, then a fraction.
func (n *number) restSigned(s numberState) int {
	low, high := max(n.low, 0), n.high
	if s.negative {
		low, high = max(-n.high, 0), -n.low
	}
	if s.phase == numPoint {
		least := unreachable
		for f := max(s.fraction, 1); f <= n.scale; f++ {
			if n.within(s.digits*power(n.scale-s.fraction), power(n.scale-s.fraction), power(n.scale-f), low, high) {
				least = min(least, f-s.fraction)
			}
		}
		return least
	}
	least := unreachable
	for k := range n.whole + 1 {
		from, count, ok := n.wholes(s, k)
		if !ok {
			continue
		}
		for f := range n.scale + 1 {
			cost := k + f
			if f > 0 {
				cost++
			}
			unit := power(n.scale)
			if cost < least && n.within(from*unit, count*unit, power(n.scale-f), low, high) {
				least = cost
			}
		}
	}
	return least
}

// wholes are the integers that k more digits make of s: count of them from from.
func (n *number) wholes(s numberState, k int) (from, count int64, ok bool) {
	switch {
	case s.phase == numSign && k == 1:
		return 0, 10, true
	case s.phase == numSign:
		return power(max(k, 1) - 1), 9 * power(max(k, 1)-1), k > 0
	case k > 0 && (s.digits == 0 || s.digits >= power(n.whole-k)):
		return 0, 0, false
	}
	return s.digits * power(k), power(k), true
}

// within says whether a multiple of unit lies in both [from, from+count) and
// [low, high].
func (*number) within(from, count, unit, low, high int64) bool {
	from, to := max(from, low), min(from+count-1, high)
	return from <= to && to/unit*unit >= from
}
