package stat

import (
	"cmp"
	"math"
	"slices"
)

// Forecast is a probability that a prompt group stated, how often it did, and
// how often that came true.
type Forecast struct {
	P       float64 // in [0,1]
	N, Hits int
	Group   string // prompt group
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
	return onForecasts(method, forecasts, r, func(levels []level) float64 {
		total, counted := 0., 0.
		for _, bin := range equalMass(levels, bins) {
			if n, y, p := means(bin); n >= 2 {
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
	return onForecasts("ECE sweep, equal mass", forecasts, r, func(levels []level) float64 {
		best := equalMass(levels, 1)
		for bins := 2; bins <= len(levels); bins++ {
			next := equalMass(levels, bins)
			if len(next) < bins || !monotone(next) {
				break
			}
			best = next
		}
		total, all := 0., 0.
		for _, bin := range best {
			n, y, p := means(bin)
			total += n * math.Abs(y-p)
			all += n
		}
		return total / all
	})
}

// level is every forecast of one probability.
type level struct {
	p       float64
	n, hits int
}

// levelsOf adds forecasts up by probability, in ascending order.
func levelsOf(forecasts []Forecast) []level {
	sorted := slices.Clone(forecasts)
	slices.SortFunc(sorted, compareForecasts)
	var levels []level
	for _, f := range sorted {
		if len(levels) == 0 || levels[len(levels)-1].p != f.P {
			levels = append(levels, level{p: f.P})
		}
		last := &levels[len(levels)-1]
		last.n, last.hits = last.n+f.N, last.hits+f.Hits
	}
	return levels
}

// onForecasts validates forecasts and bootstraps a statistic of their levels,
// of which none is empty, over prompt groups. A replicate costs a step a
// forecast, however often that was stated.
func onForecasts(method string, forecasts []Forecast, r Resample, statistic func(levels []level) float64) Estimate {
	r = r.withDefaults()
	total := 0
	for _, f := range forecasts {
		if !finite(f.P) {
			return undefined(method, reasonNonFinite, r.Confidence, 0, 1)
		}
		if f.P < 0 || f.P > 1 || f.Hits < 0 || f.Hits > f.N {
			return undefined(method, reasonRange, r.Confidence, 0, 1)
		}
		total += f.N
	}
	sorted := slices.Clone(forecasts)
	slices.SortFunc(sorted, compareForecasts)
	all := levelsOf(sorted)
	index := make(map[string]int)
	group, at := make([]int, len(sorted)), make([]int, len(sorted)) // of each forecast
	for i, f := range sorted {
		if _, ok := index[f.Group]; !ok {
			index[f.Group] = len(index)
		}
		group[i] = index[f.Group]
		if i > 0 {
			at[i] = at[i-1]
			if f.P != sorted[i-1].P {
				at[i]++
			}
		}
	}
	times, drawn := make([]int, len(index)), make([]level, len(all))
	e := r.Estimate(total, len(index), func(draw []int) float64 {
		clear(times)
		for _, g := range draw {
			times[g]++
		}
		drawn = append(drawn[:0], all...)
		for i := range drawn {
			drawn[i].n, drawn[i].hits = 0, 0
		}
		for i := range sorted {
			l, k := &drawn[at[i]], times[group[i]]
			l.n, l.hits = l.n+k*sorted[i].N, l.hits+k*sorted[i].Hits
		}
		drawn = slices.DeleteFunc(drawn, func(l level) bool { return l.n == 0 })
		return statistic(drawn)
	})
	e.Method = method
	return e
}

// compareForecasts orders by P, then by group, so that the order of arrival
// never matters.
func compareForecasts(a, b Forecast) int {
	return cmp.Or(cmp.Compare(a.P, b.P), cmp.Compare(a.Group, b.Group))
}

// equalMass cuts levels into at most bins runs of about equal mass.
func equalMass(levels []level, bins int) [][]level {
	total := 0
	for _, l := range levels {
		total += l.n
	}
	var out [][]level
	start, mass := 0, 0 // the first level of the bin, and the mass before it
	for b := 1; b <= bins && start < len(levels); b++ {
		end, sum := start, mass
		for end < len(levels) && sum < b*total/bins {
			sum += levels[end].n
			end++
		}
		if end > start {
			out = append(out, levels[start:end])
			start, mass = end, sum
		}
	}
	return out
}

// means are the number of a bin's forecasts, the share that came true, and the
// mean of what was stated.
func means(bin []level) (n, y, p float64) {
	for _, l := range bin {
		n += float64(l.n)
		y += float64(l.hits)
		p += float64(l.n) * l.p
	}
	return n, y / n, p / n
}

func monotone(bins [][]level) bool {
	last := math.Inf(-1)
	for _, bin := range bins {
		_, y, _ := means(bin)
		if y < last {
			return false
		}
		last = y
	}
	return true
}
