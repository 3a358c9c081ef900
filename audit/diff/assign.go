package diff

import (
	"hash/maphash"
	"math"
	"slices"
)

// maxAssign is the number of elements on a side up to which the best assignment
// is searched (design.md 4).
const maxAssign = 64

// assign pairs n rows with m columns so that the sum of like, an n×m matrix, is
// greatest; the shorter side is paired completely. Kuhn and Munkres' algorithm
// with potentials, O(n²m).
func assign(like []float64, n, m int) []pair {
	if n > m {
		transposed := make([]float64, 0, n*m)
		for j := range m {
			for i := range n {
				transposed = append(transposed, like[i*m+j])
			}
		}
		pairs := assign(transposed, m, n)
		for k, p := range pairs {
			pairs[k] = pair{p.j, p.i}
		}
		return pairs
	}
	u, v := make([]float64, n+1), make([]float64, m+1)
	row := make([]int, m+1) // row[j] is the row paired with column j, from 1; 0 = none
	way := make([]int, m+1)
	slack := make([]float64, m+1)
	seen := make([]bool, m+1)
	for i := 1; i <= n; i++ {
		row[0] = i
		for j := range slack {
			slack[j], seen[j] = math.Inf(1), false
		}
		j0 := 0
		for row[j0] != 0 {
			seen[j0] = true
			i0, delta, j1 := row[j0], math.Inf(1), 0
			for j := 1; j <= m; j++ {
				if seen[j] {
					continue
				}
				if cost := -like[(i0-1)*m+j-1] - u[i0] - v[j]; cost < slack[j] {
					slack[j], way[j] = cost, j0
				}
				if slack[j] < delta {
					delta, j1 = slack[j], j
				}
			}
			for j := range seen {
				if seen[j] {
					u[row[j]] += delta
					v[j] -= delta
				} else {
					slack[j] -= delta
				}
			}
			j0 = j1
		}
		for j0 != 0 {
			row[j0] = row[way[j0]]
			j0 = way[j0]
		}
	}
	pairs := make([]pair, 0, n)
	for j := 1; j <= m; j++ {
		if row[j] != 0 {
			pairs = append(pairs, pair{int32(row[j] - 1), int32(j - 1)})
		}
	}
	return pairs
}

// maxPostings bounds how many elements one leaf can point at: a leaf that many
// elements share says little.
const maxPostings = 16

// greedy pairs long lists in near-linear time: every rehearsed element takes the
// free real one with which it shares most leaves, rare ones only; what is left
// is paired by rank, which for numbers under a tolerance is the best there is.
func (c *comparer) greedy(xs, ys []candidate) []pair {
	var postings []keyed64
	var leaves []uint64
	for i, x := range xs {
		leaves = c.leaves(leaves[:0], x.v, 0)
		for _, leaf := range leaves {
			postings = append(postings, keyed64{leaf, int32(i)})
		}
	}
	slices.SortFunc(postings, byHash)
	usedX, usedY := make([]bool, len(xs)), make([]bool, len(ys))
	votes := map[int32]int{}
	var taken []pair
	for j, y := range ys {
		clear(votes)
		leaves = c.leaves(leaves[:0], y.v, 0)
		for _, leaf := range leaves {
			vote(votes, postings, leaf, usedX)
		}
		best, most := int32(-1), 0
		for i, n := range votes {
			if n > most || n == most && i < best {
				best, most = i, n
			}
		}
		if best >= 0 {
			usedX[best], usedY[j] = true, true
			taken = append(taken, pair{best, int32(j)})
		}
	}
	return append(taken, byRank(usedX, usedY)...)
}

// vote counts the free elements that hold a leaf, if it is rare.
func vote(votes map[int32]int, postings []keyed64, leaf uint64, used []bool) {
	from, _ := slices.BinarySearchFunc(postings, keyed64{leaf, 0}, byHash)
	to := from
	for to < len(postings) && postings[to].hash == leaf {
		if to++; to-from > maxPostings {
			return
		}
	}
	for _, p := range postings[from:to] {
		if !used[p.index] {
			votes[p.index]++
		}
	}
}

// byRank pairs the free elements of both lists in order.
func byRank(usedX, usedY []bool) (pairs []pair) {
	j := 0
	for i, used := range usedX {
		if used {
			continue
		}
		for j < len(usedY) && usedY[j] {
			j++
		}
		if j == len(usedY) {
			break
		}
		pairs = append(pairs, pair{int32(i), int32(j)})
		j++
	}
	return pairs
}

// leaves appends a hash of every leaf of v with its path inside it.
func (c *comparer) leaves(dst []uint64, v Value, path uint64) []uint64 {
	if v.isLeaf() {
		return append(dst, mix(path, c.hash(v)))
	}
	for i := range v.Len() {
		kid := v.At(i)
		step := path + 1
		if v.Type() == TypeObject {
			step = mix(path, maphash.Bytes(c.seed, kid.name()))
		}
		dst = c.leaves(dst, kid, step)
	}
	return dst
}
