package grammar

// node is one construct of a grammar: a string, an object, a choice. Nodes are
// immutable once compiled; where a text is within one is a frame.
type node interface {
	// enter appends the stacks that stand before the node's first byte, on top of
	// parent; all that need no byte to be reached are among them.
	enter(dst []*stack, parent *stack) []*stack
	// step appends the stacks that s, whose top frame is of this node, becomes
	// when b is written; none if b may not follow.
	step(dst []*stack, s *stack, b byte) []*stack
	// least is the length of the shortest text of the node; unreachable while it
	// is not known to have one.
	least() int
}

// unreachable is more bytes than any text has, and safe to add up.
const unreachable = 1 << 40

// frame is a place within a node. It is comparable: equal frames have equal
// futures until they are left.
type frame struct {
	node  node
	state int32  // of the node's own automaton
	count int64  // characters, items, members or a number's digits
	seen  string // an object's members so far, one byte for eight
}

// stack is a frame and those that it returns to. It is immutable and shared.
type stack struct {
	frame
	parent *stack
	min    int // the fewest bytes that complete the whole stack
}

// on puts a frame on top of parent, where own bytes complete the frame itself.
func (f frame) on(parent *stack, own int) *stack {
	return &stack{frame: f, parent: parent, min: own + parent.min}
}

// distinct drops stacks that are plainly the same, in place.
func distinct(set []*stack) []*stack {
	const few = 16 // to look through
	if len(set) > few {
		return distinctMany(set)
	}
	if len(set) < 2 {
		return set
	}
	kept := set[:1]
	for _, s := range set[1:] {
		if !contains(kept, s) {
			kept = append(kept, s)
		}
	}
	return kept
}

func contains(set []*stack, s *stack) bool {
	for _, k := range set {
		if k == s || k.parent == s.parent && k.frame == s.frame {
			return true
		}
	}
	return false
}

func distinctMany(set []*stack) []*stack {
	type key struct {
		frame  frame
		parent *stack
	}
	seen, kept := make(map[key]bool, len(set)), set[:0]
	for _, s := range set {
		if k := (key{s.frame, s.parent}); !seen[k] {
			seen[k] = true
			kept = append(kept, s)
		}
	}
	return kept
}

// fewest is the least number of bytes that complete one of set.
func fewest(set []*stack) int {
	least := unreachable
	for _, s := range set {
		least = min(least, s.min)
	}
	return least
}

// leave appends parent and whatever it reaches without a byte: it is how a frame
// that is complete returns.
func leave(dst []*stack, parent *stack) []*stack {
	if c, ok := parent.node.(continuer); ok {
		return c.resume(dst, parent)
	}
	return append(dst, parent)
}

// continuer is a node whose frame, when its child returns, may go on without a
// byte of its own.
type continuer interface {
	resume(dst []*stack, s *stack) []*stack
}

// terminal is the bottom of a stack: the end of the text, or, in a mask that is
// computed for a top frame alone, the unknown rest.
type terminal struct{ name string }

func (*terminal) enter(dst []*stack, parent *stack) []*stack   { return append(dst, parent) }
func (*terminal) step(dst []*stack, _ *stack, _ byte) []*stack { return dst }
func (*terminal) least() int                                   { return 0 }

func bottom(name string) *stack { return &stack{frame: frame{node: &terminal{name: name}}} }

// union is a choice.
type union struct {
	alternatives []node
	shortest     int
}

func (u *union) enter(dst []*stack, parent *stack) []*stack {
	for _, a := range u.alternatives {
		dst = a.enter(dst, parent)
	}
	return dst
}

func (*union) step(dst []*stack, _ *stack, _ byte) []*stack { return dst } // never on a stack
func (u *union) least() int                                 { return u.shortest }

// sequence is one node after another. Its frame's state is the part to enter when
// the one before it returns.
type sequence struct{ parts []node }

func (q *sequence) enter(dst []*stack, parent *stack) []*stack { return q.from(dst, 0, parent) }

func (q *sequence) from(dst []*stack, part int, parent *stack) []*stack {
	switch part {
	case len(q.parts):
		return leave(dst, parent)
	case len(q.parts) - 1:
		return q.parts[part].enter(dst, parent) // nothing to come back to
	}
	f := frame{node: q, state: int32(part + 1)} //nolint:gosec // a few parts
	return q.parts[part].enter(dst, f.on(parent, q.rest(part+1)))
}

func (q *sequence) resume(dst []*stack, s *stack) []*stack {
	return q.from(dst, int(s.state), s.parent)
}

func (*sequence) step(dst []*stack, _ *stack, _ byte) []*stack { return dst } // never on top
func (q *sequence) least() int                                 { return q.rest(0) }

func (q *sequence) rest(part int) int {
	sum := 0
	for _, p := range q.parts[part:] {
		sum = min(sum+p.least(), unreachable)
	}
	return sum
}
