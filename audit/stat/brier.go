package stat

import "math"

// BrierScore is the mean squared error of probabilities, and its three parts:
// Score = Reliability - Resolution + Uncertainty.
type BrierScore struct {
	Score       Estimate // with a bootstrap interval over prompt groups
	Reliability float64  // what recalibration would win; 0 = calibrated
	Resolution  float64  // what the forecasts know beyond the base rate
	Uncertainty float64  // of the base rate itself
	Curve       []CurvePoint
}

// CurvePoint is one step of the reliability curve.
type CurvePoint struct {
	From, To float64 // forecasts of this step, inclusive
	Rate     float64 // recalibrated probability
	N        int
}

// Brier computes the score (Brier 1950) with Murphy's decomposition (1973) over
// the isotonic recalibration instead of bins (CORP; Dimitriadis, Gneiting,
// Jordan 2021): no bin count to choose and no within-bin remainder. The parts
// are NaN when the score is not defined.
func Brier(forecasts []Forecast, r Resample) BrierScore {
	score := onForecasts("Brier score", forecasts, r, func(levels []level) float64 {
		total, n := 0., 0.
		for _, l := range levels {
			total += float64(l.hits)*(1-l.p)*(1-l.p) + float64(l.n-l.hits)*l.p*l.p
			n += float64(l.n)
		}
		return total / n
	})
	b := BrierScore{Score: score, Reliability: math.NaN(), Resolution: math.NaN(), Uncertainty: math.NaN()}
	if !score.Defined() {
		return b
	}
	n, base, _ := means(levelsOf(forecasts))
	b.Uncertainty = base * (1 - base)
	b.Curve = Isotonic(forecasts)
	recalibrated := 0.
	for _, step := range b.Curve {
		recalibrated += float64(step.N) * step.Rate * (1 - step.Rate) / n
	}
	b.Reliability = score.Value - recalibrated
	b.Resolution = b.Uncertainty - recalibrated
	return b
}

// Isotonic is the least-squares non-decreasing fit of outcome on forecast, by
// pooling adjacent violators (Ayer et al. 1955). Equal forecasts are one block
// from the start. The steps ascend strictly in Rate.
func Isotonic(forecasts []Forecast) []CurvePoint {
	var steps []CurvePoint
	for _, l := range levelsOf(forecasts) {
		steps = append(steps, CurvePoint{l.p, l.p, float64(l.hits) / float64(l.n), l.n})
		for k := len(steps); k >= 2 && steps[k-2].Rate >= steps[k-1].Rate; k = len(steps) {
			a, b := steps[k-2], steps[k-1]
			n := a.N + b.N
			rate := (a.Rate*float64(a.N) + b.Rate*float64(b.N)) / float64(n)
			steps = append(steps[:k-2], CurvePoint{a.From, b.To, rate, n})
		}
	}
	return steps
}
