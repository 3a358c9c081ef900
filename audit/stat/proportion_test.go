package stat_test

import (
	"encoding/json"
	"math"
	"testing"

	"understudy/audit/stat"
)

// near fails the test unless got is within tol of want; NaN equals NaN.
func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.IsNaN(got) && math.IsNaN(want) || got == want {
		return
	}
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s = %.12g, want %.12g ± %g", what, got, want, tol)
	}
}

// bounds checks value and interval.
func bounds(t *testing.T, what string, e stat.Estimate, value, lo, hi, tol float64) {
	t.Helper()
	near(t, what+" value", e.Value, value, tol)
	near(t, what+" lo", e.Lo, lo, tol)
	near(t, what+" hi", e.Hi, hi, tol)
}

// vacuous fails unless the estimate says that it knows nothing.
func vacuous(t *testing.T, what string, e stat.Estimate, lo, hi float64) {
	t.Helper()
	if e.Defined() || e.Reason == "" || !math.IsNaN(e.Value) {
		t.Errorf("%s = %v, want an estimate that is not defined and says why", what, e)
	}
	if e.Lo != lo || e.Hi != hi {
		t.Errorf("%s bounds [%v, %v], want [%v, %v]", what, e.Lo, e.Hi, lo, hi)
	}
}

func TestProportionIntervals(t *testing.T) {
	type interval func(x, n, confidence float64) stat.Estimate
	for _, row := range []struct {
		name   string
		method interval
		x, n   float64
		lo, hi float64
		tol    float64
		reason string
	}{
		// Newcombe 1998, Statistics in Medicine 17:857, table I.
		{"wilson 81/263", stat.Wilson, 81, 263, .2553, .3662, 5e-5, "published"},
		{"wilson 15/148", stat.Wilson, 15, 148, .0624, .1605, 5e-5, "published"},
		{"wilson 0/20", stat.Wilson, 0, 20, 0, .1611, 5e-5, "published"},
		{"wilson 1/29", stat.Wilson, 1, 29, .0061, .1718, 5e-5, "published"},
		{"exact 81/263", stat.ClopperPearson, 81, 263, .2527, .3676, 5e-5, "published"},
		{"exact 15/148", stat.ClopperPearson, 15, 148, .0578, .1617, 5e-5, "published"},
		{"exact 0/20", stat.ClopperPearson, 0, 20, 0, .1684, 5e-5, "published"},
		{"exact 1/29", stat.ClopperPearson, 1, 29, .0009, .1776, 5e-5, "published"},
		// statsmodels 0.14 proportion_confint on scipy.
		{"wilson 999/1000", stat.Wilson, 999, 1000, .9943574414020421, .9998234536293739, 1e-9, "near one"},
		{"exact 999/1000", stat.ClopperPearson, 999, 1000, .9944410757201734, .9999746825125088, 1e-9, "near one"},
		{"jeffreys 999/1000", stat.Jeffreys, 999, 1000, .9953355411912086, .999892081195319, 1e-9, "near one"},
		{"wilson 0/30", stat.Wilson, 0, 30, 0, .1135133931739688, 1e-9, "no event"},
		{"exact 0/30", stat.ClopperPearson, 0, 30, 0, .1157033082220278, 1e-9, "no event"},
		{"jeffreys 0/30", stat.Jeffreys, 0, 30, 0, .07967817381726, 1e-9, "no event: lower bound set to 0"},
		{"exact 30/30", stat.ClopperPearson, 30, 30, .8842966917779722, 1, 1e-9, "always"},
		{"jeffreys 1/7", stat.Jeffreys, 1, 7, .0158765242127468, .5007974616190776, 1e-9, "small n"},
		{"wilson n/deff", stat.Wilson, 3.7, 41.2, .034262020617491715, .21531823532948668, 1e-9, "fractional counts"},
		{"exact n/deff", stat.ClopperPearson, 3.7, 41.2, .0233430288066861, .2208561910411724, 1e-9, "fractional counts"},
		{"jeffreys n/deff", stat.Jeffreys, 3.7, 41.2, .029675757514544383, .20485957229075777, 1e-9, "fractional counts"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bounds(t, row.reason, row.method(row.x, row.n, .95), row.x/row.n, row.lo, row.hi, row.tol)
		})
	}
}

func TestRuleOfThree(t *testing.T) {
	// The smallest n whose one-sided 95 % bound for 0 failures is at most the limit: 1-.05^(1/n).
	for _, row := range []struct {
		limit float64
		n     int
	}{{.05, 59}, {.02, 149}, {.01, 299}, {.005, 598}, {.001, 2995}} {
		bound := func(n int) float64 { return stat.ClopperPearson(0, float64(n), stat.OneSided(.95)).Hi }
		if bound(row.n) > row.limit || bound(row.n-1) <= row.limit {
			t.Errorf("bounds at n=%d and n=%d are %v and %v, want the limit %v between", row.n, row.n-1, bound(row.n), bound(row.n-1), row.limit)
		}
	}
}

func TestBadProportions(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, row := range []struct {
		x, n, confidence float64
		reason           string
	}{
		{0, 0, .95, "no data"},
		{2, 1, .95, "more successes than trials"},
		{-1, 5, .95, "negative count"},
		{nan, 5, .95, "NaN"},
		{1, inf, .95, "infinite"},
		{1, 5, 0, "confidence 0"},
		{1, 5, 1, "confidence 1"},
		{1, 5, nan, "confidence NaN"},
	} {
		vacuous(t, "Wilson with "+row.reason, stat.Wilson(row.x, row.n, row.confidence), 0, 1)
		vacuous(t, "Clopper-Pearson with "+row.reason, stat.ClopperPearson(row.x, row.n, row.confidence), 0, 1)
		vacuous(t, "Jeffreys with "+row.reason, stat.Jeffreys(row.x, row.n, row.confidence), 0, 1)
	}
}

func TestEstimateSurvivesJSON(t *testing.T) {
	for _, e := range []stat.Estimate{
		stat.Wilson(3, 10, .95),
		stat.Wilson(0, 0, .95),
		stat.Clustered([]stat.Cluster{{Group: "a", N: 2, Weight: 2, Sum: 1, SumSq: 1}}, .95),
	} {
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("marshal %v: %v", e, err)
		}
		var back stat.Estimate
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("unmarshal %s: %v", data, err)
		}
		if again, _ := json.Marshal(back); string(again) != string(data) || back.Defined() != e.Defined() {
			t.Errorf("%s came back as %s", data, again)
		}
	}
	if got := stat.Wilson(3, 10, .95).String(); got != "0.3 [0.1078, 0.6032] at 95%, n=10, n_eff=10, Wilson" {
		t.Errorf("String() = %q: n, n_eff and the formula stand beside the number", got)
	}
}
