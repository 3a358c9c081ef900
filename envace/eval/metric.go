package eval

import (
	"math"
	"slices"

	"understudy/audit/stat"
)

// Confidence of every interval here.
const confidence = 0.95

// PassHat is the probability that k samples of a task, drawn without replacement from
// n of which c solved it, all did: C(c,k)/C(n,k) (τ-bench, arXiv 2406.12045, section
// 4). NaN where n < k.
func PassHat(n, c, k int) float64 {
	if k < 1 || n < k || c < 0 || c > n {
		return math.NaN()
	}
	p := 1.0
	for i := range k {
		p *= float64(c-i) / float64(n-i)
		if p <= 0 {
			return 0
		}
	}
	return p
}

// PassHatFormula is how PassHat is explained beside its values.
const PassHatFormula = "pass^k = mean over tasks of C(c,k)/C(n,k), c of a task's n samples being right"

// ToolUse is what one sample called of what its reference calls: sizes of sets of
// tool names.
type ToolUse struct {
	Reference int `json:"reference"`
	Called    int `json:"called"`
	Both      int `json:"both"`
}

// UseOf compares the tools that were called with those of the reference; how often
// each was, and with what, does not matter.
func UseOf(reference, called []string) ToolUse {
	sorted := func(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }
	reference, called = sorted(reference), sorted(called)
	u := ToolUse{Reference: len(reference), Called: len(called)}
	for _, name := range called {
		if _, found := slices.BinarySearch(reference, name); found {
			u.Both++
		}
	}
	return u
}

// Exact says that the two sets are the same.
func (u ToolUse) Exact() bool { return u.Both == u.Reference && u.Both == u.Called }

// add joins the counts of samples.
func (u ToolUse) add(o ToolUse) ToolUse {
	return ToolUse{u.Reference + o.Reference, u.Called + o.Called, u.Both + o.Both}
}

// Recall is TR: the share of the reference's tools that were called; NaN without any.
func (u ToolUse) Recall() float64 { return float64(u.Both) / float64(u.Reference) }

// Precision is TP: the share of the called tools that the reference has. Who calls
// nothing where something was to be called has 0.
func (u ToolUse) Precision() float64 {
	if u.Called == 0 && u.Reference > 0 {
		return 0
	}
	return float64(u.Both) / float64(u.Called)
}

// F1 is TF1, the harmonic mean of TR and TP: with the paper's figures for EnvACE,
// 41.23 and 54.04, it is 46.77 (facts/paper.md).
func (u ToolUse) F1() float64 { return harmonic(u.Recall(), u.Precision()) }

func harmonic(a, b float64) float64 {
	if a+b == 0 {
		return 0
	}
	return 2 * a * b / (a + b)
}

// ToolFormula is how the tool figures are explained beside their values.
const ToolFormula = "TR = Σ|called ∩ reference| / Σ|reference|, TP = Σ|called ∩ reference| / Σ|called| over samples, as sets of tool names; TF1 = 2·TR·TP/(TR+TP)"

// toolFigure is a figure of summed counts with a bootstrap over tasks.
func toolFigure(tasks []ToolUse, samples int, figure func(ToolUse) float64) stat.Estimate {
	return stat.Resample{Confidence: confidence}.Estimate(samples, len(tasks), func(draw []int) float64 {
		var sum ToolUse
		for _, i := range draw {
			sum = sum.add(tasks[i])
		}
		return figure(sum)
	})
}
