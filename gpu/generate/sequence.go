package generate

import (
	"fmt"
	"slices"

	"understudy/gpu"
	"understudy/gpu/grammar"
)

// sequence is a request that was admitted.
type sequence struct {
	*job
	tail     *node   // its own: the prompt's last token, and what it generates
	table    []int32 // page ids by position
	reserved int     // pages that are promised to it and not taken yet
	next     int32   // the token whose row comes next
	tokens   []Token
	state    grammar.State
	text     *transcript
	turn     int64 // the last step that it had rows in, counted from 1
	index    int32 // of its table in that step
	row      int32 // of its last token, in a step that decodes it
}

// decoding says whether all before the tail is computed.
func (s *sequence) decoding() bool { return len(s.prefix()) == 0 }

// needsLogits says that drawing a token is not all that its logits are for.
func (s *sequence) needsLogits() bool { return s.Grammar != nil || s.TopLogProbs > 0 }

// prefix are the nodes before the tail that are not computed, in order.
func (s *sequence) prefix() []*node {
	var path []*node
	for n := s.tail.parent; n != nil; n = n.parent {
		if n.ready < len(n.tokens) {
			path = append(path, n)
		}
	}
	slices.Reverse(path)
	return path
}

// buildTable fills the page table from the root down; a child's first page
// stands in for its parent's last.
func (s *sequence) buildTable() {
	s.table = make([]int32, spanned(0, s.tail.start+s.Max))
	var path []*node
	for n := s.tail; n != nil; n = n.parent {
		path = append(path, n)
	}
	for _, n := range slices.Backward(path) {
		copy(s.table[n.start/gpu.PageSize:], n.pages)
	}
}

// stuck is the error of a grammar that leaves nothing to write, and no end: never,
// by what grammar.State.Least promises.
func (s *sequence) stuck() error {
	if s.state.Complete() {
		return nil
	}
	return fmt.Errorf("at token %d of %d: the grammar allows nothing, and needs %d more bytes", len(s.tokens), s.Max, s.state.Least())
}

// position is where the next row stands.
func (s *sequence) position() int { return s.tail.end() }

// finished is what the sequence amounts to.
func (s *sequence) finished(reason Finish) *Result {
	return &Result{Tokens: s.tokens, Text: s.text.all(), Finish: reason, Shared: s.shared}
}
