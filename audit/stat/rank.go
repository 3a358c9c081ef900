package stat

import (
	"cmp"
	"math"
	"slices"
)

// AUC is the probability that a forecast of something that happened is higher
// than one of something that did not, ties counting half (Mann, Whitney 1947),
// with DeLong's interval (DeLong, DeLong, Clarke-Pearson 1988) cut to [0,1]. A
// perfect or perfectly wrong order has no variance: its interval is
// Clopper-Pearson on the smaller class. Undefined unless both outcomes occur.
func AUC(forecasts []Forecast, confidence float64) Estimate {
	const method = "AUC, DeLong"
	if !validConfidence(confidence) {
		return undefined(method, reasonConfidence, confidence, 0, 1)
	}
	for _, f := range forecasts {
		if !finite(f.P) {
			return undefined(method, reasonNonFinite, confidence, 0, 1)
		}
	}
	levels := levelsOf(forecasts)
	positive, negative := make([]float64, len(levels)), make([]float64, len(levels))
	hits, misses := 0., 0.
	for i, l := range levels {
		positive[i], negative[i] = float64(l.hits), float64(l.n-l.hits)
		hits, misses = hits+positive[i], misses+negative[i]
	}
	if hits == 0 || misses == 0 {
		e := undefined(method, "needs both outcomes", confidence, 0, 1)
		e.N = int(hits + misses)
		return e
	}
	mean, varAbove := meanVariance(placements(negative, misses), positive, hits) // share of negatives below each positive
	_, varBelow := meanVariance(placements(positive, hits), negative, misses)
	e := Estimate{Value: mean, Confidence: confidence, N: int(hits + misses), NEff: hits + misses, Method: method}
	smaller := min(hits, misses)
	variance := varAbove/hits + varBelow/misses
	if variance == 0 || smaller < 2 {
		bounds := ClopperPearson(mean*smaller, smaller, confidence)
		e.Lo, e.Hi, e.NEff, e.Method = bounds.Lo, bounds.Hi, smaller, "AUC, Clopper-Pearson on the smaller class"
		return e
	}
	half := tQuantile((1+confidence)/2, math.Inf(1)) * math.Sqrt(variance)
	e.Lo, e.Hi = clamp01(mean-half), clamp01(mean+half)
	return e
}

// placements is, for each level, the share of the others below it plus half the
// share at it.
func placements(others []float64, total float64) []float64 {
	out, below := make([]float64, len(others)), 0.
	for i, at := range others {
		out[i] = (below + at/2) / total
		below += at
	}
	return out
}

// meanVariance is the mean and the unbiased variance (0 for a single value) of
// values that occur so often.
func meanVariance(xs, times []float64, total float64) (mean, variance float64) {
	for i, x := range xs {
		mean += x * times[i] / total
	}
	if total < 2 {
		return mean, 0
	}
	for i, x := range xs {
		variance += times[i] * (x - mean) * (x - mean) / (total - 1)
	}
	return mean, variance
}

// KendallTauB is Kendall's rank agreement corrected for ties, in [-1,1]
// (Kendall 1945), in O(n log n) (Knight 1966). It has no interval of its own:
// the bounds are [-1,1]; bootstrap it over what the ranks were computed from.
// Undefined when the lists differ in length, hold NaN, or one of them is constant.
func KendallTauB(x, y []float64) Estimate {
	const method = "Kendall tau-b"
	if len(x) != len(y) {
		return undefined(method, "the lists differ in length", 0, -1, 1)
	}
	if slices.ContainsFunc(x, math.IsNaN) || slices.ContainsFunc(y, math.IsNaN) {
		return undefined(method, reasonNonFinite, 0, -1, 1)
	}
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(x[a], x[b]), cmp.Compare(y[a], y[b])) })
	tiedX := tiedPairs(len(x), func(i int) bool { return x[order[i]] == x[order[i-1]] })
	tiedBoth := tiedPairs(len(x), func(i int) bool {
		return x[order[i]] == x[order[i-1]] && y[order[i]] == y[order[i-1]]
	})
	ys := make([]float64, len(y))
	for i, o := range order {
		ys[i] = y[o]
	}
	discordant := inversions(ys, make([]float64, len(ys))) // sorts ys
	tiedY := tiedPairs(len(ys), func(i int) bool { return ys[i] == ys[i-1] })
	n := float64(len(x))
	pairs := n * (n - 1) / 2
	norm := math.Sqrt(pairs-tiedX) * math.Sqrt(pairs-tiedY)
	if norm == 0 {
		e := undefined(method, "a list is constant or too short", 0, -1, 1)
		e.N = len(x)
		return e
	}
	concordantMinus := pairs - tiedX - tiedY + tiedBoth - 2*discordant
	return Estimate{Value: concordantMinus / norm, Lo: -1, Hi: 1, N: len(x), NEff: n, Method: method}
}

