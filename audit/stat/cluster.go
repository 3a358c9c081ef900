package stat

import (
	"math"
)

// Cluster is what one prompt group contributes to a mean: the rollouts of one
// prompt share its difficulty, so their answers are not independent. Weights
// are 1, or 1/π for observations that were sampled with probability π.
type Cluster struct {
	Group  string  `json:"group"`
	N      int     `json:"n"`      // observations
	Weight float64 `json:"weight"` // Σ w
	Sum    float64 `json:"sum"`    // Σ w·x
	SumSq  float64 `json:"sum_sq"` // Σ w·x²; equal to Sum when x is 0 or 1
}

// Add counts one observation x of weight w.
func (c *Cluster) Add(x, w float64) {
	c.N++
	c.Weight += w
	c.Sum += w * x
	c.SumSq += w * x * x
}

// Mean is the cluster's weighted mean, NaN when it holds no weight.
func (c Cluster) Mean() float64 {
	if c.Weight == 0 {
		return math.NaN()
	}
	return c.Sum / c.Weight
}

// Clustered is the mean of clustered observations with a cluster-robust t
// interval: t with K-1 degrees of freedom on the CR2 variance (Bell, McCaffrey
// 2002; Miller 2024, arXiv 2411.00640, section 2.2). With fewer than two
// clusters the bounds are open. Clusters without weight are skipped.
func Clustered(clusters []Cluster, confidence float64) Estimate {
	m, bad := summarise("CR2-t", clusters, confidence, math.Inf(-1), math.Inf(1))
	if bad != nil {
		return *bad
	}
	e := m.estimate("CR2-t", confidence)
	e.Lo, e.Hi = math.Inf(-1), math.Inf(1)
	if m.k >= 2 && finite(m.variance) {
		half := tQuantile((1+confidence)/2, float64(m.k-1)) * math.Sqrt(m.variance)
		e.Lo, e.Hi = e.Value-half, e.Value+half
	}
	return e
}

// ClusteredWilson is the Wilson interval on n/deff: the interval for display of
// a clustered proportion (values in [0,1]).
func ClusteredWilson(clusters []Cluster, confidence float64) Estimate {
	return onEffective("Wilson on n/deff", Wilson, clusters, confidence)
}

// ClusteredClopperPearson is the Clopper-Pearson interval on n/deff with the
// t-adjusted effective size: the interval for gates on a clustered proportion
// (Korn, Graubard 1998, Survey Methodology 24:193, eq. 2).
func ClusteredClopperPearson(clusters []Cluster, confidence float64) Estimate {
	return onEffective("Clopper-Pearson on n/deff", ClopperPearson, clusters, confidence)
}

// onEffective applies a proportion interval to the effective number of
// observations. A single cluster whose members disagree bounds nothing.
func onEffective(method string, interval func(x, n, confidence float64) Estimate, clusters []Cluster, confidence float64) Estimate {
	m, bad := summarise(method, clusters, confidence, 0, 1)
	if bad != nil {
		return *bad
	}
	e := m.estimate(method, confidence)
	e.Lo, e.Hi = 0, 1
	if e.Value < 0 || e.Value > 1 {
		return undefined(method, reasonRange, confidence, 0, 1)
	}
	n := e.NEff
	if !m.degenerate() {
		if m.k < 2 {
			return e
		}
		// With few clusters the variance itself is a guess: t instead of z.
		ratio := tQuantile((1+confidence)/2, float64(max(m.n-1, 1))) / tQuantile((1+confidence)/2, float64(m.k-1))
		n *= min(1, ratio*ratio)
	}
	bounds := interval(e.Value*n, n, confidence)
	e.Lo, e.Hi, e.NEff = bounds.Lo, bounds.Hi, n
	return e
}

// PairedDifference is the mean of a minus the mean of b over the groups that
// both have, with a cluster-robust t interval that uses their correlation
// (Miller 2024, section 3.2). N counts the smaller side of each shared group;
// groups on one side only are left out.
func PairedDifference(a, b []Cluster, confidence float64) Estimate {
	const method = "paired CR2-t"
	left, right := match(a, b)
	ma, bad := summarise(method, left, confidence, math.Inf(-1), math.Inf(1))
	if bad != nil {
		return *bad
	}
	mb, bad := summarise(method, right, confidence, math.Inf(-1), math.Inf(1))
	if bad != nil {
		return *bad
	}
	e := Estimate{
		Value: ma.mean - mb.mean, Lo: math.Inf(-1), Hi: math.Inf(1), Confidence: confidence,
		Clusters: ma.k, Method: method,
	}
	variance := 0.0
	for i := range left {
		e.N += min(left[i].N, right[i].N)
		d := ma.influence(left[i]) - mb.influence(right[i])
		variance += d * d
	}
	e.NEff = float64(ma.k)
	if ma.k >= 2 && finite(variance) {
		half := tQuantile((1+confidence)/2, float64(ma.k-1)) * math.Sqrt(variance)
		e.Lo, e.Hi = e.Value-half, e.Value+half
	}
	return e
}

