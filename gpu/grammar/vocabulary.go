package grammar

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Vocabulary is the bytes of every token, as a trie. It is immutable.
type Vocabulary struct {
	size     int // ids are [0,size)
	maxRunes int // characters that the longest token may complete
	single   [256]bool
	// The trie in preorder: a node's subtree is the nodes up to its end.
	labels []byte
	depths []int32
	ends   []int32
	first  []int32           // a token that ends here, or -1
	others map[int32][]int32 // further tokens with the same bytes
}

// NewVocabulary builds the trie of tokens, where tokens[id] are the bytes that id
// stands for; nil where the id must never be sampled under a grammar (special
// and unused ids). Printable ASCII and the bytes that continue characters need
// tokens of their own, as byte-level BPE has: otherwise a half-written text could
// not always be completed.
func NewVocabulary(tokens [][]byte) (*Vocabulary, error) {
	v := &Vocabulary{size: len(tokens), others: map[int32][]int32{}}
	ids := make([]int32, 0, len(tokens))
	for id, t := range tokens {
		switch {
		case len(t) == 0:
			continue
		case len(t) == 1:
			v.single[t[0]] = true
		}
		v.maxRunes = max(v.maxRunes, utf8.RuneCount(t)+1)
		ids = append(ids, int32(id)) //nolint:gosec // a vocabulary is far below 2^31
	}
	for b, has := range v.single {
		if needed := b >= 0x20 && b < 0x7F || b >= 0x80 && b < 0xC0; needed && !has {
			return nil, fmt.Errorf("vocabulary of %d tokens: no token is the single byte 0x%02x", len(tokens), b)
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return bytes.Compare(tokens[a], tokens[b]) })
	v.build(tokens, ids)
	return v, nil
}

// spells checks that a fixed text can be written at all.
func (v *Vocabulary) spells(text string) error {
	for i := range len(text) {
		if !v.single[text[i]] {
			return fmt.Errorf("%q cannot be written: no token is the single byte 0x%02x", text, text[i])
		}
	}
	return nil
}

// Size is the number of ids.
func (v *Vocabulary) Size() int { return v.size }

// build lays the sorted tokens out in preorder.
func (v *Vocabulary) build(tokens [][]byte, sorted []int32) {
	v.add(0, 0) // the root
	path := []int32{0}
	var last []byte
	for _, id := range sorted {
		token := tokens[id]
		shared := commonPrefix(last, token)
		v.closePath(path[shared+1:])
		path = path[:shared+1]
		for depth := shared; depth < len(token); depth++ {
			path = append(path, v.add(token[depth], depth+1))
		}
		node := path[len(token)]
		if v.first[node] < 0 {
			v.first[node] = id
		} else {
			v.others[node] = append(v.others[node], id)
		}
		last = token
	}
	v.closePath(path)
}

func (v *Vocabulary) add(label byte, depth int) int32 {
	v.labels = append(v.labels, label)
	v.depths = append(v.depths, int32(depth)) //nolint:gosec // a token's length
	v.ends = append(v.ends, 0)
	v.first = append(v.first, -1)
	return int32(len(v.labels) - 1) //nolint:gosec // bounded by the vocabulary's bytes
}

func (v *Vocabulary) closePath(nodes []int32) {
	for _, n := range nodes {
		v.ends[n] = int32(len(v.labels)) //nolint:gosec // bounded by the vocabulary's bytes
	}
}

func commonPrefix(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// walk visits every node below from that set can reach, with the stacks that it
// leads to; the slice is only valid during the visit.
func (v *Vocabulary) walk(from int32, set []*stack, visit func(node int32, set []*stack)) {
	base := v.depths[from]
	sets := [][]*stack{set}
	for n := from + 1; n < v.ends[from]; {
		depth := int(v.depths[n] - base)
		if len(sets) <= depth {
			sets = append(sets, nil)
		}
		next := sets[depth][:0]
		for _, s := range sets[depth-1] {
			next = s.node.step(next, s, v.labels[n])
		}
		next = distinct(next)
		sets[depth] = next
		if len(next) == 0 || len(next) > MaxReadings {
			n = v.ends[n]
			continue
		}
		visit(n, next)
		n++
	}
}

// tokensAt calls f with each token that ends at node.
func (v *Vocabulary) tokensAt(node int32, f func(id int32)) {
	if v.first[node] < 0 {
		return
	}
	f(v.first[node])
	for _, id := range v.others[node] {
		f(id)
	}
}
