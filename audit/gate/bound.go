package gate

import (
	"math"

	"understudy/audit/stat"
)

// maxNeeds is where "so many more calls" stops being advice.
const maxNeeds = 1_000_000

// test is the evidence of one check about one mean: how sure it is that the mean
// lies on a side of the limit, and where the bounds are.
type test interface {
	// p is the p-value of the null hypothesis against "the mean is on that side of the limit".
	p(side stat.Side) float64
	// bound is the one-sided bound at error rate alpha that shows the mean to be on that side of it.
	bound(alpha float64, side stat.Side) float64
	// more is how many times as much evidence of the same kind shows the side at
	// alpha; +Inf when none does.
	more(alpha float64, side stat.Side) float64
	// estimate has the value; its bounds say nothing yet.
	estimate() stat.Estimate
}

// bettingTest bets on one value in [0,1] per prompt group: valid at any look.
// scale and shift map the values to the figure: differences live in [-1,1].
type bettingTest struct {
	values       []float64
	limit        float64 // of the values, in [0,1]
	scale, shift float64
	n            int // calls
	above, below *stat.Wealth
}

// onMeans tests the mean of group means against a limit.
func onMeans(clusters []stat.Cluster, limit float64) *bettingTest {
	t := &bettingTest{limit: limit, scale: 1}
	for _, c := range clusters {
		if c.Weight > 0 {
			t.values, t.n = append(t.values, min(1, c.Mean())), t.n+c.N
		}
	}
	return t.bet()
}

// onDifferences tests the mean difference of the groups that both sides have.
func onDifferences(run, baseline []stat.Cluster, limit float64) *bettingTest {
	t := &bettingTest{limit: (limit + 1) / 2, scale: 2, shift: -1}
	before := make(map[string]stat.Cluster, len(baseline))
	for _, c := range baseline {
		before[c.Group] = c
	}
	for _, c := range run {
		if b := before[c.Group]; c.Weight > 0 && b.Weight > 0 {
			t.values = append(t.values, min(1, max(0, (c.Mean()-b.Mean()+1)/2)))
			t.n += min(c.N, b.N)
		}
	}
	return t.bet()
}

func (t *bettingTest) bet() *bettingTest {
	t.above, t.below = stat.Bet(t.values, t.limit, stat.Above), stat.Bet(t.values, t.limit, stat.Below)
	return t
}

func (t *bettingTest) wealth(side stat.Side) *stat.Wealth {
	if side == stat.Above {
		return t.above
	}
	return t.below
}

func (t *bettingTest) p(side stat.Side) float64 { return t.wealth(side).P() }

func (t *bettingTest) bound(alpha float64, side stat.Side) float64 {
	if side == stat.Above {
		return t.scale*stat.BettingBound(t.values, alpha, stat.Below) + t.shift
	}
	return t.scale*stat.BettingBound(t.values, alpha, stat.Above) + t.shift
}

func (t *bettingTest) more(alpha float64, side stat.Side) float64 {
	w, need := t.wealth(side), -math.Log(alpha)
	return smallest(func(r float64) bool { return w.LogE(r) >= need })
}

func (t *bettingTest) estimate() stat.Estimate {
	e := stat.Estimate{
		Lo: t.shift, Hi: t.scale + t.shift, N: t.n, NEff: float64(len(t.values)), Clusters: len(t.values),
		Method: "betting on group means, any look", Reason: t.above.Reason,
	}
	if e.Reason != "" {
		e.Value = math.NaN()
		return e
	}
	mean := 0.
	for _, x := range t.values {
		mean += x / float64(len(t.values))
	}
	e.Value = t.scale*mean + t.shift
	return e
}

// fixedTest is a clustered interval at one fixed sample size.
type fixedTest struct {
	limit    float64
	interval func(confidence float64) stat.Estimate
	// scaled is an interval with r times the evidence.
	scaled func(e stat.Estimate, r float64) stat.Estimate
}

// onProportion is Clopper-Pearson on n/deff.
func onProportion(clusters []stat.Cluster, limit float64) fixedTest {
	interval := func(confidence float64) stat.Estimate { return stat.ClusteredClopperPearson(clusters, confidence) }
	return fixedTest{limit, interval, func(e stat.Estimate, r float64) stat.Estimate {
		return stat.ClopperPearson(e.Value*e.NEff*r, e.NEff*r, e.Confidence)
	}}
}

// onPairs is the paired difference with a cluster-robust t.
func onPairs(run, baseline []stat.Cluster, limit float64) fixedTest {
	interval := func(confidence float64) stat.Estimate { return stat.PairedDifference(run, baseline, confidence) }
	return fixedTest{limit, interval, func(e stat.Estimate, r float64) stat.Estimate {
		half := (e.Hi - e.Lo) / 2 / math.Sqrt(r)
		e.Lo, e.Hi = e.Value-half, e.Value+half
		return e
	}}
}

// clears reports whether an interval lies on that side of the limit.
func (t fixedTest) clears(e stat.Estimate, side stat.Side) bool {
	if !e.Defined() {
		return false
	}
	if side == stat.Above {
		return e.Lo >= t.limit
	}
	return e.Hi <= t.limit
}

// p inverts the interval: the smallest error rate at which the bound clears the limit.
func (t fixedTest) p(side stat.Side) float64 {
	at := func(alpha float64) bool { return t.clears(t.interval(stat.OneSided(1-alpha)), side) }
	if !at(.499) {
		return 1
	}
	low, high := math.Log(1e-9), math.Log(.499) // beyond one in a billion nothing is decided differently
	for range 24 {
		if mid := (low + high) / 2; at(math.Exp(mid)) {
			high = mid
		} else {
			low = mid
		}
	}
	return math.Exp(high)
}

func (t fixedTest) bound(alpha float64, side stat.Side) float64 {
	e := t.interval(stat.OneSided(1 - alpha))
	if side == stat.Above {
		return e.Lo
	}
	return e.Hi
}

func (t fixedTest) more(alpha float64, side stat.Side) float64 {
	e := t.interval(stat.OneSided(1 - alpha))
	return smallest(func(r float64) bool { return t.clears(t.scaled(e, r), side) })
}

func (t fixedTest) estimate() stat.Estimate { return t.interval(.5) }

// smallest finds the least r >= 1 that is enough, within 0.1 %, or +Inf.
func smallest(enough func(r float64) bool) float64 {
	if enough(1) {
		return 1
	}
	low, high := 1., 2.
	for !enough(high) {
		if low, high = high, 2*high; high > maxNeeds {
			return math.Inf(1)
		}
	}
	for high-low > 1e-3*low {
		if mid := (low + high) / 2; enough(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}
