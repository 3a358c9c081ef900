package generate

import (
	"slices"

	"understudy/gpu"
)

// node is a run of tokens that continues its parent's. The keys and values of
// its positions lie in its pages; a first page that it shares with its parent,
// or a copy of it, holds the parent's last tokens, too.
type node struct {
	parent   *node // nil at a root
	children []*node
	start    int     // position of the first token
	tokens   []int32 // of a growing node: those that are computed
	ready    int     // how many are computed
	pages    []int32 // of the positions from start/PageSize·PageSize on
	copyFrom int32   // page to copy into pages[0] before the first write; −1: none
	growing  bool    // a request's own tail, to which it appends
	filler   *sequence
	pins     int // requests and held results that end here
	used     uint64
}

func (n *node) end() int { return n.start + len(n.tokens) }

// lastPage is the page that position end would share with tokens before it, or
// -1 when it begins a page.
func (n *node) lastPage() int32 {
	if n.end()%gpu.PageSize == 0 {
		return -1
	}
	for n.parent != nil && len(n.pages) == 0 {
		n = n.parent
	}
	if len(n.pages) == 0 {
		return -1
	}
	return n.pages[len(n.pages)-1]
}

// tree is all prefixes in memory, one root for each adapter.
type tree struct {
	pages *pages
	roots map[string]*node
	clock uint64
}

func (t *tree) root(adapter string) *node {
	r, ok := t.roots[adapter]
	if !ok {
		r = &node{copyFrom: -1}
		t.roots[adapter] = r
	}
	return r
}

// match finds the node that ends with the longest prefix of tokens in the tree,
// splitting one where it differs. It may still be in the making.
func (t *tree) match(n *node, tokens []int32) *node {
	t.clock++
	n.used = t.clock
	for len(tokens) > 0 {
		best, common := longest(n.children, tokens)
		if common == 0 {
			break
		}
		if common < len(best.tokens) || best.growing {
			best = t.split(best, common)
		}
		n, tokens = best, tokens[common:]
		n.used = t.clock
	}
	return n
}

func longest(children []*node, tokens []int32) (best *node, common int) {
	for _, c := range children {
		n := 0
		for n < len(c.tokens) && n < len(tokens) && c.tokens[n] == tokens[n] {
			n++
		}
		if n > common {
			best, common = c, n
		}
	}
	return best, common
}

// split makes the first k tokens of n a node of their own, n's new parent: who
// points to n still points to its end.
func (t *tree) split(n *node, k int) *node {
	at := n.start + k
	first := n.start / gpu.PageSize
	upper := &node{
		parent: n.parent, children: []*node{n}, start: n.start, tokens: slices.Clone(n.tokens[:k]),
		ready: min(n.ready, k), pages: slices.Clone(n.pages[:spanned(n.start, at)]),
		copyFrom: n.copyFrom, filler: n.filler, used: n.used,
	}
	if n.ready >= k {
		upper.filler = nil
	}
	n.parent.children[slices.Index(n.parent.children, n)] = upper
	n.parent, n.start, n.tokens, n.ready, n.copyFrom = upper, at, slices.Clone(n.tokens[k:]), n.ready-upper.ready, -1
	n.pages = slices.Clone(n.pages[at/gpu.PageSize-first:])
	if at%gpu.PageSize != 0 {
		t.pages.share(n.pages[0])
	}
	return upper
}

// grow appends a child of n with these tokens. The pages that it needs at once
// are taken from what was reserved; owned says how many were.
func (t *tree) grow(n *node, tokens []int32, growing bool) (child *node, owned int) {
	child = &node{parent: n, start: n.end(), tokens: tokens, growing: growing, copyFrom: -1, used: t.clock}
	n.children = append(n.children, child)
	if shared := n.lastPage(); shared >= 0 && (growing || len(tokens) > 0) {
		if t.pages.claimed[shared] == child.start%gpu.PageSize {
			t.pages.share(shared)
			child.pages = append(child.pages, shared)
		} else {
			child.pages = append(child.pages, t.pages.take())
			child.copyFrom = shared
			owned++
		}
	}
	for len(child.pages) < spanned(child.start, child.end()) {
		child.pages = append(child.pages, t.pages.take())
		owned++
	}
	t.claim(child)
	return child, owned
}

// claim marks the slots of n's last page as taken: a growing node takes all.
func (t *tree) claim(n *node) {
	if len(n.pages) == 0 {
		return
	}
	last := n.pages[len(n.pages)-1]
	for _, full := range n.pages[:len(n.pages)-1] {
		t.pages.claimed[full] = gpu.PageSize
	}
	t.pages.claimed[last] = gpu.PageSize
	if rest := n.end() % gpu.PageSize; !n.growing && rest != 0 {
		t.pages.claimed[last] = rest
	}
}

// unpin gives up an end. What nobody needs stays as a cache, but for tokens that
// were never computed; with drop it goes at once.
func (t *tree) unpin(n *node, drop bool) {
	n.pins--
	for n.parent != nil && n.pins == 0 && len(n.children) == 0 {
		if n.ready < len(n.tokens) {
			t.truncate(n)
		}
		parent := n.parent
		stale := t.stale(n)
		if len(n.tokens) > 0 && !drop && !stale {
			return
		}
		t.remove(n)
		n, drop = parent, stale // an older prefix may serve others, unless it is stale
	}
}

// stale says whether n hangs below a root that is no more.
func (t *tree) stale(n *node) bool {
	for n.parent != nil {
		n = n.parent
	}
	for _, r := range t.roots {
		if r == n {
			return false
		}
	}
	return true
}

// truncate forgets the tokens of a leaf that are not computed.
func (t *tree) truncate(n *node) {
	n.tokens = n.tokens[:n.ready]
	keep := spanned(n.start, n.end())
	for _, p := range n.pages[keep:] {
		t.release(n, p)
	}
	n.pages = n.pages[:keep]
	if keep > 0 {
		t.claim(n)
	}
}

// remove takes a leaf out of the tree.
func (t *tree) remove(n *node) {
	for _, p := range n.pages {
		t.release(n, p)
	}
	n.pages = nil
	siblings := n.parent.children
	at := slices.Index(siblings, n)
	n.parent.children = slices.Delete(siblings, at, at+1)
}

// release drops n's reference to a page; in one that it shares with its parent,
// the slots that it claimed are free again.
func (t *tree) release(n *node, page int32) {
	if n.start%gpu.PageSize != 0 && page == n.pages[0] && n.copyFrom < 0 && n.parent.lastPage() == page {
		t.pages.claimed[page] = n.start % gpu.PageSize
	}
	t.pages.drop(page)
}

// evict removes the leaf that was used longest ago and that nobody needs.
func (t *tree) evict() bool {
	var oldest *node
	var visit func(n *node)
	visit = func(n *node) {
		for _, c := range n.children {
			visit(c)
		}
		if n.parent != nil && len(n.children) == 0 && n.pins == 0 && (oldest == nil || n.used < oldest.used) {
			oldest = n
		}
	}
	for _, r := range t.roots {
		visit(r)
	}
	if oldest == nil {
		return false
	}
	t.remove(oldest)
	return true
}

// reset forgets all prefixes, as new weights make them wrong. Those that are
// pinned go when they are given up.
func (t *tree) reset() {
	for t.evict() {
	}
	clear(t.roots)
}
