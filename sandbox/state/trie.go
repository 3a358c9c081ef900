package state

import (
	"math/bits"
	"slices"
	"strings"
)

const (
	bucketMax = 8  // entries in a leaf before it splits
	fanBits   = 4  // 16 children a branch
	depthMax  = 16 // 64 hash bits are spent; a leaf there may be any size
)

// node is one node of a hash trie. Its form depends only on the keys below it
// (at most bucketMax of them make a leaf), so that equal maps have equal tries
// and the digest of a node can be kept with it.
type node struct {
	kids   []*node // branch: one per set bit
	leaf   []entry // leaf: sorted by key
	count  int32
	bitmap uint16
	digest seal
}

// hashKey is FNV-1a with a final mix: the same in every process, because the
// shape of a trie is part of the digest.
func hashKey(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

func slotOf(h uint64, depth int) uint16 { return 1 << (h >> (depth * fanBits) & 15) }

// buildNode makes the trie of entries that share their first depth hash digits.
func buildNode(entries []entry, depth int) *node {
	if len(entries) <= bucketMax || depth == depthMax {
		leaf := slices.Clone(entries)
		slices.SortFunc(leaf, byKey)
		return &node{leaf: leaf, count: int32(len(leaf))}
	}
	var parts [16][]entry
	for _, e := range entries {
		i := hashKey(e.key) >> (depth * fanBits) & 15
		parts[i] = append(parts[i], e)
	}
	n := &node{count: int32(len(entries))}
	for i, part := range parts {
		if len(part) > 0 {
			n.bitmap |= 1 << i
			n.kids = append(n.kids, buildNode(part, depth+1))
		}
	}
	return n
}

func (n *node) get(key string) *entry {
	h := hashKey(key)
	for depth := 0; n.kids != nil; depth++ {
		bit := slotOf(h, depth)
		if n.bitmap&bit == 0 {
			return nil
		}
		n = n.kids[bits.OnesCount16(n.bitmap&(bit-1))]
	}
	for i := range n.leaf {
		if n.leaf[i].key == key {
			return &n.leaf[i]
		}
	}
	return nil
}

// with returns the trie with e added or replaced.
func (n *node) with(h uint64, e entry, depth int) *node {
	if n.kids == nil {
		i, found := findEntry(n.leaf, e.key)
		if found {
			leaf := slices.Clone(n.leaf)
			leaf[i] = e
			return &node{leaf: leaf, count: n.count}
		}
		leaf := make([]entry, len(n.leaf)+1)
		copy(leaf, n.leaf[:i])
		leaf[i] = e
		copy(leaf[i+1:], n.leaf[i:])
		return buildOwned(leaf, depth)
	}
	bit := slotOf(h, depth)
	at := bits.OnesCount16(n.bitmap & (bit - 1))
	if n.bitmap&bit == 0 {
		kids := slices.Insert(slices.Clone(n.kids), at, &node{leaf: []entry{e}, count: 1})
		return &node{kids: kids, bitmap: n.bitmap | bit, count: n.count + 1}
	}
	kids := slices.Clone(n.kids)
	kids[at] = n.kids[at].with(h, e, depth+1)
	return &node{kids: kids, bitmap: n.bitmap, count: n.count + kids[at].count - n.kids[at].count}
}

// buildOwned is buildNode for a sorted leaf that the caller gives away.
func buildOwned(leaf []entry, depth int) *node {
	if len(leaf) <= bucketMax || depth == depthMax {
		return &node{leaf: leaf, count: int32(len(leaf))}
	}
	return buildNode(leaf, depth)
}

// without returns the trie without key, which it holds.
func (n *node) without(h uint64, key string, depth int) *node {
	if n.kids == nil {
		i, _ := findEntry(n.leaf, key)
		return &node{leaf: slices.Delete(slices.Clone(n.leaf), i, i+1), count: n.count - 1}
	}
	if n.count-1 <= bucketMax {
		leaf := n.collect(make([]entry, 0, n.count))
		leaf = slices.DeleteFunc(leaf, func(e entry) bool { return e.key == key })
		return buildNode(leaf, depth)
	}
	bit := slotOf(h, depth)
	at := bits.OnesCount16(n.bitmap & (bit - 1))
	kids := slices.Clone(n.kids)
	kids[at] = n.kids[at].without(h, key, depth+1)
	bitmap := n.bitmap
	if kids[at].count == 0 {
		kids = slices.Delete(kids, at, at+1)
		bitmap &^= bit
	}
	return &node{kids: kids, bitmap: bitmap, count: n.count - 1}
}

func (n *node) collect(into []entry) []entry {
	into = append(into, n.leaf...)
	for _, kid := range n.kids {
		into = kid.collect(into)
	}
	return into
}

// sorted lists the entries by key; the caller only reads it.
func (n *node) sorted() []entry {
	if n.kids == nil {
		return n.leaf
	}
	entries := n.collect(make([]entry, 0, n.count))
	slices.SortFunc(entries, byKey)
	return entries
}

func findEntry(leaf []entry, key string) (int, bool) {
	return slices.BinarySearchFunc(leaf, key, func(e entry, k string) int { return strings.Compare(e.key, k) })
}
