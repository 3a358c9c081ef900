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

	conf      float64
	lifetimes []Lifetime // ascending times
	group     []int      // number of each one's group; nil = no lifetime has one
	sizes     []Cluster  // of the groups, as the means of nothing but 1
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
	s := Survival{N: len(kept), conf: confidence, lifetimes: kept}
	s.enter()
	left := make([]float64, s.Clusters) // of each group at risk
	for g := range left {
		left[g] = float64(s.sizes[g].N)
	}
	pulls := make([]float64, s.Clusters) // what each group adds to the error of -log S
	survival, greenwood := 1., 0.
	for i := 0; i < len(kept); {
		j, events := i, 0
		for ; j < len(kept) && kept[j].Time == kept[i].Time; j++ {
			if kept[j].Event {
				events++
			}
		}
		if atRisk := len(kept) - i; events > 0 {
			n, d := float64(atRisk), float64(events)
			survival *= 1 - d/n
			greenwood += d / (n * (n - d)) // +Inf when nobody is left, handled by bounds
			for g := range pulls {
				pulls[g] -= d / n * left[g] / (n - d)
			}
			for k := i; k < j && s.Clusters > 0; k++ {
				if kept[k].Event {
					pulls[s.group[k]] += 1 / (n - d)
				}
			}
			s.Points = append(s.Points, SurvivalPoint{kept[i].Time, atRisk, events, s.bounds(survival, greenwood, pulls)})
		}
		for ; i < j && s.Clusters > 0; i++ {
			left[s.group[i]]--
		}
		i = j
	}
	return s
}

// enter numbers the groups, unless no lifetime has one.
func (s *Survival) enter() {
	if !slices.ContainsFunc(s.lifetimes, func(l Lifetime) bool { return l.Group != "" }) {
		return
	}
	index := map[string]int{}
	s.group = make([]int, len(s.lifetimes))
	for i, l := range s.lifetimes {
		at, known := index[l.Group]
		if !known || l.Group == "" {
			at = len(s.sizes)
			index[l.Group] = at
			s.sizes = append(s.sizes, Cluster{Group: l.Group})
		}
		s.sizes[at].Add(1, 1)
		s.group[i] = at
	}
	s.Clusters = len(s.sizes)
}

// spread is the standard error of a figure, and the quantile of its distribution: from
// its variance if lifetimes are independent, else from what each group adds to its
// error. With one group nothing is known.
func (s *Survival) spread(independent float64, pulls []float64) (deviation, quantile, effective float64) {
	n := float64(s.N)
	if s.Clusters == 0 {
		return math.Sqrt(independent), distuv.UnitNormal.Quantile((1 + s.conf) / 2), n
	}
	k := float64(s.Clusters)
	if s.Clusters < 2 {
		return math.Inf(1), 1, 1
	}
	variance := 0.
	for _, p := range pulls {
		variance += p * p
	}
	variance = max(variance*k/(k-1), independent)
	if variance > 0 {
		n *= independent / variance
	}
	return math.Sqrt(variance), tQuantile((1+s.conf)/2, k-1), n
}

// bounds is the log(-log) interval around a survival probability, after the last point.
func (s *Survival) bounds(survival, greenwood float64, pulls []float64) Estimate {
	method := s.method("Kaplan-Meier, log-log")
	if !validConfidence(s.conf) {
		return undefined(method, reasonConfidence, s.conf, 0, 1)
	}
	e := Estimate{Value: survival, Lo: 0, Hi: 1, Confidence: s.conf, N: s.N, NEff: float64(s.N), Clusters: s.Clusters, Method: method}
	if survival <= 0 || survival >= 1 {
		return e
	}
	deviation, quantile, effective := s.spread(greenwood, pulls)
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
		e = ClusteredClopperPearson(s.sizes, s.conf)
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
	deviation, quantile, effective := s.spread(variance, s.areaPulls(areas))
	half := quantile * deviation
	return Estimate{
		Value: area, Lo: max(0, area-half), Hi: min(tau, area+half), Confidence: s.conf,
		N: s.N, NEff: effective, Clusters: s.Clusters, Method: method,
	}
}

// areaPulls are what each group adds to the error of the area under the curve: of its
// lifetimes' influences at the points that they lived to see, each with the area from there.
func (s *Survival) areaPulls(areas []float64) []float64 {
	pulls := make([]float64, s.Clusters)
	seen, expected, weight := 0, 0., 0.
	for i := 0; i < len(s.lifetimes) && s.Clusters > 0; i++ {
		l := &s.lifetimes[i]
		for ; seen < len(s.Points) && s.Points[seen].Time <= l.Time; seen++ {
			n, d := float64(s.Points[seen].AtRisk), float64(s.Points[seen].Events)
			if weight = 0; n > d {
				weight = areas[seen] / (n - d)
			}
			expected += weight * d / n
		}
		pulls[s.group[i]] -= expected
		if l.Event {
			pulls[s.group[i]] += weight
		}
	}
	return pulls
}
