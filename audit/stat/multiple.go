package stat

import (
	"cmp"
	"slices"
)

// Holm adjusts p-values so that rejecting those at or below α keeps the chance
// of any false rejection at or below α, whatever their dependence (Holm 1979).
// A p-value that is not in [0,1] (NaN included) counts as 1: no evidence.
func Holm(p []float64) []float64 {
	order := ascending(p)
	adjusted := make([]float64, len(p))
	highest := 0.
	for rank, i := range order {
		highest = max(highest, min(1, float64(len(p)-rank)*asP(p[i])))
		adjusted[i] = highest
	}
	return adjusted
}

// HolmLevels are the levels at which Holm's procedure tests each p-value at
// α: α/m for the smallest, α/(m-1) for the next, and from the first that is not
// rejected on, the level at which it stopped. A bound at 1-level clears a limit
// exactly when its p-value is rejected.
func HolmLevels(p []float64, alpha float64) []float64 {
	levels := make([]float64, len(p))
	stopped := 0.
	for rank, i := range ascending(p) {
		levels[i] = alpha / float64(len(p)-rank)
		if stopped > 0 {
			levels[i] = stopped
		} else if asP(p[i]) > levels[i] {
			stopped = levels[i]
		}
	}
	return levels
}

// EBH rejects hypotheses by their e-values at false discovery rate α under any
// dependence (Wang, Ramdas 2022): the k largest, for the largest k with
// e_(k) >= m/(α·k). An e-value that is negative or NaN counts as 0.
func EBH(e []float64, alpha float64) []bool {
	order := make([]int, len(e))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(asE(e[b]), asE(e[a])) })
	rejected := make([]bool, len(e))
	for k := len(e); k >= 1; k-- {
		if asE(e[order[k-1]])*alpha*float64(k) >= float64(len(e)) {
			for _, i := range order[:k] {
				rejected[i] = true
			}
			break
		}
	}
	return rejected
}

// ascending returns the indices of p from the smallest p-value up.
func ascending(p []float64) []int {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(asP(p[a]), asP(p[b])) })
	return order
}

func asP(p float64) float64 {
	if !(p >= 0 && p <= 1) {
		return 1
	}
	return p
}

func asE(e float64) float64 {
	if !(e > 0) {
		return 0
	}
	return e
}
