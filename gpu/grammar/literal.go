package grammar

import "slices"

// literal is one of several fixed texts, as a trie: a frame's state is a trie
// node.
type literal struct {
	nodes []literalNode
}

type literalNode struct {
	children map[byte]int32
	whole    bool // a text ends here
	rest     int  // bytes to the nearest end
}

// newLiteral needs at least one text; none may be empty.
func newLiteral(texts ...string) *literal {
	l := &literal{nodes: []literalNode{{children: map[byte]int32{}, rest: unreachable}}}
	for _, text := range texts {
		l.insert(text)
	}
	return l
}

func (l *literal) insert(text string) {
	at := int32(0)
	for i := range len(text) {
		l.nodes[at].rest = min(l.nodes[at].rest, len(text)-i)
		next, ok := l.nodes[at].children[text[i]]
		if !ok {
			next = int32(len(l.nodes)) //nolint:gosec // bounded by the schema's bytes
			l.nodes = append(l.nodes, literalNode{children: map[byte]int32{}, rest: unreachable})
			l.nodes[at].children[text[i]] = next
		}
		at = next
	}
	l.nodes[at].whole, l.nodes[at].rest = true, 0
}

func (l *literal) enter(dst []*stack, parent *stack) []*stack {
	return append(dst, frame{node: l}.on(parent, l.nodes[0].rest))
}

func (l *literal) step(dst []*stack, s *stack, b byte) []*stack {
	at, ok := l.nodes[s.state].children[b]
	if !ok {
		return dst
	}
	n := &l.nodes[at]
	if n.whole {
		dst = leave(dst, s.parent)
	}
	if len(n.children) > 0 {
		// rest is 0 where a shorter text ends here, too; going on costs more.
		rest := n.rest
		if n.whole {
			rest = l.onward(n)
		}
		dst = append(dst, frame{node: l, state: at}.on(s.parent, rest))
	}
	return dst
}

// onward is the least number of bytes to an end beyond n.
func (l *literal) onward(n *literalNode) int {
	least := unreachable
	for _, child := range n.children {
		least = min(least, 1+l.nodes[child].rest)
	}
	return least
}

func (l *literal) least() int { return l.nodes[0].rest }

// word is one fixed text without a trie.
type word struct{ text string }

func (w *word) enter(dst []*stack, parent *stack) []*stack {
	if w.text == "" {
		return leave(dst, parent)
	}
	return append(dst, frame{node: w}.on(parent, len(w.text)))
}

func (w *word) step(dst []*stack, s *stack, b byte) []*stack {
	if w.text[s.state] != b {
		return dst
	}
	next := int(s.state) + 1
	if next == len(w.text) {
		return leave(dst, s.parent)
	}
	return append(dst, frame{node: w, state: s.state + 1}.on(s.parent, len(w.text)-next))
}

func (w *word) least() int { return len(w.text) }

// sortedTexts removes duplicates.
func sortedTexts(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}
