package stat

import (
	"cmp"
	"math"
	"slices"
)

// Forecast is a stated probability and what came of it.
type Forecast struct {
	P     float64 // in [0,1]
	Y     bool
	Group string // prompt group
}

// DebiasedCalibration is the squared calibration error over equal-mass bins
// minus its own noise: Σ n_b/n · ((ȳ_b - p̄_b)² - ȳ_b(1-ȳ_b)/(n_b-1)) (Kumar,
// Liang, Ma 2019, section 4.2). It is near zero, and may be negative, for a
// perfect predictor, where the plug-in error of 15 bins shows .167 at n = 50.
// The interval is a percentile bootstrap over prompt groups. bins <= 0 means
// 15; equal forecasts share a bin; bins of one forecast are left out.
func DebiasedCalibration(forecasts []Forecast, bins int, r Resample) Estimate {
	const method = "debiased squared calibration error, equal mass"
	if bins <= 0 {
		bins = 15
	}
	return onForecasts(method, forecasts, r, func(sorted []Forecast) float64 {
		total, counted := 0., 0.
		for _, bin := range equalMass(sorted, bins) {
			if n := float64(len(bin)); n >= 2 {
				y, p := binMeans(bin)
				total += n * ((y-p)*(y-p) - y*(1-y)/(n-1))
				counted += n
			}
		}
		return total / counted
	})
}

// SweepCalibration is the expected calibration error over equal-mass bins, as
// many as keep the observed rates monotone (ECE-sweep; Roelofs, Cain, Shlens,
// Mozer 2022, section 5). The interval is a percentile bootstrap over prompt
// groups.
func SweepCalibration(forecasts []Forecast, r Resample) Estimate {
	return onForecasts("ECE sweep, equal mass", forecasts, r, func(sorted []Forecast) float64 {
		best := equalMass(sorted, 1)
		for bins := 2; bins <= len(sorted); bins++ {
			next := equalMass(sorted, bins)
			if len(next) < bins || !monotone(next) {
				break
			}
			best = next
		}
		total := 0.
		for _, bin := range best {
			y, p := binMeans(bin)
			total += float64(len(bin)) * math.Abs(y-p)
		}
		return total / float64(len(sorted))
	})
}

// onForecasts validates forecasts and bootstraps a statistic of their sorted
// list over prompt groups.
func onForecasts(method string, forecasts []Forecast, r Resample, statistic func(sorted []Forecast) float64) Estimate {
	r = r.withDefaults()
	for _, f := range forecasts {
		if !finite(f.P) {
			return undefined(method, reasonNonFinite, r.Confidence, 0, 1)
		}
		if f.P < 0 || f.P > 1 {
			return undefined(method, reasonRange, r.Confidence, 0, 1)
		}
	}
	sorted := slices.Clone(forecasts)
	slices.SortFunc(sorted, compareForecasts)
	index := make(map[string]int)
	for _, f := range sorted {
		if _, ok := index[f.Group]; !ok {
			index[f.Group] = len(index)
		}
	}
	member := make([]int, len(sorted)) // group index of each sorted forecast
	for i, f := range sorted {
		member[i] = index[f.Group]
	}
	times := make([]int, len(index))
	scratch := make([]Forecast, 0, len(sorted))
	e := r.Estimate(len(sorted), len(index), func(draw []int) float64 {
		clear(times)
		for _, g := range draw {
			times[g]++
		}
		scratch = scratch[:0]
		for i, f := range sorted { // stays sorted, since copies are neighbours
			for range times[member[i]] {
				scratch = append(scratch, f)
			}
		}
		return statistic(scratch)
	})
	e.Method = method
	return e
}

// compareForecasts orders by P, then by group and outcome, so that the order of
// arrival never matters.
func compareForecasts(a, b Forecast) int {
	if c := cmp.Or(cmp.Compare(a.P, b.P), cmp.Compare(a.Group, b.Group)); c != 0 || a.Y == b.Y {
		return c
	}
	if b.Y {
		return -1
	}
	return 1
}

// equalMass cuts sorted forecasts into at most bins runs of about equal length
// without parting equal forecasts.
func equalMass(sorted []Forecast, bins int) [][]Forecast {
	var out [][]Forecast
	start := 0
	for b := 1; b <= bins && start < len(sorted); b++ {
		end := max(b*len(sorted)/bins, start)
		for end > start && end < len(sorted) && sorted[end].P == sorted[end-1].P {
			end++
		}
		if end > start {
			out = append(out, sorted[start:end])
			start = end
		}
	}
	return out
}

func binMeans(bin []Forecast) (y, p float64) {
	for _, f := range bin {
		p += f.P
		if f.Y {
			y++
		}
	}
	n := float64(len(bin))
	return y / n, p / n
}

func monotone(bins [][]Forecast) bool {
	last := math.Inf(-1)
	for _, bin := range bins {
		y, _ := binMeans(bin)
		if y < last {
			return false
		}
		last = y
	}
	return true
}
