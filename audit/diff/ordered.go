package diff

import "slices"

// alignOrdered finds the edit script of two arrays: common ends, then the best
// alignment of the middle.
func (c *comparer) alignOrdered(x, y Value, at here) (reordered bool) {
	prefix, suffix := commonEnds(x, y, Equal)
	for i := range prefix {
		c.pair(i, i)
	}
	for k := range suffix {
		c.pair(x.Len()-1-k, y.Len()-1-k)
	}
	g := gap{prefix, x.Len() - suffix, prefix, y.Len() - suffix}
	n, m := g.i1-g.i0, g.j1-g.j0
	switch {
	case n == 0 || m == 0 || n == 1 && m == 1:
		c.positional(g)
		return false
	case n == m && c.permuted(x, y, g):
		return true
	}
	// Among equally good alignments the choice must not depend on which side is
	// the real one, so that the number of differences is symmetric: the side that
	// comes first in canonical order takes the part of x.
	lo, flip := len(c.pairs), order(x, y) > 0
	if flip {
		x, y, g = y, x, gap{g.j0, g.j1, g.i0, g.i1}
	}
	c.alignMiddle(x, y, g, at, flip)
	if flip {
		transpose(c.pairs[lo:])
	}
	return false
}

// alignMiddle aligns a gap as a whole where that can be done well, else between
// anchors.
func (c *comparer) alignMiddle(x, y Value, g gap, at here, flip bool) {
	if g.i1-g.i0 <= maxAssign && g.j1-g.j0 <= maxAssign {
		c.alignGap(x, y, g, at, flip)
		return
	}
	hx, hy := c.hashes(x, g.i0, g.i1), c.hashes(y, g.j0, g.j1)
	next := g
	for _, anchor := range anchors(hx, hy) {
		i, j := int(anchor.i)+g.i0, int(anchor.j)+g.j0
		c.alignGap(x, y, gap{next.i0, i, next.j0, j}, at, flip)
		c.pair(i, j)
		next.i0, next.j0 = i+1, j+1
	}
	c.alignGap(x, y, next, at, flip)
}

// gap is a range of either array between two equal elements.
type gap struct{ i0, i1, j0, j1 int }

// positional pairs by position; the surplus is missing or extra.
func (c *comparer) positional(g gap) {
	i, j := g.i0, g.j0
	for ; i < g.i1 && j < g.j1; i, j = i+1, j+1 {
		c.pair(i, j)
	}
	for ; i < g.i1; i++ {
		c.pair(i, -1)
	}
	for ; j < g.j1; j++ {
		c.pair(-1, j)
	}
}

// permuted reports whether both ranges hold the same elements in another order,
// and pairs them if so.
func (c *comparer) permuted(x, y Value, g gap) bool {
	hx, hy := c.hashes(x, g.i0, g.i1), c.hashes(y, g.j0, g.j1)
	slices.SortFunc(hx, byHash)
	slices.SortFunc(hy, byHash)
	for k := range hx {
		if hx[k].hash != hy[k].hash {
			return false
		}
	}
	lo := len(c.pairs)
	same := func(i, j int32) bool { return Equal(x.At(int(i)), y.At(int(j))) }
	rest, _ := joinHashes(hx, hy, same, func(i, j int32) { c.pair(int(i), int(j)) })
	if len(rest) > 0 {
		c.pairs = c.pairs[:lo]
	}
	return len(rest) == 0
}

// alignGap aligns a gap so that the sum of likenesses is greatest: the usual
// dynamic programme. A gap too large or too dear is paired by position.
func (c *comparer) alignGap(x, y Value, g gap, at here, flip bool) {
	n, m := g.i1-g.i0, g.j1-g.j0
	if n == 0 || m == 0 || n == 1 && m == 1 {
		c.positional(g)
		return
	}
	if n > maxAssign || m > maxAssign || !c.affordable(slice(x, g.i0, g.i1), slice(y, g.j0, g.j1)) {
		c.flag(FlagApproximate)
		c.positional(g)
		return
	}
	// best[i][j] is for the suffixes that begin at i and j.
	width := m + 1
	best := make([]float64, (n+1)*width)
	like := make([]float64, n*m)
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			like[i*m+j] = c.try(x.At(g.i0+i), y.At(g.j0+j), at, flip)
			best[i*width+j] = max(best[(i+1)*width+j], best[i*width+j+1], like[i*m+j]+best[(i+1)*width+j+1])
		}
	}
	i, j := 0, 0
	for i < n && j < m {
		switch best[i*width+j] {
		case like[i*m+j] + best[(i+1)*width+j+1]:
			c.pair(g.i0+i, g.j0+j)
			i++
			j++
		case best[(i+1)*width+j]:
			c.pair(g.i0+i, -1)
			i++
		default:
			c.pair(-1, g.j0+j)
			j++
		}
	}
	c.positional(gap{g.i0 + i, g.i1, g.j0 + j, g.j0 + j})
	c.positional(gap{g.i1, g.i1, g.j0 + j, g.j1})
}

