package stat

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Lifetime is how long one episode lasted: until its first material error, or
// until it ended without one (censored).
type Lifetime struct {
	Time  float64 // steps, > 0
	Event bool    // false = censored
	Group string  // prompt group, whose episodes are not independent; "" = one by itself
}

// SurvivalPoint is the state of a survival curve right after one event time.
type SurvivalPoint struct {
	Time     float64
	AtRisk   int
	Events   int
	Survival Estimate
}

// Survival is a Kaplan-Meier curve.
type Survival struct {
	Points   []SurvivalPoint // ascending event times
	N        int
	Clusters int // groups; 0 = no lifetime has one

	conf   float64
	groups []Cluster   // how many lifetimes each has, as the means of nothing but 1
	pulls  [][]float64 // by group and point: what the group adds to the error of -log S there
}

// KaplanMeier estimates the survival function (Kaplan, Meier 1958) with bounds on the
// log(-log S) scale (Kalbfleisch, Prentice 1980), so that they stay in [0,1].
// Lifetimes that are not finite and positive are left out and lower N; an event and
// a censoring at the same time count the event first.
//
// Independent lifetimes have Greenwood's variance. Those of groups have the grouped
// infinitesimal jackknife's (Therneau, Grambsch 2000, section 7.2; R's survfit with a
// cluster), which is Greenwood's where each group has one: the squares of each group's
// sum of influences, with K/(K-1) and t of K-1 degrees of freedom for K groups. It is
// at least Greenwood's, since a smaller one is chance and a bound must not profit from it.
func KaplanMeier(lifetimes []Lifetime, confidence float64) Survival {
	kept := slices.DeleteFunc(slices.Clone(lifetimes), func(l Lifetime) bool { return !finite(l.Time) || l.Time <= 0 })
	slices.SortStableFunc(kept, func(a, b Lifetime) int { return cmp.Compare(a.Time, b.Time) })
	s := Survival{N: len(kept), conf: confidence}
	group := make([]int, len(kept)) // of each lifetime
	groups, named := grouping(kept, group)
	s.groups, s.pulls = groups, make([][]float64, len(groups))
	if named {
		s.Clusters = len(s.groups)
	}
	left := make([]int, len(s.groups)) // of each group at risk
	for i := range s.groups {
		left[i] = s.groups[i].N
	}
	survival, greenwood := 1., 0.
	for i := 0; i < len(kept); {
		j, events, died := i, 0, make([]int, len(s.groups))
		for ; j < len(kept) && kept[j].Time == kept[i].Time; j++ {
			if kept[j].Event {
				events++
				died[group[j]]++
			}
		}
		if atRisk := len(kept) - i; events > 0 {
			n, d := float64(atRisk), float64(events)
			survival *= 1 - d/n
			greenwood += d / (n * (n - d)) // +Inf when nobody is left, handled by bounds
			for g := range s.groups {
				pull := 0.
				if n > d {
					pull = (float64(died[g]) - d/n*float64(left[g])) / (n - d)
				}
				s.pulls[g] = append(s.pulls[g], pull)
			}
			s.Points = append(s.Points, SurvivalPoint{kept[i].Time, atRisk, events, s.bounds(survival, greenwood)})
		}
		for ; i < j; i++ {
			left[group[i]]--
		}
	}
	return s
}

// grouping counts the lifetimes of each group, and writes the number of each one's group
// into of; named says whether any has one.
func grouping(kept []Lifetime, of []int) (groups []Cluster, named bool) {
	index := map[string]int{}
	for i, l := range kept {
		at, known := index[l.Group]
		if !known || l.Group == "" {
			at = len(groups)
			index[l.Group] = at
			groups = append(groups, Cluster{Group: l.Group})
		}
		groups[at].Add(1, 1)
		of[i], named = at, named || l.Group != ""
	}
	return groups, named
}

