package stat

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// OneSided converts the confidence of a one-sided bound into that of the
// two-sided interval whose bound it is: the upper bound of Wilson(x, n,
// OneSided(.95)) is the one-sided 95 % bound.
func OneSided(confidence float64) float64 { return 2*confidence - 1 }

// Wilson is the score interval of a proportion: close to its nominal level on
// average, and the one for display (Wilson 1927; Brown, Cai, DasGupta 2001).
// Counts may be fractional, as n/deff is. Undefined for 0 trials.
func Wilson(successes, trials, confidence float64) Estimate {
	e, ok := proportion("Wilson", successes, trials, confidence)
	if !ok {
		return e
	}
	z := distuv.UnitNormal.Quantile((1 + confidence) / 2)
	p, n := e.Value, trials
	scale := 1 / (1 + z*z/n)
	centre := scale * (p + z*z/(2*n))
	half := scale * z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	e.Lo, e.Hi = clamp01(centre-half), clamp01(centre+half)
	// The score interval ends exactly at a degenerate proportion; rounding must not cut it off.
	if successes == 0 {
		e.Lo = 0
	}
	if successes == trials {
		e.Hi = 1
	}
	return e
}

// ClopperPearson is the exact interval of a proportion: never below its nominal
// level, hence the one for gates (Clopper, Pearson 1934). Counts may be
// fractional (Korn, Graubard 1998). Undefined for 0 trials.
func ClopperPearson(successes, trials, confidence float64) Estimate {
	e, ok := proportion("Clopper-Pearson", successes, trials, confidence)
	if !ok {
		return e
	}
	tail := (1 - confidence) / 2
	e.Lo = betaQuantile(tail, successes, trials-successes+1)
	e.Hi = betaQuantile(1-tail, successes+1, trials-successes)
	return e
}

// Jeffreys is the equal-tailed interval of the Beta(x+1/2, n-x+1/2) posterior,
// with the bound at an extreme proportion set to the extreme (Brown, Cai,
// DasGupta 2001, section 3). Undefined for 0 trials.
func Jeffreys(successes, trials, confidence float64) Estimate {
	e, ok := proportion("Jeffreys", successes, trials, confidence)
	if !ok {
		return e
	}
	tail := (1 - confidence) / 2
	if successes > 0 {
		e.Lo = betaQuantile(tail, successes+.5, trials-successes+.5)
	}
	if successes < trials {
		e.Hi = betaQuantile(1-tail, successes+.5, trials-successes+.5)
	}
	return e
}

// proportion checks the input that all proportion intervals share. The bounds
// of what it returns are [0,1].
func proportion(method string, successes, trials, confidence float64) (Estimate, bool) {
	switch {
	case !finite(successes, trials, confidence):
		return undefined(method, reasonNonFinite, confidence, 0, 1), false
	case !validConfidence(confidence):
		return undefined(method, reasonConfidence, confidence, 0, 1), false
	case successes < 0 || trials < 0 || successes > trials:
		return undefined(method, reasonCount, confidence, 0, 1), false
	case trials == 0:
		return undefined(method, reasonNoData, confidence, 0, 1), false
	}
	return Estimate{
		Value: successes / trials, Lo: 0, Hi: 1, Confidence: confidence,
		N: int(math.Round(trials)), NEff: trials, Method: method,
	}, true
}

// betaQuantile extends the Beta quantile to the point masses at a = 0 and b = 0.
func betaQuantile(p, a, b float64) float64 {
	switch {
	case a <= 0:
		return 0
	case b <= 0:
		return 1
	}
	return distuv.Beta{Alpha: a, Beta: b}.Quantile(p)
}

// tQuantile is the Student t quantile; beyond the reach of its tables the normal one.
func tQuantile(p, dof float64) float64 {
	if dof > 1e6 {
		return distuv.UnitNormal.Quantile(p)
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: dof}.Quantile(p)
}
