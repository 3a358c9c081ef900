package tokenizer

import "container/heap"

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

func (t *Tokenizer) lookup(left, right int32) merged {
	if m, ok := t.merges[pairOf(left, right)]; ok {
		return m
	}
	return merged{rank: never}
}

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

// candidate is a pair in mergeLong's queue; it is stale when id no longer is what the
// symbols at its place become.
type candidate struct {
	merged
	at int
}

type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	return c[i].rank < c[j].rank || c[i].rank == c[j].rank && c[i].at < c[j].at
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// mergeLong is mergeShort with a queue over a linked list: n log n.
func (t *Tokenizer) mergeLong(symbols []int32) int {
	n := len(symbols)
	before, after := make([]int, n), make([]int, n)
	queue := make(candidates, 0, n)
	for i := range symbols {
		before[i], after[i] = i-1, i+1
		if i+1 < n {
			if m := t.lookup(symbols[i], symbols[i+1]); m.rank != never {
				queue = append(queue, candidate{m, i})
			}
		}
	}
	heap.Init(&queue)
	offer := func(left, right int) {
		if left >= 0 && right < n {
			if m := t.lookup(symbols[left], symbols[right]); m.rank != never {
				heap.Push(&queue, candidate{m, left})
			}
		}
	}
	for len(queue) > 0 {
		c := heap.Pop(&queue).(candidate)
		right := after[c.at]
		if symbols[c.at] == none || right >= n || t.lookup(symbols[c.at], symbols[right]) != c.merged {
			continue
		}
		symbols[c.at], symbols[right] = c.id, none
		after[c.at] = after[right]
		if after[c.at] < n {
			before[after[c.at]] = c.at
		}
		offer(before[c.at], c.at)
		offer(c.at, after[c.at])
	}
	kept := 0
	for i := 0; i < n; i = after[i] {
		symbols[kept] = symbols[i]
		kept++
	}
	return kept
}
