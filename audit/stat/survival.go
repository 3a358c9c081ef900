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
	Points []SurvivalPoint // ascending event times
	N      int
	conf   float64
}

// KaplanMeier estimates the survival function (Kaplan, Meier 1958) with
// Greenwood's variance on the log(-log S) scale (Kalbfleisch, Prentice 1980), so
// that bounds stay in [0,1]. Lifetimes that are not finite and positive are
// left out and lower N; an event and a censoring at the same time count the
// event first. Episodes of one prompt group are not independent: for an
// interval that knows it, resample groups with Resample.
func KaplanMeier(lifetimes []Lifetime, confidence float64) Survival {
	kept := slices.DeleteFunc(slices.Clone(lifetimes), func(l Lifetime) bool { return !finite(l.Time) || l.Time <= 0 })
	slices.SortFunc(kept, func(a, b Lifetime) int { return cmp.Compare(a.Time, b.Time) })
	s := Survival{N: len(kept), conf: confidence}
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
			s.Points = append(s.Points, SurvivalPoint{kept[i].Time, atRisk, events, s.bounds(survival, greenwood)})
		}
		i = j
	}
	return s
}

// bounds is the log(-log) interval around a survival probability.
func (s Survival) bounds(survival, greenwood float64) Estimate {
	const method = "Kaplan-Meier, log-log"
	if !validConfidence(s.conf) {
		return undefined(method, reasonConfidence, s.conf, 0, 1)
	}
	e := Estimate{Value: survival, Lo: 0, Hi: 1, Confidence: s.conf, N: s.N, NEff: float64(s.N), Method: method}
	if survival <= 0 || survival >= 1 {
		return e
	}
	z := distuv.UnitNormal.Quantile((1 + s.conf) / 2)
	logS := math.Log(survival)
	half := z * math.Sqrt(greenwood) / -logS
	e.Lo, e.Hi = math.Exp(logS*math.Exp(half)), math.Exp(logS*math.Exp(-half))
	return e
}

// At is the survival just after time t. Before the first event it is 1 with the
// Clopper-Pearson bound of no event in N; without data it is not defined.
func (s Survival) At(t float64) Estimate {
	if s.N == 0 || math.IsNaN(t) {
		return undefined("Kaplan-Meier, log-log", reasonNoData, s.conf, 0, 1)
	}
	for _, p := range slices.Backward(s.Points) {
		if p.Time <= t {
			return p.Survival
		}
	}
	e := ClopperPearson(float64(s.N), float64(s.N), s.conf)
	e.Method = "Kaplan-Meier before the first event, Clopper-Pearson"
	return e
}

// RMST is the restricted mean survival time: the expected number of steps until
// the first event, counted up to tau (Irwin 1949; Klein, Moeschberger 2003,
// section 4.5), with a normal interval clipped to [0,tau].
func (s Survival) RMST(tau float64) Estimate {
	const method = "restricted mean survival time"
	switch {
	case !finite(tau) || tau <= 0:
		return undefined(method, "tau must be finite and positive", s.conf, 0, math.Inf(1))
	case !validConfidence(s.conf):
		return undefined(method, reasonConfidence, s.conf, 0, tau)
	case s.N == 0:
		return undefined(method, reasonNoData, s.conf, 0, tau)
	}
	area, variance, end := 0., 0., tau
	for _, p := range slices.Backward(s.Points) {
		if p.Time > tau {
			continue
		}
		area += p.Survival.Value * (end - p.Time)
		end = p.Time
		n, d := float64(p.AtRisk), float64(p.Events)
		if n > d {
			variance += area * area * d / (n * (n - d))
		}
	}
	area += end
	half := distuv.UnitNormal.Quantile((1+s.conf)/2) * math.Sqrt(variance)
	return Estimate{
		Value: area, Lo: max(0, area-half), Hi: min(tau, area+half), Confidence: s.conf,
		N: s.N, NEff: float64(s.N), Method: method,
	}
}
