package grammar

import "sync"

// Mask is a set of token ids, one bit each.
type Mask []uint64

// NewMask holds ids below size.
func NewMask(size int) Mask { return make(Mask, (size+63)/64) }

// Allows says whether id is in the set.
func (m Mask) Allows(id int) bool { return m[id/64]>>(id%64)&1 == 1 }

// Add puts id into the set.
func (m Mask) Add(id int32) { m[id/64] |= 1 << (id % 64) }

// Empty says whether no id is in the set.
func (m Mask) Empty() bool {
	for _, w := range m {
		if w != 0 {
			return false
		}
	}
	return true
}

// outlook is what a top frame decides alone: the tokens that stay on top of the
// stack below it, and the trie nodes where a token leaves it.
type outlook struct {
	stay   []int32 // tokens, when they are few
	dense  Mask    // or as a set
	leaves []int32
	// raise is the most bytes that complete the frame after one of the tokens.
	raise int
}

// maxOutlooks bounds what a grammar keeps: a set of a large vocabulary is 20 kB.
const maxOutlooks = 2048

// outlooks keeps them by frame; it is safe for concurrent use.
type outlooks struct {
	mu    sync.Mutex
	known map[frame]*outlook
}

// of finds or computes the outlook of the top of s.
func (o *outlooks) of(v *Vocabulary, s *stack) *outlook {
	f := s.frame
	if k, ok := f.node.(interface {
		maskKey(f frame, maxRunes int) frame
	}); ok {
		f = k.maskKey(f, v.maxRunes)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.known[f]; ok {
		return known
	}
	if len(o.known) >= maxOutlooks {
		clear(o.known)
	}
	look := v.outlook(f, s.min-s.parent.min)
	o.known[f] = look
	return look
}

// outlook walks the vocabulary from f, which own bytes complete.
func (v *Vocabulary) outlook(f frame, own int) *outlook {
	hole := bottom("hole")
	look := &outlook{}
	v.walk(0, []*stack{f.on(hole, own)}, func(n int32, set []*stack) {
		stays := false
		rest := unreachable
		for _, s := range set {
			if s == hole {
				look.leaves = append(look.leaves, n)
				continue
			}
			stays = true
			rest = min(rest, s.min)
		}
		if stays && v.first[n] >= 0 {
			look.raise = max(look.raise, rest)
			v.tokensAt(n, func(id int32) { look.stay = append(look.stay, id) })
		}
	})
	if len(look.stay) > v.size/32 {
		look.dense = NewMask(v.size)
		for _, id := range look.stay {
			look.dense.Add(id)
		}
		look.stay = nil
	}
	return look
}

// add puts into m the tokens that may follow on s and leave at most limit bytes
// to write.
func (g *Grammar) add(m Mask, s *stack, limit int) {
	if s.parent == nil {
		return // the end: no token follows
	}
	v := g.vocabulary
	look := g.outlooks.of(v, s)
	if look.raise+s.parent.min > limit {
		v.walk(0, []*stack{s}, func(n int32, set []*stack) {
			if fewest(set) <= limit {
				v.tokensAt(n, m.Add)
			}
		})
		return
	}
	for i, w := range look.dense {
		m[i] |= w
	}
	for _, id := range look.stay {
		m.Add(id)
	}
	if len(look.leaves) == 0 {
		return
	}
	below := leave(nil, s.parent)
	for _, n := range look.leaves {
		if fewest(below) <= limit {
			v.tokensAt(n, m.Add)
		}
		v.walk(n, below, func(n int32, set []*stack) {
			if fewest(set) <= limit {
				v.tokensAt(n, m.Add)
			}
		})
	}
}
