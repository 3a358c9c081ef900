package stat

import (
	"math"
)

// Confusion counts outcomes: Confusion[real][rehearsed], square. Accuracy
// misleads where errors are rare; the three figures below do not.
type Confusion [][]float64

// NewConfusion is an empty matrix of the given number of classes.
func NewConfusion(classes int) Confusion {
	c := make(Confusion, classes)
	for i := range c {
		c[i] = make([]float64, classes)
	}
	return c
}

// marginals returns row sums (real), column sums (rehearsed), the trace and the
// total; ok is false unless the matrix is square, finite and not negative.
func (c Confusion) marginals() (rows, columns []float64, trace, total float64, ok bool) {
	rows, columns = make([]float64, len(c)), make([]float64, len(c))
	for i, row := range c {
		if len(row) != len(c) || !finite(row...) {
			return nil, nil, 0, 0, false
		}
		for j, x := range row {
			if x < 0 {
				return nil, nil, 0, 0, false
			}
			rows[i], columns[j], total = rows[i]+x, columns[j]+x, total+x
		}
		trace += row[i]
	}
	return rows, columns, trace, total, true
}

// BalancedAccuracy is the mean recall over the real classes that occur
// (Brodersen et al. 2010). NaN without data.
func (c Confusion) BalancedAccuracy() float64 {
	rows, _, _, _, ok := c.marginals()
	if !ok {
		return math.NaN()
	}
	sum, classes := 0., 0.
	for i, n := range rows {
		if n > 0 {
			sum += c[i][i] / n
			classes++
		}
	}
	return sum / classes // 0/0 is NaN
}

// MCC is the multi-class Matthews correlation in [-1,1] (Gorodkin 2004, R_K).
// When one side has a single class there is nothing to correlate: NaN.
func (c Confusion) MCC() float64 {
	rows, columns, trace, total, ok := c.marginals()
	if !ok {
		return math.NaN()
	}
	cross, rowSq, columnSq := 0., 0., 0.
	for i := range rows {
		cross += rows[i] * columns[i]
		rowSq += rows[i] * rows[i]
		columnSq += columns[i] * columns[i]
	}
	return (trace*total - cross) / math.Sqrt((total*total-rowSq)*(total*total-columnSq))
}

// MacroF1 is the mean F1 over the classes that occur on either side (Opitz,
// Burst 2019, "averaged F1"). NaN without data.
func (c Confusion) MacroF1() float64 {
	rows, columns, _, _, ok := c.marginals()
	if !ok {
		return math.NaN()
	}
	sum, classes := 0., 0.
	for i := range rows {
		if rows[i]+columns[i] > 0 {
			sum += 2 * c[i][i] / (rows[i] + columns[i])
			classes++
		}
	}
	return sum / classes
}

// OfConfusion estimates a figure of the summed matrices of all prompt groups,
// with a percentile interval over resampled groups:
//
//	stat.OfConfusion("MCC", groups, stat.Confusion.MCC, stat.Resample{})
func OfConfusion(name string, groups []Confusion, figure func(Confusion) float64, r Resample) Estimate {
	method := name + ", cluster bootstrap"
	classes, n := 0, 0.
	for _, g := range groups {
		_, _, _, total, ok := g.marginals()
		if !ok || (classes > 0 && len(g) != classes) {
			return undefined(method, "matrices must be square, alike in size, finite and not negative", r.withDefaults().Confidence, -1, 1)
		}
		classes, n = len(g), n+total
	}
	sum := NewConfusion(classes)
	e := r.Estimate(int(math.Round(n)), len(groups), func(draw []int) float64 {
		for i := range sum {
			clear(sum[i])
		}
		for _, g := range draw {
			for i, row := range groups[g] {
				for j, x := range row {
					sum[i][j] += x
				}
			}
		}
		return figure(sum)
	})
	e.Method = method
	return e
}
