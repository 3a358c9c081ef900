package stat

import (
	"math"
	"slices"
)

// Sampled is a value that was audited with a logged inclusion probability.
type Sampled struct {
	Value     float64
	Inclusion float64 // π in (0,1], logged before the audit was executed, never estimated
	Group     string  // prompt group
}

// Inclusion bounds the weights 1/π: π below Floor counts as Floor, weights
// above Cap count as Cap. Both trade a little bias for a bounded variance; zero
// means the defaults 0.02 and 10.
type Inclusion struct {
	Floor float64
	Cap   float64
}

// weight is min(1/max(π, Floor), Cap).
func (i Inclusion) weight(pi float64) float64 {
	floor, limit := i.Floor, i.Cap
	if floor == 0 {
		floor = .02
	}
	if limit == 0 {
		limit = 10
	}
	return min(1/max(pi, floor), limit)
}

// Hajek is the self-weighted mean Σ(x/π) / Σ(1/π) with a cluster-robust t
// interval (Hájek 1971; Särndal, Swensson, Wretman 1992, section 5.7). A π
// outside (0,1] makes the whole estimate undefined: a sample whose odds nobody
// logged cannot be weighted.
func Hajek(samples []Sampled, inclusion Inclusion, confidence float64) Estimate {
	const method = "Hájek, CR2-t"
	byGroup := make(map[string]*Cluster)
	var groups []string
	for _, s := range samples {
		if !finite(s.Value, s.Inclusion) {
			return undefined(method, reasonNonFinite, confidence, math.Inf(-1), math.Inf(1))
		}
		if s.Inclusion <= 0 || s.Inclusion > 1 {
			return undefined(method, "inclusion probabilities must lie in (0,1]", confidence, math.Inf(-1), math.Inf(1))
		}
		c, ok := byGroup[s.Group]
		if !ok {
			c = &Cluster{Group: s.Group}
			byGroup[s.Group] = c
			groups = append(groups, s.Group)
		}
		c.Add(s.Value, inclusion.weight(s.Inclusion))
	}
	slices.Sort(groups) // one order of summation, whatever the order of arrival
	clusters := make([]Cluster, len(groups))
	for i, g := range groups {
		clusters[i] = *byGroup[g]
	}
	e := Clustered(clusters, confidence)
	e.Method = method
	return e
}