// slice lists elements lo to hi.
func slice(v Value, lo, hi int) []Value {
	out := make([]Value, 0, hi-lo)
	for i := lo; i < hi; i++ {
		out = append(out, v.At(i))
	}
	return out
}

// maxEdits bounds Myers' search, whose time and memory grow with it.
const maxEdits = 256

// anchors finds equal elements that keep their order in both lists: all that a
// shortest edit script keeps when that has at most maxEdits edits, otherwise a
// longest run of elements that occur once on either side. Indices are relative.
func anchors(hx, hy []keyed64) []pair {
	if script, ok := myers(hx, hy); ok {
		return script
	}
	return patience(hx, hy)
}

// myers is the greedy O(ND) algorithm (Myers 1986) with the furthest points of
// every round kept for the way back.
func myers(a, b []keyed64) (kept []pair, ok bool) {
	n, m := len(a), len(b)
	var rounds [][]int32
	furthest := make([]int32, 2*maxEdits+3)
	const origin = maxEdits + 1
	for d := 0; d <= min(maxEdits, n+m); d++ {
		rounds = append(rounds, slices.Clone(furthest[origin-d-1:origin+d+2]))
		for k := -d; k <= d; k += 2 {
			i := int(furthest[origin+k-1]) + 1
			if k == -d || k != d && furthest[origin+k-1] < furthest[origin+k+1] {
				i = int(furthest[origin+k+1])
			}
			if d == 0 {
				i = 0
			}
			for i < n && i-k < m && i-k >= 0 && a[i].hash == b[i-k].hash {
				i++
			}
			furthest[origin+k] = int32(i)
			if i >= n && i-k >= m {
				return backtrack(rounds, n, m), true
			}
		}
	}
	return nil, false
}

// backtrack walks from the end to the beginning and collects the diagonal steps.
func backtrack(rounds [][]int32, n, m int) (kept []pair) {
	i, j := n, m
	for d, round := range slices.Backward(rounds) {
		at := func(k int) int { return int(round[k+d+1]) }
		k := i - j
		from, previous := 0, 0
		switch {
		case d == 0:
		case k == -d || k != d && at(k-1) < at(k+1):
			previous = k + 1
			from = at(previous)
		default:
			previous = k - 1
			from = at(previous) + 1
		}
		for i > from && j > 0 {
			i--
			j--
			kept = append(kept, pair{int32(i), int32(j)})
		}
		if d > 0 {
			i, j = at(previous), at(previous)-previous
		}
	}
	slices.Reverse(kept)
	return kept
}

// patience pairs elements that occur exactly once on either side and keeps a
// longest run in order.
func patience(hx, hy []keyed64) []pair {
	unique := func(hs []keyed64) []keyed64 {
		sorted := make([]keyed64, len(hs))
		for i, h := range hs {
			sorted[i] = keyed64{h.hash, int32(i)}
		}
		slices.SortFunc(sorted, byHash)
		var out []keyed64
		for i, h := range sorted {
			if (i == 0 || sorted[i-1].hash != h.hash) && (i+1 == len(sorted) || sorted[i+1].hash != h.hash) {
				out = append(out, h)
			}
		}
		return out
	}
	var common []pair
	joinHashes(unique(hx), unique(hy), func(int32, int32) bool { return true },
		func(i, j int32) { common = append(common, pair{i, j}) })
	slices.SortFunc(common, func(p, q pair) int { return int(p.i - q.i) })
	return rising(common)
}

// rising is a longest subsequence of pairs, sorted by i, that also rises in j.
func rising(pairs []pair) []pair {
	var piles []int32 // index of the top pair of every pile
	before := make([]int32, len(pairs))
	for at, p := range pairs {
		pile, _ := slices.BinarySearchFunc(piles, p.j, func(top, j int32) int { return int(pairs[top].j - j) })
		before[at] = -1
		if pile > 0 {
			before[at] = piles[pile-1]
		}
		if pile == len(piles) {
			piles = append(piles, int32(at))
		} else {
			piles[pile] = int32(at)
		}
	}
	out := make([]pair, len(piles))
	if len(piles) == 0 {
		return out
	}
	at := piles[len(piles)-1]
	for k := len(piles) - 1; k >= 0; k-- {
		out[k] = pairs[at]
		at = before[at]
	}
	return out
}
