package diff

import (
	"cmp"
	"hash/maphash"
	"slices"
)

// pair is a step of an alignment: element i of the real array stands for element
// j of the rehearsed one; -1 is none.
type pair struct{ i, j int32 }

// array compares two arrays: finds which elements belong together, compares
// those, and weighs the whole.
func (c *comparer) array(x, y Value, at here, rule *Rule) mass {
	if x.Len() == 0 && y.Len() == 0 {
		return both(emptyWeight, true)
	}
	lo := len(c.pairs)
	reordered := c.align(x, y, at, rule)
	hi := len(c.pairs)
	first := len(c.out.Differences)
	if reordered {
		c.silent++
	}
	var sum elements
	for k := lo; k < hi; k++ { // by index: the stack may move
		p := c.pairs[k]
		var kx, ky Value
		index := int(p.i)
		if p.i >= 0 {
			kx = x.At(int(p.i))
		} else {
			index = int(p.j)
		}
		if p.j >= 0 {
			ky = y.At(int(p.j))
		}
		next := c.push(at, crumb{index: index})
		from := len(c.out.Differences)
		m := c.value(kx, ky, next)
		c.pop(next)
		sum.add(m)
		for d := from; d < len(c.out.Differences); d++ {
			diff := &c.out.Differences[d]
			diff.Weight /= max(m.total(diff), 1e-300)
		}
	}
	if reordered {
		c.silent--
		sum.keep(c.inOrder(lo, hi))
	}
	c.pairs = c.pairs[:lo]
	m := sum.mass(x.Len(), y.Len())
	perReal, perRehearsed := elementWeight(sum.real), elementWeight(sum.rehearsed)
	for d := first; d < len(c.out.Differences); d++ {
		diff := &c.out.Differences[d]
		if diff.Kind == Extra || diff.Real == nil {
			diff.Weight *= perRehearsed
			continue
		}
		diff.Weight *= perReal
	}
	if reordered {
		c.record(Reordered, x, y, rule, m.real-m.hitReal, false)
	}
	return m
}

// elements sums the masses of an array's elements, each as a share of its own.
type elements struct {
	real, rehearsed     int // that weigh anything
	hitReal, hitReh     float64
	creditReal, credReh float64
	near, masked        float64
	hidden              int // that weigh nothing because of masks
}

func (e *elements) add(m mass) {
	credit := m.f1()
	if m.real <= 0 && m.masked > 0 {
		e.hidden++
	}
	if m.real > 0 {
		e.real++
		e.hitReal += m.hitReal / m.real
		e.creditReal += credit
		e.masked += m.masked / m.real
	}
	if m.rehearsed > 0 {
		e.rehearsed++
		e.hitReh += m.hitReh / m.rehearsed
		e.credReh += credit
	}
	if whole := m.real + m.rehearsed; whole > 0 {
		e.near += m.near / whole
	}
}

// keep lets only n elements count as matched: the others are out of order.
func (e *elements) keep(n int) {
	kept := float64(n)
	e.hitReal, e.hitReh = min(e.hitReal, kept), min(e.hitReh, kept)
	e.creditReal, e.credReh = min(e.creditReal, kept), min(e.credReh, kept)
}

// mass is the weight of the arrays, of lengths n and m, that hold the elements.
func (e *elements) mass(n, m int) mass {
	perReal, perRehearsed := elementWeight(e.real), elementWeight(e.rehearsed)
	out := mass{
		hitReal: e.hitReal * perReal, hitReh: e.hitReh * perRehearsed,
		creditReal: e.creditReal * perReal, credReh: e.credReh * perRehearsed,
		near: e.near * max(perReal, perRehearsed), masked: e.masked * perReal,
	}
	if n == 0 || e.real > 0 {
		out.real = arrayWeight(e.real)
	}
	if m == 0 || e.rehearsed > 0 {
		out.rehearsed = arrayWeight(e.rehearsed)
	}
	switch {
	case e.hidden > 0 && e.real > 0:
		out.masked += arrayWeight(e.real+e.hidden) - arrayWeight(e.real)
	case e.hidden > 0:
		out.masked = arrayWeight(e.hidden)
	}
	return out
}

