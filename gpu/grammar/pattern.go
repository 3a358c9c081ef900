package grammar

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
)

// A pattern is kept over the characters that stand for themselves in JSON: ASCII
// from space to tilde, without quote and backslash. Texts with others match, too,
// but are not written.
const (
	firstPlain = ' '
	lastPlain  = '~'
)

// maxPatternStates bounds the automaton of a pattern.
const maxPatternStates = 2000

// pattern is a JSON string that a regular expression matches somewhere, as JSON
// Schema has it, of fewest..most characters. A frame's state is the automaton's,
// plus one (0 = before the quote); its count is the characters, as far as they
// matter.
type pattern struct {
	states       []patternState
	fewest, most int64 // most -1 = any
	// ending[n] are the states from which exactly n characters lead to the end.
	ending [][]bool
}

type patternState struct {
	next   [lastPlain + 1]int32 // -1 = no match can follow
	accept bool
}

// newPattern compiles an expression; the error says what is not supported, or is
// that of spend, which is told the work.
func newPattern(expression string, fewest, most int64, spend func(work int) error) (*pattern, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	d := &determiniser{program: program, known: map[string]int32{}}
	if _, err := d.state(d.closure([]uint32{uint32(program.Start)}, true)); err != nil { //nolint:gosec // an index
		return nil, err
	}
	p := &pattern{fewest: fewest, most: most}
	for i := 0; i < len(d.sets); i++ {
		if err := spend((lastPlain - firstPlain) * (1 + len(d.sets[i]))); err != nil {
			return nil, err
		}
		s, err := d.expand(d.sets[i])
		if err != nil {
			return nil, err
		}
		p.states = append(p.states, s)
	}
	return p, p.measure(spend)
}

// rowWork is the work that a row of ending counts as, beside its states.
const rowWork = 8

// measure fills ending, as far as a shortest text can need it.
func (p *pattern) measure(spend func(work int) error) error {
	lengths := int(p.fewest) + len(p.states)
	if lengths*len(p.states) > 1<<22 {
		return errors.New("the automaton is too large for the length")
	}
	if err := spend(lengths * (rowWork + len(p.states)/4)); err != nil {
		return err
	}
	last := make([]bool, len(p.states))
	for i, s := range p.states {
		last[i] = s.accept
	}
	p.ending = append(p.ending, last)
	for range lengths {
		row := make([]bool, len(p.states))
		for i, s := range p.states {
			row[i] = slices.ContainsFunc(s.next[firstPlain:], func(to int32) bool { return to >= 0 && last[to] })
		}
		p.ending = append(p.ending, row)
		last = row
	}
	return nil
}

// rest is how few characters lead to the end, or unreachable.
func (p *pattern) rest(state int32, count int64) int {
	for n := int(max(p.fewest-count, 0)); n < len(p.ending); n++ {
		if p.most >= 0 && count+int64(n) > p.most {
			break
		}
		if p.ending[n][state] {
			return n
		}
	}
	return unreachable
}

func (p *pattern) enter(dst []*stack, parent *stack) []*stack {
	return append(dst, frame{node: p}.on(parent, p.least()))
}

func (p *pattern) least() int { return min(2+p.rest(0, 0), unreachable) }

func (p *pattern) step(dst []*stack, s *stack, b byte) []*stack {
	if s.state == 0 {
		if b != '"' {
			return dst
		}
		return append(dst, frame{node: p, state: 1}.on(s.parent, 1+p.rest(0, 0)))
	}
	at := s.state - 1
	if b == '"' {
		if p.states[at].accept && s.count >= p.fewest {
			dst = leave(dst, s.parent)
		}
		return dst
	}
	if b > lastPlain || p.states[at].next[b] < 0 {
		return dst
	}
	to, count := p.states[at].next[b], s.count+1
	if p.most < 0 {
		count = min(count, p.fewest)
	}
	rest := p.rest(to, count)
	if rest >= unreachable {
		return dst
	}
	if to == at && count == s.count {
		return append(dst, s)
	}
	return append(dst, frame{node: p, state: to + 1, count: count}.on(s.parent, 1+rest))
}

