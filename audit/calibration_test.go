package audit_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"understudy/audit"
	"understudy/audit/stat"
)

// TestCalibrationOfAPerfectForecaster draws hits with the stated probability:
// the diagonal lies in nearly all bands, and believing less never errs more.
func TestCalibrationOfAPerfectForecaster(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(11, 3))
	groups := map[string]audit.Counters{}
	hits, total := 0, 4000
	for i := range total {
		p := rng.Float64()
		name := audit.ConfidenceCounter(int(p * audit.ConfidenceBins))
		group := strconv.Itoa(i / 8)
		if groups[group] == nil {
			groups[group] = audit.Counters{}
		}
		x := 0.
		if rng.Float64() < p {
			x, hits = 1, hits+1
		}
		groups[group].Merge(audit.Counters{name: stat.Cluster{N: 1, Weight: 1, Sum: x, SumSq: x}})
	}
	c := audit.NewCalibration(groups)
	n, covered := 0, 0
	for i, b := range c.Reliability {
		n += b.Hits.N
		if b.Hits.Lo <= b.Confidence && b.Confidence <= b.Hits.Hi {
			covered++
		}
		if b.From >= b.To || b.Confidence < b.From || b.Confidence > b.To || i > 0 && b.From < c.Reliability[i-1].To {
			t.Errorf("bin %d is %+v: bins ascend and hold their own mean", i, b)
		}
	}
	if n != total || len(c.Reliability) < 9 || len(c.Reliability) > 11 || covered < len(c.Reliability)-2 {
		t.Errorf("%d bins of %d rehearsals, %d around the diagonal", len(c.Reliability), n, covered)
	}
	last := c.Risk[len(c.Risk)-1]
	if last.Coverage != 1 || last.Risk.N != total || math.Abs(last.Risk.Value-float64(total-hits)/float64(total)) > 1e-9 {
		t.Errorf("believing all of them: %+v, want the error rate of all", last)
	}
	for i := 1; i < len(c.Risk); i++ {
		if c.Risk[i].Coverage <= c.Risk[i-1].Coverage || c.Risk[i].Threshold >= c.Risk[i-1].Threshold || c.Risk[i].Risk.Value < c.Risk[i-1].Risk.Value-.02 {
			t.Errorf("point %d (%+v) does not follow from %+v", i, c.Risk[i], c.Risk[i-1])
		}
	}
	if audit.NewCalibration(map[string]audit.Counters{"g": {}}) != nil {
		t.Error("without a stated confidence there is no calibration")
	}
}
