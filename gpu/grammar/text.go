package grammar

// A rune in progress: what the bytes so far still need, as in the table of
// well-formed UTF-8 (Unicode 15, table 3-7).
const (
	runeDone    = iota // at a character's boundary
	runeTail1          // one continuation byte
	runeTail2          // two
	runeTail3          // three
	runeAfterE0        // A0..BF, then one
	runeAfterED        // 80..9F, then one
	runeAfterF0        // 90..BF, then two
	runeAfterF4        // 80..8F, then two
	runeStates
)

// nextRune continues a character; ok is false where b makes it ill-formed.
func nextRune(state int32, b byte) (next int32, ok bool) {
	low, high := byte(0x80), byte(0xBF)
	switch state {
	case runeDone:
		return firstRune(b)
	case runeTail1, runeTail2, runeTail3:
		next = state - 1
	case runeAfterE0:
		next, low = runeTail1, 0xA0
	case runeAfterED:
		next, high = runeTail1, 0x9F
	case runeAfterF0:
		next, low = runeTail2, 0x90
	case runeAfterF4:
		next, high = runeTail2, 0x8F
	}
	return next, low <= b && b <= high
}

func firstRune(b byte) (next int32, ok bool) {
	switch {
	case b < 0x80:
		return runeDone, true
	case b >= 0xC2 && b <= 0xDF:
		return runeTail1, true
	case b == 0xE0:
		return runeAfterE0, true
	case b == 0xED:
		return runeAfterED, true
	case b >= 0xE1 && b <= 0xEF:
		return runeTail2, true
	case b == 0xF0:
		return runeAfterF0, true
	case b >= 0xF1 && b <= 0xF3:
		return runeTail3, true
	case b == 0xF4:
		return runeAfterF4, true
	}
	return 0, false
}

// runeRest is how many bytes complete the character.
func runeRest(state int32) int {
	return [runeStates]int{0, 1, 2, 3, 2, 2, 3, 3}[state]
}

// prose is free text in which a trigger starts a body, as a tool call stands in
// a model's answer: any number of bodies, or at most one. A frame's state is the
// length of the trigger's prefix just read, times runeStates, plus the rune's;
// its count is the number of bodies up to 1.
type prose struct {
	trigger string
	body    node // what follows the trigger
	once    bool
}

func (p *prose) enter(dst []*stack, parent *stack) []*stack {
	return p.at(dst, 0, 0, parent)
}

// at stands in the text; at a character's boundary it may end.
func (p *prose) at(dst []*stack, state int32, bodies int64, parent *stack) []*stack {
	rest := runeRest(state % runeStates)
	dst = append(dst, frame{node: p, state: state, count: bodies}.on(parent, rest))
	if rest == 0 {
		dst = leave(dst, parent)
	}
	return dst
}

func (p *prose) resume(dst []*stack, s *stack) []*stack {
	if p.once {
		return leave(dst, s.parent)
	}
	return p.at(dst, 0, 1, s.parent)
}

func (p *prose) step(dst []*stack, s *stack, b byte) []*stack {
	read, char := s.state/runeStates, s.state%runeStates
	char, ok := nextRune(char, b)
	if !ok {
		return dst
	}
	read = p.matched(read, b)
	if int(read) == len(p.trigger) {
		return p.body.enter(dst, frame{node: p}.on(s.parent, 0))
	}
	if state := read*runeStates + char; state != s.state {
		return p.at(dst, state, s.count, s.parent)
	}
	dst = append(dst, s)
	if runeRest(char) == 0 {
		dst = leave(dst, s.parent)
	}
	return dst
}

// matched is the longest prefix of the trigger that ends with b, when read bytes
// of it came before (Knuth, Morris, Pratt; triggers are short).
func (p *prose) matched(read int32, b byte) int32 {
	if read == 0 && b != p.trigger[0] {
		return 0
	}
	recent := p.trigger[:read] + string([]byte{b})
	for n := len(recent); n > 0; n-- {
		if p.trigger[:n] == recent[len(recent)-n:] {
			return int32(n) //nolint:gosec // a trigger's length
		}
	}
	return 0
}

func (*prose) least() int { return 0 }