// tiedPairs counts the pairs within runs of equal neighbours.
func tiedPairs(n int, sameAsPrevious func(i int) bool) float64 {
	total, run := 0., 1.
	for i := 1; i < n; i++ {
		if sameAsPrevious(i) {
			total += run
			run++
		} else {
			run = 1
		}
	}
	return total
}

// inversions counts pairs out of order while it merge-sorts xs.
func inversions(xs, scratch []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	mid := len(xs) / 2
	count := inversions(xs[:mid], scratch[:mid]) + inversions(xs[mid:], scratch[mid:])
	copy(scratch, xs)
	left, right := scratch[:mid], scratch[mid:]
	for k := range xs {
		if len(right) == 0 || (len(left) > 0 && left[0] <= right[0]) {
			xs[k], left = left[0], left[1:]
			continue
		}
		count += float64(len(left))
		xs[k], right = right[0], right[1:]
	}
	return count
}

// RankInversion is the chance that two checkpoints are ordered one way by
// rehearsed and the other way by real success: the expected share of inverted
// checkpoint pairs over resampled tasks, a tie on one side counting half.
// rehearsed and executed are (checkpoint, task) success rates in [0,1]; the tasks
// are resampled together for all checkpoints, which keeps their difficulty in
// common. Undefined with fewer than two checkpoints or with ragged tables.
func RankInversion(rehearsed, executed [][]float64, r Resample) Estimate {
	const method = "rank inversion, task bootstrap"
	r = r.withDefaults()
	if len(rehearsed) < 2 || len(rehearsed) != len(executed) {
		return undefined(method, "needs the same two or more checkpoints on both sides", r.Confidence, 0, 1)
	}
	tasks := len(executed[0])
	for i := range executed {
		if len(rehearsed[i]) != tasks || len(executed[i]) != tasks {
			return undefined(method, "every checkpoint needs the same tasks", r.Confidence, 0, 1)
		}
		if !finite(rehearsed[i]...) || !finite(executed[i]...) {
			return undefined(method, reasonNonFinite, r.Confidence, 0, 1)
		}
	}
	sum := func(row []float64, draw []int) (total float64) {
		for _, task := range draw {
			total += row[task]
		}
		return total
	}
	inverted := func(draw []int) float64 {
		share, pairs := 0., 0.
		for a := range executed {
			for b := range a {
				dreamt := cmp.Compare(sum(rehearsed[a], draw), sum(rehearsed[b], draw))
				happened := cmp.Compare(sum(executed[a], draw), sum(executed[b], draw))
				share += math.Abs(float64(dreamt-happened)) / 2
				pairs++
			}
		}
		return share / pairs
	}
	e := r.Estimate(tasks*len(executed), tasks, inverted)
	if !e.Defined() {
		e.Method, e.Lo, e.Hi = method, 0, 1
		return e
	}
	total := 0.
	draw := make([]int, tasks)
	values := r.replicates(draw, inverted)
	for _, v := range values {
		total += v / float64(len(values))
	}
	e.Method, e.Value = method, total
	e.Lo, e.Hi = max(0, e.Lo), min(1, e.Hi)
	return e
}
