package stat

import (
	"math"
)

// Ratio is the ratio of two clustered means, such as the consistency ratio real
// success / rehearsed success, over the groups that both have. The interval is
// the delta method on the logarithm with K-1 degrees of freedom (Cochran 1977,
// section 6.3): it stays positive and treats r and 1/r alike. A ratio of 1 can
// hide errors that cancel; show the agreement per task beside it. Undefined when
// the denominator is zero; a numerator of zero leaves the bounds open.
func Ratio(numerator, denominator []Cluster, confidence float64) Estimate {
	const method = "ratio, delta method on log"
	a, b := match(numerator, denominator)
	ma, bad := summarise(method, a, confidence, 0, math.Inf(1))
	if bad != nil {
		return *bad
	}
	mb, bad := summarise(method, b, confidence, 0, math.Inf(1))
	if bad != nil {
		return *bad
	}
	if mb.mean <= 0 || ma.mean < 0 {
		e := undefined(method, "the denominator must be positive and the numerator not negative", confidence, 0, math.Inf(1))
		e.N, e.Clusters = ma.n, ma.k
		return e
	}
	e := Estimate{
		Value: ma.mean / mb.mean, Lo: 0, Hi: math.Inf(1), Confidence: confidence,
		N: ma.n, NEff: float64(ma.k), Clusters: ma.k, Method: method,
	}
	if ma.k < 2 || ma.mean == 0 {
		return e
	}
	variance := 0.
	for i := range a {
		d := ma.influence(a[i])/ma.mean - mb.influence(b[i])/mb.mean
		variance += d * d
	}
	half := tQuantile((1+confidence)/2, float64(ma.k-1)) * math.Sqrt(variance)
	e.Lo, e.Hi = e.Value*math.Exp(-half), e.Value*math.Exp(half)
	return e
}
