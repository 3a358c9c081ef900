package tokenizer

import (
	"cmp"
	"math/bits"
	"slices"
)

// pairs is the table of merges: open addressing behind a bit filter. Most pairs that are
// looked up do not merge, and the filter, which fits a core's cache as no map of a real
// vocabulary does, says so without a look at the table.
type pairs struct {
	filter []uint64
	slots  []slot
}

type slot struct {
	pair     pair
	rank, up int32 // up is the id and one; 0 is a free slot
}

// newPairs makes a table for n merges: at most half full, with 8 to 16 bits of filter for
// each merge, so that one in ten pairs that do not merge passes it.
func newPairs(n int) *pairs {
	size := 1 << bits.Len(uint(2*n+1))
	return &pairs{filter: make([]uint64, max(1, size/16)), slots: make([]slot, size)}
}

func (p pair) hash() uint64 {
	h := uint64(p) * 0x9e3779b97f4a7c15 // 2⁶⁴ / golden ratio
	return h ^ h>>32
}

// bit is a hash's word and bit in the filter.
func (t *pairs) bit(h uint64) (word int, bit uint64) {
	return int(h>>6) & (len(t.filter) - 1), 1 << (h & 63)
}

// at is the place of a pair, or the free one where it would be.
func (t *pairs) at(p pair, h uint64) int {
	i := int(h>>20) & (len(t.slots) - 1)
	for t.slots[i].up != 0 && t.slots[i].pair != p {
		i = (i + 1) & (len(t.slots) - 1)
	}
	return i
}

// set enters a merge; the last of equal pairs counts. The table has room for what
// newPairs was told.
func (t *pairs) set(p pair, m merged) {
	h := p.hash()
	i := t.at(p, h)
	t.slots[i] = slot{pair: p, rank: m.rank, up: m.id + 1}
	word, bit := t.bit(h)
	t.filter[word] |= bit
}

// get is the merge of a pair, never if there is none.
func (t *pairs) get(p pair) merged {
	h := p.hash()
	if word, bit := t.bit(h); t.filter[word]&bit != 0 {
		if s := &t.slots[t.at(p, h)]; s.up != 0 {
			return merged{rank: s.rank, id: s.up - 1}
		}
	}
	return merged{rank: never}
}

// sorted is all merges by their rank.
func (t *pairs) sorted() []pair {
	taken := slices.DeleteFunc(slices.Clone(t.slots), func(s slot) bool { return s.up == 0 })
	slices.SortFunc(taken, func(a, b slot) int { return cmp.Compare(a.rank, b.rank) })
	out := make([]pair, len(taken))
	for i, s := range taken {
		out[i] = s.pair
	}
	return out
}