// spread is the standard error of a figure, and the quantile of its distribution: from
// its variance if lifetimes are independent, or from what each group adds to its
// error. With one group nothing is known.
func (s Survival) spread(independent float64, pull func(pulls []float64) float64) (deviation, quantile, effective float64) {
	n := float64(s.N)
	if s.Clusters == 0 {
		return math.Sqrt(independent), distuv.UnitNormal.Quantile((1 + s.conf) / 2), n
	}
	k := float64(s.Clusters)
	if s.Clusters < 2 {
		return math.Inf(1), 1, 1
	}
	variance := 0.
	for _, pulls := range s.pulls {
		p := pull(pulls)
		variance += p * p
	}
	variance = max(variance*k/(k-1), independent)
	if variance > 0 {
		n *= independent / variance
	}
	return math.Sqrt(variance), tQuantile((1+s.conf)/2, k-1), n
}

// bounds is the log(-log) interval around a survival probability, after the last point.
func (s Survival) bounds(survival, greenwood float64) Estimate {
	method := s.method("Kaplan-Meier, log-log")
	if !validConfidence(s.conf) {
		return undefined(method, reasonConfidence, s.conf, 0, 1)
	}
	e := Estimate{Value: survival, Lo: 0, Hi: 1, Confidence: s.conf, N: s.N, NEff: float64(s.N), Clusters: s.Clusters, Method: method}
	if survival <= 0 || survival >= 1 {
		return e
	}
	deviation, quantile, effective := s.spread(greenwood, sum)
	logS := math.Log(survival)
	half := quantile * deviation / -logS
	e.Lo, e.Hi, e.NEff = math.Exp(logS*math.Exp(half)), math.Exp(logS*math.Exp(-half)), effective
	return e
}

func (s Survival) method(name string) string {
	if s.Clusters > 0 {
		return name + ", clustered"
	}
	return name
}

func sum(xs []float64) (total float64) {
	for _, x := range xs {
		total += x
	}
	return total
}

// At is the survival just after time t. Before the first event it is 1 with the
// Clopper-Pearson bound of no event in the effective number of groups, or in N;
// without data it is not defined.
func (s Survival) At(t float64) Estimate {
	if s.N == 0 || math.IsNaN(t) {
		return undefined(s.method("Kaplan-Meier, log-log"), reasonNoData, s.conf, 0, 1)
	}
	for _, p := range slices.Backward(s.Points) {
		if p.Time <= t {
			return p.Survival
		}
	}
	e := ClopperPearson(float64(s.N), float64(s.N), s.conf)
	if s.Clusters > 0 {
		e = ClusteredClopperPearson(s.groups, s.conf)
	}
	e.Method = "Kaplan-Meier before the first event, " + e.Method
	return e
}

// RMST is the restricted mean survival time: the expected number of steps until
// the first event, counted up to tau (Irwin 1949; Klein, Moeschberger 2003,
// section 4.5), with a normal interval clipped to [0,tau], or that of t for groups.
func (s Survival) RMST(tau float64) Estimate {
	method := s.method("restricted mean survival time")
	switch {
	case !finite(tau) || tau <= 0:
		return undefined(method, "tau must be finite and positive", s.conf, 0, math.Inf(1))
	case !validConfidence(s.conf):
		return undefined(method, reasonConfidence, s.conf, 0, tau)
	case s.N == 0:
		return undefined(method, reasonNoData, s.conf, 0, tau)
	}
	area, variance, end := 0., 0., tau
	areas := make([]float64, len(s.Points)) // under the curve from each point on
	for i, p := range slices.Backward(s.Points) {
		if p.Time > tau {
			continue
		}
		area += p.Survival.Value * (end - p.Time)
		end = p.Time
		areas[i] = area
		n, d := float64(p.AtRisk), float64(p.Events)
		if n > d {
			variance += area * area * d / (n * (n - d))
		}
	}
	area += end
	deviation, quantile, effective := s.spread(variance, func(pulls []float64) (total float64) {
		for i, pull := range pulls {
			total += pull * areas[i]
		}
		return total
	})
	half := quantile * deviation
	return Estimate{
		Value: area, Lo: max(0, area-half), Hi: min(tau, area+half), Confidence: s.conf,
		N: s.N, NEff: effective, Clusters: s.Clusters, Method: method,
	}
}