// determiniser makes states of sets of program counters.
type determiniser struct {
	program *syntax.Prog
	sets    [][]uint32
	known   map[string]int32
}

// anywhere is the set in which a match is complete: whatever follows, it is one.
func (d *determiniser) anywhere(set []uint32) bool {
	return slices.ContainsFunc(set, func(pc uint32) bool { return d.program.Inst[pc].Op == syntax.InstMatch })
}

func (d *determiniser) state(set []uint32) (int32, error) {
	key := fmt.Sprint(set)
	if id, ok := d.known[key]; ok {
		return id, nil
	}
	for _, pc := range set {
		in := d.program.Inst[pc]
		if op := syntax.EmptyOp(in.Arg); in.Op == syntax.InstEmptyWidth && op&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0 { //nolint:gosec // its own encoding
			return 0, errors.New(`\b and \B are not supported`)
		}
	}
	if len(d.sets) == maxPatternStates {
		return 0, fmt.Errorf("its automaton has over %d states", maxPatternStates)
	}
	id := int32(len(d.sets)) //nolint:gosec // bounded just now
	d.known[key], d.sets = id, append(d.sets, set)
	return id, nil
}

// expand computes where each character leads. A match may begin anywhere.
func (d *determiniser) expand(set []uint32) (s patternState, err error) {
	s.accept = d.anywhere(set) || d.anywhere(d.atEnd(set))
	for c := range s.next {
		s.next[c] = -1
		if c < firstPlain || c == '"' || c == '\\' {
			continue
		}
		out := set
		if !d.anywhere(set) {
			out = []uint32{uint32(d.program.Start)} //nolint:gosec // an index
			for _, pc := range set {
				if in := &d.program.Inst[pc]; isRune(in) && in.MatchRune(rune(c)) {
					out = append(out, in.Out)
				}
			}
			out = d.closure(out, false)
		}
		if len(out) == 0 {
			continue
		}
		if s.next[c], err = d.state(out); err != nil {
			return s, err
		}
	}
	return s, nil
}

func isRune(in *syntax.Inst) bool {
	return in.Op == syntax.InstRune || in.Op == syntax.InstRune1 || in.Op == syntax.InstRuneAny || in.Op == syntax.InstRuneAnyNotNL
}

// closure follows what reads nothing; an end of text is kept until there is one.
func (d *determiniser) closure(from []uint32, atBegin bool) []uint32 {
	return d.follow(from, func(op syntax.EmptyOp) bool {
		return atBegin && op&^(syntax.EmptyBeginText|syntax.EmptyBeginLine) == 0
	})
}

// atEnd is closure where the text ends; set holds what waits for that.
func (d *determiniser) atEnd(set []uint32) []uint32 {
	return d.follow(set, func(op syntax.EmptyOp) bool {
		return op&^(syntax.EmptyEndText|syntax.EmptyEndLine) == 0
	})
}

func (d *determiniser) follow(from []uint32, holds func(op syntax.EmptyOp) bool) []uint32 {
	seen := map[uint32]bool{}
	var out []uint32
	var visit func(pc uint32)
	visit = func(pc uint32) {
		if seen[pc] {
			return
		}
		seen[pc] = true
		switch in := d.program.Inst[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(in.Out)
			visit(in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			visit(in.Out)
		case syntax.InstEmptyWidth:
			op := syntax.EmptyOp(in.Arg) //nolint:gosec // its own encoding
			if holds(op) {
				visit(in.Out)
			} else if op&(syntax.EmptyBeginText|syntax.EmptyBeginLine) == 0 {
				out = append(out, pc) // it may hold later
			}
		case syntax.InstFail:
		case syntax.InstMatch, syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			out = append(out, pc)
		}
	}
	for _, pc := range from {
		visit(pc)
	}
	slices.Sort(out)
	return out
}
