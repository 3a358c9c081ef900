package diff

import "math"

// Flags of a Comparison.
const (
	FlagDuplicateKey = "duplicate_key" // a member name, or the key of a keyed array, is repeated
	FlagApproximate  = "approximate"   // an array too large for the best assignment was matched greedily
)

// Comparison is the judgement of one rehearsed value against the real one. Its
// scores are in [0,1]. Differences come in a fixed order: members by name, and of
// an array first the matched pairs, then what is missing, then what is extra.
type Comparison struct {
	Differences []Difference `json:"differences"`

	// Leaf scores are weighted by class; an array of n elements weighs
	// 1+log2(1+n) whatever its elements hold. F1 is the harmonic mean of
	// precision and recall, taken level by level: an element of an array counts
	// with its own F1. One more wrong leaf never raises it.
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`

	// Shape compares the sets of typed path patterns: Jaccard index, the share of
	// rehearsed patterns that are not real, and of real ones not rehearsed.
	Shape        float64 `json:"shape"`
	Hallucinated float64 `json:"hallucinated"`
	Omitted      float64 `json:"omitted"`

	IDs           int      `json:"ids"`             // references judged by the rule id
	ConsistentIDs int      `json:"consistent_ids"`  // of these, consistent with the bijection
	MaskedWeight  float64  `json:"masked_weight"`   // share of the real leaf weight that masks hide
	Flags         []string `json:"flags,omitempty"` // FlagDuplicateKey, FlagApproximate; sorted
}

// Exact reports whether nothing differs, not even cosmetically.
func (c *Comparison) Exact() bool { return len(c.Differences) == 0 }

// Equal reports whether nothing differs but cosmetically.
func (c *Comparison) Equal() bool {
	for i := range c.Differences {
		if !c.Differences[i].Cosmetic {
			return false
		}
	}
	return true
}

// mass is the weight of a pair of values: what each side holds, what of it is
// matched, and the credit for it. Pure sums give precision and recall; credit,
// in which elements count with their own F1, gives the score that never rises.
type mass struct {
	real, rehearsed     float64
	hitReal, hitReh     float64
	creditReal, credReh float64
	near                float64 // weight of leaves that both sides have, with other values
	masked              float64
}

func (m *mass) add(n mass) {
	m.real += n.real
	m.rehearsed += n.rehearsed
	m.hitReal += n.hitReal
	m.hitReh += n.hitReh
	m.creditReal += n.creditReal
	m.credReh += n.credReh
	m.near += n.near
	m.masked += n.masked
}

// both is the mass of a leaf that both sides have.
func both(weight float64, matched bool) mass {
	if matched {
		return mass{
			real: weight, rehearsed: weight,
			hitReal: weight, hitReh: weight, creditReal: weight, credReh: weight,
		}
	}
	return mass{real: weight, rehearsed: weight, near: weight}
}

// share is part/whole; all of nothing is 1.
func share(part, whole float64) float64 {
	if whole <= 0 {
		return 1
	}
	return min(1, part/whole)
}

func harmonic(p, r float64) float64 {
	if p+r <= 0 {
		return 0
	}
	return 2 * p * r / (p + r)
}

// f1 is the credit of a pair in [0,1].
func (m *mass) f1() float64 {
	return harmonic(share(m.credReh, m.rehearsed), share(m.creditReal, m.real))
}

// likeness orders candidates for an assignment: by f1, and among equals by the
// leaves that are at least there. The second part is too small to outweigh a leaf.
func (m *mass) likeness() float64 {
	const tie = 1e-9
	return m.f1() + tie*(0.5+share(m.near, m.real+m.rehearsed))
}

// arrayWeight is the weight of an array with n elements that weigh anything, so
// that one long list cannot drown the rest (design.md 4).
func arrayWeight(n int) float64 { return 1 + math.Log2(1+float64(n)) }

// elementWeight is each element's share of it.
func elementWeight(n int) float64 {
	if n == 0 {
		return 0
	}
	return arrayWeight(n) / float64(n)
}
