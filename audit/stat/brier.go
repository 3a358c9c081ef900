package stat

import (
	"math"
	"slices"
)

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
	score := onForecasts("Brier score", forecasts, r, func(sorted []Forecast) float64 {
		total := 0.
		for _, f := range sorted {
			total += squaredError(f.P, f.Y)
		}
		return total / float64(len(sorted))
	})
	b := BrierScore{Score: score, Reliability: math.NaN(), Resolution: math.NaN(), Uncertainty: math.NaN()}
	if !score.Defined() {
		return b
	}
	sorted := slices.Clone(forecasts)
	slices.SortFunc(sorted, compareForecasts)
	base, _ := binMeans(sorted)
	b.Uncertainty = base * (1 - base)
	b.Curve = Isotonic(sorted)
	recalibrated, i := 0., 0
	for _, step := range b.Curve {
		for range step.N {
			recalibrated += squaredError(step.Rate, sorted[i].Y)
			i++
		}
	}
	recalibrated /= float64(len(sorted))
	b.Reliability = score.Value - recalibrated
	b.Resolution = b.Uncertainty - recalibrated
	return b
}

func squaredError(p float64, y bool) float64 {
	if y {
		p--
	}
	return p * p
}

// Isotonic is the least-squares non-decreasing fit of outcome on forecast, by
// pooling adjacent violators (Ayer et al. 1955). Equal forecasts are one block
// from the start. The steps ascend strictly in Rate.
func Isotonic(forecasts []Forecast) []CurvePoint {
	sorted := slices.Clone(forecasts)
	slices.SortFunc(sorted, compareForecasts)
	var steps []CurvePoint
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j].P == sorted[i].P {
			j++
		}
		rate, _ := binMeans(sorted[i:j])
		steps = append(steps, CurvePoint{sorted[i].P, sorted[i].P, rate, j - i})
		for k := len(steps); k >= 2 && steps[k-2].Rate >= steps[k-1].Rate; k = len(steps) {
			a, b := steps[k-2], steps[k-1]
			n := a.N + b.N
			rate := (a.Rate*float64(a.N) + b.Rate*float64(b.N)) / float64(n)
			steps = append(steps[:k-2], CurvePoint{a.From, b.To, rate, n})
		}
		i = j
	}
	return steps
}
