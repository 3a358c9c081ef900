package gpu

import "slices"

// shareFrom is the fewest tokens in common that are worth a branch.
const shareFrom = PageSize

// Share gives the batch as a tree, in which what sequences have in common from
// their beginnings on, at least 16 tokens through the same adapter, is computed
// once. Targets keep their order, so that scores and derivatives keep their
// places, and their bits. A batch with nothing in common, or with Parents, is
// given back as it is. The trainer's Expanded must hold the tokens of b.
func (b *Batch) Share() *Batch {
	if b.Parents != nil || !b.spansAscend() {
		return b
	}
	root, at, shared := &branch{}, 0, false
	rows := b.adaptedTokens()
	for _, n := range b.Lengths {
		if n < 1 || at+int(n) > len(rows) {
			return b // Forward will say so
		}
		shared = root.insert(rows[at:at+int(n)]) || shared
		at += int(n)
	}
	if !shared || at != len(rows) {
		return b
	}
	tree := &Batch{Targets: b.Targets, Scale: b.Scale}
	var adapters []int
	for _, child := range root.children {
		adapters = child.layOut(tree, -1, adapters)
	}
	b.spans(tree, adapters)
	tree.Rows = b.treeRows(root, rows)
	return tree
}

func (b *Batch) spansAscend() bool {
	end := 0
	for _, s := range b.Adapters {
		if s.From < end || s.To <= s.From || s.To > len(b.Tokens) {
			return false // Forward will say so
		}
		end = s.To
	}
	return true
}

// adapted is a token with the adapter of its row, an index into Batch.Adapters'
// names, or −1.
type adapted struct {
	token   int32
	adapter int
}

func (b *Batch) adaptedTokens() []adapted {
	list := make([]adapted, len(b.Tokens))
	for i, token := range b.Tokens {
		list[i] = adapted{token, -1}
	}
	for _, s := range b.Adapters {
		first := slices.IndexFunc(b.Adapters, func(x Span) bool { return x.Adapter == s.Adapter })
		for r := s.From; r < s.To; r++ {
			list[r].adapter = first
		}
	}
	return list
}

// branch is a run of tokens, after those of its parents.
type branch struct {
	tokens   []adapted
	children []*branch
	row      int // of its first token in the tree
}

// insert adds a sequence below n and reports whether it shares a beginning.
func (n *branch) insert(tokens []adapted) bool {
	for _, child := range n.children {
		common := commonPrefix(child.tokens, tokens)
		switch {
		case common < shareFrom && common < len(child.tokens) || common == 0:
			continue
		case common < len(child.tokens):
			child.split(common)
		}
		if common < len(tokens) {
			child.insert(tokens[common:])
		}
		return true
	}
	n.children = append(n.children, &branch{tokens: tokens})
	return false
}

// split makes two of a branch, the first of which has n tokens.
func (n *branch) split(at int) {
	n.children = []*branch{{tokens: n.tokens[at:], children: n.children}}
	n.tokens = n.tokens[:at]
}

func commonPrefix(a, b []adapted) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// layOut appends the branch and its children to a batch, as sequences, and their
// rows' adapters to a list.
func (n *branch) layOut(b *Batch, parent int32, adapters []int) []int {
	n.row = len(b.Tokens)
	sequence := int32(len(b.Lengths))
	b.Lengths, b.Parents = append(b.Lengths, int32(len(n.tokens))), append(b.Parents, parent)
	for _, t := range n.tokens {
		b.Tokens, adapters = append(b.Tokens, t.token), append(adapters, t.adapter)
	}
	for _, child := range n.children {
		adapters = child.layOut(b, sequence, adapters)
	}
	return adapters
}

// spans gives the tree's rows their adapters.
func (b *Batch) spans(tree *Batch, adapters []int) {
	for from := 0; from < len(adapters); {
		to := from + 1
		for to < len(adapters) && adapters[to] == adapters[from] {
			to++
		}
		if i := adapters[from]; i >= 0 {
			tree.Adapters = append(tree.Adapters, Span{Adapter: b.Adapters[i].Adapter, From: from, To: to})
		}
		from = to
	}
}

// treeRows finds the rows to score in the tree.
func (b *Batch) treeRows(root *branch, tokens []adapted) []int32 {
	place, at := make([]int32, 0, len(tokens)), 0
	for _, n := range b.Lengths {
		place = root.place(tokens[at:at+int(n)], place)
		at += int(n)
	}
	rows := make([]int32, len(b.Rows))
	for i, r := range b.Rows {
		rows[i] = -1 // Forward will say so
		if r >= 0 && int(r) < len(place) {
			rows[i] = place[r]
		}
	}
	return rows
}

// place appends the tree's row of each token of a sequence that was inserted.
func (n *branch) place(tokens []adapted, rows []int32) []int32 {
	for _, child := range n.children {
		// No two children begin with the same whole branch; a child that is no
		// longer than the sequence and equal to its beginning is on its way.
		if c := len(child.tokens); c > 0 && c <= len(tokens) && slices.Equal(child.tokens, tokens[:c]) {
			for i := range c {
				rows = append(rows, int32(child.row+i))
			}
			return child.place(tokens[c:], rows)
		}
	}
	return rows
}