// match returns the clusters of the groups that carry weight on both sides, in a's order.
func match(a, b []Cluster) (left, right []Cluster) {
	byGroup := make(map[string]Cluster, len(b))
	for _, c := range b {
		if c.Weight != 0 {
			byGroup[c.Group] = c
		}
	}
	for _, c := range a {
		if other, ok := byGroup[c.Group]; ok && c.Weight != 0 {
			left, right = append(left, c), append(right, other)
		}
	}
	return left, right
}

// DesignEffect is the factor by which clustering inflates the variance of the
// mean, at least 1 (a smaller figure is chance, and a bound must not profit
// from it). NaN without data or with a single cluster.
func DesignEffect(clusters []Cluster) float64 {
	m, bad := summarise("deff", clusters, .95, 0, 1)
	if bad != nil || (m.k < 2 && !m.degenerate()) {
		return math.NaN()
	}
	return float64(m.n) / m.effective()
}

// moments are the sums behind every clustered estimate.
type moments struct {
	k        int     // clusters with weight
	n        int     // observations
	weight   float64 // Σ W
	weightSq float64 // Σ W²
	mean     float64
	square   float64 // mean of x²
	unit     float64 // weighted variance of one observation
	variance float64 // CR2 variance of the mean; +Inf with one cluster
}

// summarise validates the clusters and computes their moments.
func summarise(method string, clusters []Cluster, confidence, lo, hi float64) (moments, *Estimate) {
	fail := func(reason string) (moments, *Estimate) {
		e := undefined(method, reason, confidence, lo, hi)
		return moments{}, &e
	}
	if !validConfidence(confidence) {
		return fail(reasonConfidence)
	}
	var m moments
	var sum, sumSq float64
	for _, c := range clusters {
		if !finite(c.Weight, c.Sum, c.SumSq) {
			return fail(reasonNonFinite)
		}
		if c.Weight < 0 || c.N < 0 {
			return fail(reasonWeight)
		}
		if c.Weight == 0 {
			continue
		}
		m.k, m.n = m.k+1, m.n+c.N
		m.weight, m.weightSq = m.weight+c.Weight, m.weightSq+c.Weight*c.Weight
		sum, sumSq = sum+c.Sum, sumSq+c.SumSq
	}
	if m.k == 0 {
		return fail(reasonNoData)
	}
	m.mean = sum / m.weight
	m.square = sumSq / m.weight
	m.unit = max(0, m.square-m.mean*m.mean)
	for _, c := range clusters {
		if c.Weight > 0 {
			d := m.influence(c)
			m.variance += d * d
		}
	}
	return m, nil
}

// influence is cluster c's share of the mean's error with the CR2 correction:
// a cluster pulls the mean towards itself, which hides part of its residual.
func (m moments) influence(c Cluster) float64 {
	leverage := c.Weight / m.weight
	if m.k < 2 {
		return math.Inf(1)
	}
	return (c.Sum - m.mean*c.Weight) / m.weight / math.Sqrt(1-leverage)
}

// degenerate reports that every observation has the same value, so that the
// data say nothing about the correlation within a cluster.
func (m moments) degenerate() bool { return m.unit <= 1e-12*m.square }

// effective is the number of independent observations with the same variance
// of the mean. Degenerate data count as the effective number of clusters: the
// most cautious reading, and exact when each cluster holds one observation.
func (m moments) effective() float64 {
	clusters := m.weight * m.weight / m.weightSq
	if m.degenerate() {
		return clusters
	}
	if m.k < 2 {
		return clusters
	}
	return min(float64(m.n), m.unit/m.variance)
}

func (m moments) estimate(method string, confidence float64) Estimate {
	return Estimate{
		Value: m.mean, Confidence: confidence, N: m.n, NEff: m.effective(), Clusters: m.k, Method: method,
	}
}
