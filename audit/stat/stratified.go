package stat

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Stratum compares two policies on one kind of call, such as one tool.
type Stratum struct {
	HitsA, TrialsA float64
	HitsB, TrialsB float64
	Mix            float64 // share of this stratum in the fixed call mix; only StandardisedDifference reads it
}

func (s Stratum) valid() bool {
	return finite(s.HitsA, s.TrialsA, s.HitsB, s.TrialsB, s.Mix) &&
		s.HitsA >= 0 && s.HitsB >= 0 && s.HitsA <= s.TrialsA && s.HitsB <= s.TrialsB && s.Mix >= 0
}

func (s Stratum) n() float64 { return s.TrialsA + s.TrialsB }

// MantelHaenszel is the common odds ratio of A over B across strata (Mantel,
// Haenszel 1959) with the Robins-Breslow-Greenland variance of its logarithm
// (Biometrics 42:311, 1986). A policy that shifts to easy tools cannot look
// better by it. Strata with an empty side add nothing. Undefined when no
// stratum is informative (a numerator or a denominator of zero).
//
// Odds ratios are not collapsible: show StandardisedDifference beside it.
func MantelHaenszel(strata []Stratum, confidence float64) Estimate {
	const method = "Mantel-Haenszel odds ratio, RBG"
	if !validConfidence(confidence) {
		return undefined(method, reasonConfidence, confidence, 0, math.Inf(1))
	}
	var r, s, pr, cross, qs, n float64
	for _, t := range strata {
		if !t.valid() {
			return undefined(method, reasonCount, confidence, 0, math.Inf(1))
		}
		if t.TrialsA == 0 || t.TrialsB == 0 {
			continue
		}
		a, b, c, d := t.HitsA, t.TrialsA-t.HitsA, t.HitsB, t.TrialsB-t.HitsB
		rk, sk := a*d/t.n(), b*c/t.n()
		p, q := (a+d)/t.n(), (b+c)/t.n()
		r, s, n = r+rk, s+sk, n+t.n()
		pr, cross, qs = pr+p*rk, cross+p*sk+q*rk, qs+q*sk
	}
	if r == 0 || s == 0 {
		e := undefined(method, "no stratum has both outcomes on both sides", confidence, 0, math.Inf(1))
		e.N = int(n)
		return e
	}
	variance := pr/(2*r*r) + cross/(2*r*s) + qs/(2*s*s)
	half := distuv.UnitNormal.Quantile((1+confidence)/2) * math.Sqrt(variance)
	ratio := r / s
	return Estimate{
		Value: ratio, Lo: ratio * math.Exp(-half), Hi: ratio * math.Exp(half), Confidence: confidence,
		N: int(n), NEff: n, Method: method,
	}
}

// StandardisedDifference is Σ mix·(rate A - rate B), both policies judged on the
// same call mix (direct standardisation; Keiding, Clayton 2014). The interval is
// normal with each variance at (hits+1)/(trials+2) (Agresti, Caffo 2000), so
// that rates of 0 and 1 keep a width. Mix need not sum to 1. Undefined when a
// stratum with a share has no trials on one side: its rate is not known.
func StandardisedDifference(strata []Stratum, confidence float64) Estimate {
	const method = "standardised difference, Agresti-Caffo"
	if !validConfidence(confidence) {
		return undefined(method, reasonConfidence, confidence, -1, 1)
	}
	var mix, value, variance, n float64
	for _, t := range strata {
		switch {
		case !t.valid():
			return undefined(method, reasonCount, confidence, -1, 1)
		case t.Mix == 0:
			continue
		case t.TrialsA == 0 || t.TrialsB == 0:
			return undefined(method, "a stratum of the call mix has no trials on one side", confidence, -1, 1)
		}
		mix, n = mix+t.Mix, n+t.n()
		value += t.Mix * (t.HitsA/t.TrialsA - t.HitsB/t.TrialsB)
		variance += t.Mix * t.Mix * (cautiousVariance(t.HitsA, t.TrialsA) + cautiousVariance(t.HitsB, t.TrialsB))
	}
	if mix == 0 {
		return undefined(method, reasonNoData, confidence, -1, 1)
	}
	value, variance = value/mix, variance/(mix*mix)
	half := distuv.UnitNormal.Quantile((1+confidence)/2) * math.Sqrt(variance)
	return Estimate{
		Value: value, Lo: max(-1, value-half), Hi: min(1, value+half), Confidence: confidence,
		N: int(n), NEff: n, Method: method,
	}
}

// cautiousVariance is the variance of a rate after adding one hit and one miss.
func cautiousVariance(hits, trials float64) float64 {
	p := (hits + 1) / (trials + 2)
	return p * (1 - p) / (trials + 2)
}