// inOrder is the longest run of pairs, sorted by i, that also rises in j.
func (c *comparer) inOrder(lo, hi int) int {
	var tails []int32
	for _, p := range c.pairs[lo:hi] {
		at, _ := slices.BinarySearch(tails, p.j)
		if at == len(tails) {
			tails = append(tails, p.j)
		} else {
			tails[at] = p.j
		}
	}
	return len(tails)
}

// align pushes the alignment of two arrays: matched pairs by i, then what is
// missing, then what is extra. It reports whether an ordered array holds the same
// elements in another order; all of them are paired then.
func (c *comparer) align(x, y Value, at here, rule *Rule) (reordered bool) {
	lo := len(c.pairs)
	switch rule.Array {
	case Keyed:
		c.alignKeyed(x, y, at, rule)
	case Multiset:
		c.alignMultiset(x, y, at)
	case Ordered, "":
		reordered = c.alignOrdered(x, y, at)
	}
	slices.SortFunc(c.pairs[lo:], func(p, q pair) int {
		return cmp.Or(cmp.Compare(p.group(), q.group()), cmp.Compare(p.i, q.i), cmp.Compare(p.j, q.j))
	})
	return reordered
}

func transpose(pairs []pair) {
	for k, p := range pairs {
		pairs[k] = pair{p.j, p.i}
	}
}

// group orders matched pairs before missing and extra elements.
func (p pair) group() int {
	switch {
	case p.i < 0:
		return 2
	case p.j < 0:
		return 1
	}
	return 0
}

func (c *comparer) pair(i, j int) { c.pairs = append(c.pairs, pair{int32(i), int32(j)}) }

// keyed64 is the hash of an element's key, or of the whole, with its index.
type keyed64 struct {
	hash  uint64
	index int32
}

func byHash(a, b keyed64) int {
	return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.index, b.index))
}

// hash is a hash of the canonical form, seeded anew for every comparison: nobody
// can prepare collisions.
func (c *comparer) hash(v Value) uint64 {
	c.buf = appendCanonical(c.buf[:0], v)
	return maphash.Bytes(c.seed, c.buf)
}

// hashes hashes elements lo to hi.
func (c *comparer) hashes(v Value, lo, hi int) []keyed64 {
	out := make([]keyed64, 0, hi-lo)
	for i := lo; i < hi; i++ {
		out = append(out, keyed64{c.hash(v.At(i)), int32(i)})
	}
	return out
}

// joinHashes walks two lists sorted by hash side by side: equal hashes for which
// same holds are paired in order, the rest is returned.
func joinHashes(a, b []keyed64, same func(i, j int32) bool, paired func(i, j int32)) (restA, restB []int32) {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch order := cmp.Compare(a[i].hash, b[j].hash); {
		case order == 0 && same(a[i].index, b[j].index):
			paired(a[i].index, b[j].index)
			i++
			j++
		case order <= 0:
			restA = append(restA, a[i].index)
			i++
		default:
			restB = append(restB, b[j].index)
			j++
		}
	}
	for ; i < len(a); i++ {
		restA = append(restA, a[i].index)
	}
	for ; j < len(b); j++ {
		restB = append(restB, b[j].index)
	}
	return restA, restB
}

// try is how alike two candidates are, in [0,1], without recording anything. flip
// says that x is the rehearsed one.
func (c *comparer) try(x, y Value, at here, flip bool) float64 {
	if flip {
		x, y = y, x
	}
	c.scoring++
	next := c.push(at, crumb{index: 0})
	m := c.value(x, y, next)
	c.pop(next)
	c.scoring--
	return m.likeness()
}

// affordable reports whether all pairs of two lists of candidates may still be
// tried, and pays for it.
func (c *comparer) affordable(xs, ys []Value) bool {
	if len(xs) > maxAssign || len(ys) > maxAssign {
		return false
	}
	cost := len(xs)*total(ys) + len(ys)*total(xs)
	if c.work+cost > maxWork {
		return false
	}
	c.work += cost
	return true
}

// total estimates the nodes below values from the length of their texts.
func total(vs []Value) (nodes int) {
	const bytesPerNode = 8
	for _, v := range vs {
		nodes++
		if v.isContainer() {
			nodes += len(v.text()) / bytesPerNode
		}
	}
	return nodes
}
