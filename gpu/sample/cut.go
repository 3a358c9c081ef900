package sample

import (
	"cmp"
	"math"
	"slices"

	"understudy/gpu"
)

// buckets sort weights coarsely by their exponent and first bits, so that the
// greatest are found without sorting a vocabulary.
type buckets struct {
	counts [bucketCount]int32
	sums   [bucketCount]int64
	border []candidate
}

const (
	bucketShift = 18 // leaves 5 bits of a float32's fraction: steps of 3 %
	bucketCount = 0x3F800000>>bucketShift + 1
)

type candidate struct {
	id     int
	weight float32
}

// bucket of a weight in (0,1]: positive floats are ordered as their bits are.
func bucket(w float32) int { return int(math.Float32bits(w) >> bucketShift) }

// truncate zeroes the weights outside of TopK, TopP and MinP. The greatest weight
// is 1; among equals the lower id stays.
func (sp *Space) truncate(d gpu.Draw) {
	if d.MinP > 0 {
		for i, w := range sp.weights {
			if w < d.MinP {
				sp.weights[i] = 0
			}
		}
	}
	if d.TopK > 0 {
		sp.buckets.cut(sp.weights, d.TopK, math.MaxInt64)
	}
	if d.TopP > 0 {
		sp.buckets.cut(sp.weights, math.MaxInt, int64(share(d.TopP, total(sp.weights)))) //nolint:gosec // a part of an int64
	}
}

func total(weights []float32) int64 {
	sum := int64(0)
	for _, w := range weights {
		sum += whole(w)
	}
	return sum
}

// cut keeps the greatest weights: most of them, or as many as have a sum of
// enough, whichever is fewer; at least one.
func (b *buckets) cut(weights []float32, most int, enough int64) {
	clear(b.counts[:])
	clear(b.sums[:])
	for _, w := range weights {
		if w > 0 {
			b.counts[bucket(w)]++
			b.sums[bucket(w)] += whole(w)
		}
	}
	border := bucketCount - 1
	for ; border > 0; border-- {
		count, sum := int(b.counts[border]), b.sums[border]
		if count >= most || sum >= enough {
			break
		}
		most, enough = most-count, enough-sum
	}
	b.border = b.border[:0]
	for i, w := range weights {
		switch at := bucket(w); {
		case w == 0 || at > border:
		case at == border:
			b.border = append(b.border, candidate{i, w})
			fallthrough
		default:
			weights[i] = 0
		}
	}
	slices.SortFunc(b.border, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(x.id, y.id))
	})
	for _, c := range b.border {
		weights[c.id] = c.weight
		most--
		if enough -= whole(c.weight); most == 0 || enough <= 0 {
			return
		}
	}
}
