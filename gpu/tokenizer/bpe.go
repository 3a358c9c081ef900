package tokenizer

// pair is two neighbouring tokens; left in the upper half.
type pair uint64

func pairOf(left, right int32) pair { return pair(uint32(left))<<32 | pair(uint32(right)) }

// merged is what a pair becomes, and when: the lower rank goes first.
type merged struct {
	rank, id int32
}

// never is the rank of a pair that does not merge.
const never = int32(1<<31 - 1)

// Whether a token's bytes give the token itself, found out when a word is first one.
const (
	wholeUnknown uint32 = iota
	wholeYes
	wholeNo
)

// appendWord appends the ids of one word.
func (t *Tokenizer) appendWord(dst []int32, word string) []int32 {
	id, ok := t.ids[word]
	if !ok {
		return t.appendMerged(dst, word)
	}
	if t.ignoreMerges {
		return append(dst, id)
	}
	switch t.whole[id].Load() {
	case wholeYes:
		return append(dst, id)
	case wholeNo:
		return t.appendMerged(dst, word)
	}
	n := len(dst)
	dst = t.appendMerged(dst, word)
	if len(dst) == n+1 && dst[n] == id {
		t.whole[id].Store(wholeYes)
	} else {
		t.whole[id].Store(wholeNo)
	}
	return dst
}

// maxShort is the longest word for which looking at every pair again after each merge
// is faster than a queue.
const maxShort = 40

// appendMerged applies merges to the word's bytes: the lowest rank first, of equal
// ones the leftmost.
func (t *Tokenizer) appendMerged(dst []int32, word string) []int32 {
	n := len(dst)
	for i := range len(word) {
		switch id := t.byteIDs[word[i]]; {
		case id != none:
			dst = append(dst, id)
		case t.unknown == none:
		case t.fuseUnknown && len(dst) > n && dst[len(dst)-1] == t.unknown && t.byteIDs[word[i-1]] == none:
		default:
			dst = append(dst, t.unknown)
		}
	}
	if symbols := dst[n:]; len(symbols) <= maxShort {
		return dst[:n+t.mergeShort(symbols)]
	}
	return dst[:n+t.mergeLong(dst[n:])]
}

func (t *Tokenizer) lookup(left, right int32) merged { return t.merges.get(pairOf(left, right)) }

// mergeShort merges in place and returns how many symbols are left.
func (t *Tokenizer) mergeShort(symbols []int32) int {
	n := len(symbols)
	var next [maxShort]merged // of the pair that begins here
	for i := range n - 1 {
		next[i] = t.lookup(symbols[i], symbols[i+1])
	}
	for n > 1 {
		best := 0
		for i := 1; i < n-1; i++ {
			if next[i].rank < next[best].rank {
				best = i
			}
		}
		if next[best].rank == never {
			break
		}
		symbols[best] = next[best].id
		copy(symbols[best+1:n-1], symbols[best+2:n])
		copy(next[best:n-2], next[best+1:n-1])
		n--
		if best+1 < n {
			next[best] = t.lookup(symbols[best], symbols[best+1])
		}
		if best > 0 {
			next[best-1] = t.lookup(symbols[best-1], symbols[best])
		}
	}
	return n
}

// candidate is a pair that may merge: its rank in the upper half, its place in the lower,
// so that the least is the next. It is stale when the symbols at its place have another.
type candidate uint64

// candidates is a heap, the least first. (container/heap would box every candidate.)
type candidates []candidate

func (c *candidates) push(rank int32, at int) {
	h := append(*c, candidate(rank)<<32|candidate(at))
	*c = h
	for i := len(h) - 1; i > 0 && h[i] < h[(i-1)/2]; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (c *candidates) pop() (rank int32, at int) {
	h := *c
	top, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	*c = h
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h[child] < h[least] {
				least = child
			}
		}
		if least == i {
			return int32(top >> 32), int(uint32(top))
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// mergeLong is mergeShort with a queue over a linked list: n log n.
func (t *Tokenizer) mergeLong(symbols []int32) int {
	n := len(symbols)
	links := make([]int32, 2*n)
	before, after := links[:n], links[n:]
	queue := make(candidates, 0, n)
	offer := func(left, right int) {
		if left >= 0 && right < n {
			if m := t.lookup(symbols[left], symbols[right]); m.rank != never {
				queue.push(m.rank, left)
			}
		}
	}
	for i := range symbols {
		before[i], after[i] = int32(i-1), int32(i+1)
		offer(i, i+1)
	}
	for len(queue) > 0 {
		rank, at := queue.pop()
		right := int(after[at])
		if symbols[at] == none || right >= n {
			continue
		}
		m := t.lookup(symbols[at], symbols[right])
		if m.rank != rank {
			continue
		}
		symbols[at], symbols[right] = m.id, none
		after[at] = after[right]
		if int(after[at]) < n {
			before[after[at]] = int32(at)
		}
		offer(int(before[at]), at)
		offer(at, int(after[at]))
	}
	kept := 0
	for i := 0; i < n; i = int(after[i]) {
		symbols[kept] = symbols[i]
		kept++
	}
	return kept
}
