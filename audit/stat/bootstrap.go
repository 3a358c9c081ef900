package stat

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Resample configures a cluster bootstrap (Efron 1979; resampling whole
// clusters as in Davison, Hinkley 1997, section 3.8). The zero value means 2000
// replicates, 95 % confidence, seed 0. Equal seeds give equal intervals.
type Resample struct {
	Replicates int     // default 2000
	Confidence float64 // two-sided, default 0.95
	Seed       uint64
}

// withDefaults fills in what is zero.
func (r Resample) withDefaults() Resample {
	if r.Replicates <= 0 {
		r.Replicates = 2000
	}
	if r.Confidence == 0 {
		r.Confidence = .95
	}
	return r
}

// Estimate computes statistic on the clusters 0..clusters-1 themselves and its
// percentile interval over resampled clusters. statistic receives a multiset of
// cluster indices that it must not keep; a NaN (an empty denominator in that
// draw) drops the replicate. n is the number of observations behind it all.
//
// The interval says nothing when every replicate agrees, so the bounds are then
// open; BootstrapMean has an exact answer for that case.
func (r Resample) Estimate(n, clusters int, statistic func(draw []int) float64) Estimate {
	const method = "cluster bootstrap, percentile"
	r = r.withDefaults()
	open := func(reason string) Estimate {
		return undefined(method, reason, r.Confidence, math.Inf(-1), math.Inf(1))
	}
	switch {
	case !validConfidence(r.Confidence):
		return open(reasonConfidence)
	case clusters <= 0 || n <= 0:
		return open(reasonNoData)
	}
	draw := make([]int, clusters)
	for i := range draw {
		draw[i] = i
	}
	e := open("")
	e.N, e.NEff, e.Clusters = n, float64(clusters), clusters
	if e.Value = statistic(draw); !finite(e.Value) {
		e.Value, e.Reason = math.NaN(), "the statistic does not exist on these data"
		return e
	}
	values := r.replicates(draw, statistic)
	if len(values) > 0 && values[0] < values[len(values)-1] {
		tail := (1 - r.Confidence) / 2
		e.Lo, e.Hi = quantile(values, tail), quantile(values, 1-tail)
	}
	return e
}

// replicates returns the statistic's finite values over resampled clusters, sorted.
func (r Resample) replicates(draw []int, statistic func([]int) float64) []float64 {
	random := rand.New(rand.NewPCG(r.Seed, 0x6c75737465727321))
	values := make([]float64, 0, r.Replicates)
	for range r.Replicates {
		for i := range draw {
			draw[i] = random.IntN(len(draw))
		}
		if v := statistic(draw); finite(v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return values
}

// BootstrapMean is the clustered mean with a percentile cluster-bootstrap
// interval, for F1-like values whose distribution is far from binomial. When
// all clusters agree, resampling is blind, and the interval is Clopper-Pearson
// on the effective number of clusters (for values in [0,1]).
func BootstrapMean(clusters []Cluster, r Resample) Estimate {
	r = r.withDefaults()
	m, bad := summarise("cluster bootstrap, percentile", clusters, r.Confidence, math.Inf(-1), math.Inf(1))
	if bad != nil {
		return *bad
	}
	if m.degenerate() || m.k < 2 {
		return ClusteredClopperPearson(clusters, r.Confidence)
	}
	weighty := slices.DeleteFunc(slices.Clone(clusters), func(c Cluster) bool { return c.Weight == 0 })
	e := r.Estimate(m.n, len(weighty), func(draw []int) float64 {
		var sum, weight float64
		for _, i := range draw {
			sum, weight = sum+weighty[i].Sum, weight+weighty[i].Weight
		}
		return sum / weight
	})
	e.NEff = m.effective()
	return e
}

// quantile interpolates linearly between order statistics of sorted values
// (Hyndman, Fan 1996, type 7).
func quantile(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
