package generate

import "understudy/gpu"

// pages is the reference-counted allocator of the KV arena. A page may belong to
// several nodes of the tree that share tokens in it.
type pages struct {
	free []int32 // ids that nobody has
	refs []int32
	// claimed is how many of a page's slots are taken, counted from the first. Who
	// goes on at the first slot that is not claimed writes into the page itself;
	// who goes on earlier takes a copy.
	claimed []int
	// reserved pages are promised to admitted requests, and not taken yet.
	reserved int
}

func newPages(n int) *pages {
	p := &pages{free: make([]int32, n), refs: make([]int32, n), claimed: make([]int, n)}
	for i := range p.free {
		p.free[i] = int32(n - 1 - i) //nolint:gosec // page ids are int32
	}
	return p
}

// available are the pages that nobody has or was promised.
func (p *pages) available() int { return len(p.free) - p.reserved }

// take gives a page with one reference; whoever takes it has reserved it.
func (p *pages) take() int32 {
	id := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.refs[id], p.claimed[id] = 1, 0
	p.reserved--
	return id
}

func (p *pages) share(id int32) { p.refs[id]++ }

func (p *pages) drop(id int32) {
	if p.refs[id]--; p.refs[id] == 0 {
		p.free = append(p.free, id)
	}
}

// spanned is how many pages positions from..to-1 touch.
func spanned(from, to int) int {
	if to <= from {
		return 0
	}
	return (to-1)/gpu.PageSize - from/gpu.PageSize + 1
}
