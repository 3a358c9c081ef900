package stat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"understudy/audit/stat"
)

// remission is the 6-MP arm of Freireich et al. 1963, the textbook example.
func remission() []stat.Lifetime {
	weeks := []float64{6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35}
	relapse := []int{1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0}
	out := make([]stat.Lifetime, len(weeks))
	for i := range weeks {
		out[i] = stat.Lifetime{Time: weeks[i], Event: relapse[i] == 1}
	}
	return out
}

func TestKaplanMeier(t *testing.T) {
	curve := stat.KaplanMeier(remission(), .95)
	// Published (Kalbfleisch, Prentice 1980); bounds from lifelines 0.30.
	for _, row := range []struct{ week, survival float64 }{
		{6, .857143}, {7, .806723}, {10, .752941}, {13, .690196}, {16, .627451}, {22, .537815}, {23, .448179}, {35, .448179},
	} {
		near(t, "S("+strconv.Itoa(int(row.week))+")", curve.At(row.week).Value, row.survival, 1e-6)
	}
	bounds(t, "week 6", curve.At(6), .857143, .619718, .951552, 1e-6)
	bounds(t, "week 23", curve.At(23), .448179, .188052, .680143, 1e-6)
	// lifelines restricted_mean_survival_time.
	near(t, "RMST(20)", curve.RMST(20).Value, 16.116526610644254, 1e-9)
	near(t, "RMST(10)", curve.RMST(10).Value, 9.277310924369745, 1e-9)

	// The standard error of the RMST against the bootstrap's, which knows no formula.
	lifetimes := remission()
	boot := stat.Resample{Seed: 3}.Estimate(21, 21, func(draw []int) float64 {
		again := make([]stat.Lifetime, len(draw))
		for i, d := range draw {
			again[i] = lifetimes[d]
		}
		return stat.KaplanMeier(again, .95).RMST(20).Value
	})
	e := stat.KaplanMeier(lifetimes, .95).RMST(20)
	near(t, "RMST width", (e.Value-e.Lo)/(boot.Hi-boot.Lo), .5, .06)
}

func TestSurvivalEdges(t *testing.T) {
	empty := stat.KaplanMeier(nil, .95)
	vacuous(t, "no episodes", empty.At(1), 0, 1)
	vacuous(t, "no episodes", empty.RMST(5), 0, 5)
	bad := stat.KaplanMeier([]stat.Lifetime{{Time: math.NaN(), Event: true}, {Time: -1, Event: true}, {Time: 0}}, .95)
	if bad.N != 0 {
		t.Errorf("lifetimes that are none count as %d", bad.N)
	}
	unbroken := stat.KaplanMeier([]stat.Lifetime{{Time: 3}, {Time: 4}, {Time: 9}}, .95)
	bounds(t, "no event", unbroken.At(9), 1, stat.ClopperPearson(3, 3, .95).Lo, 1, 1e-12)
	near(t, "RMST without events", unbroken.RMST(10).Value, 10, 0)
	gone := stat.KaplanMeier([]stat.Lifetime{{Time: 1, Event: true}, {Time: 2, Event: true}}, .95)
	bounds(t, "nobody left", gone.At(2), 0, 0, 1, 0)
	near(t, "RMST until nobody is left", gone.RMST(10).Value, 1.5, 1e-12)
	vacuous(t, "tau NaN", gone.RMST(math.NaN()), 0, math.Inf(1))
}

func strata() []stat.Stratum {
	return []stat.Stratum{
		{HitsA: 10, TrialsA: 30, HitsB: 5, TrialsB: 30, Mix: .5},
		{HitsA: 8, TrialsA: 20, HitsB: 3, TrialsB: 20, Mix: .3},
		{HitsA: 30, TrialsA: 40, HitsB: 22, TrialsB: 40, Mix: .2},
	}
}

func TestStratified(t *testing.T) {
	// statsmodels 0.14 StratifiedTable (its pooled standard error is RBG).
	bounds(t, "odds ratio", stat.MantelHaenszel(strata(), .95), 2.6927899686520376, 1.3768104606442895, 5.266605696676523, 1e-9)
	bounds(t, "difference", stat.StandardisedDifference(strata(), .95), .1983333333333333, .06015796013016167, .33650870653650494, 1e-9)

	// Simpson's paradox: A is worse on every tool, and looks better on the pooled
	// calls because it makes more of the easy ones.
	simpson := []stat.Stratum{
		{HitsA: 171, TrialsA: 190, HitsB: 19, TrialsB: 20, Mix: .5},
		{HitsA: 4, TrialsA: 20, HitsB: 57, TrialsB: 190, Mix: .5},
	}
	if or := stat.MantelHaenszel(simpson, .95); or.Value >= 1 {
		t.Errorf("odds ratio %v hides that A is worse on both tools", or)
	}
	near(t, "standardised", stat.StandardisedDifference(simpson, .95).Value, (.9-.95)/2+(.2-.3)/2, 1e-12)
}

func TestBadStrata(t *testing.T) {
	inf := math.Inf(1)
	for _, row := range []struct {
		strata []stat.Stratum
		reason string
	}{
		{nil, "no strata"},
		{[]stat.Stratum{{HitsA: 1, TrialsA: 5, Mix: 1}}, "one side empty"},
		{[]stat.Stratum{{HitsA: 6, TrialsA: 5, HitsB: 1, TrialsB: 2, Mix: 1}}, "more hits than trials"},
		{[]stat.Stratum{{HitsA: math.NaN(), TrialsA: 5, HitsB: 1, TrialsB: 2, Mix: 1}}, "NaN"},
	} {
		vacuous(t, row.reason, stat.MantelHaenszel(row.strata, .95), 0, inf)
		vacuous(t, row.reason, stat.StandardisedDifference(row.strata, .95), -1, 1)
	}
	vacuous(t, "no discordance", stat.MantelHaenszel([]stat.Stratum{{HitsA: 5, TrialsA: 5, HitsB: 5, TrialsB: 5}}, .95), 0, inf)
	vacuous(t, "no mix", stat.StandardisedDifference([]stat.Stratum{{HitsA: 1, TrialsA: 5, HitsB: 1, TrialsB: 5}}, .95), -1, 1)
	same := stat.StandardisedDifference([]stat.Stratum{{HitsA: 5, TrialsA: 5, HitsB: 5, TrialsB: 5, Mix: 1}}, .95)
	if !(same.Lo < -.1 && same.Hi > .1) {
		t.Errorf("two perfect fives differ by %v: a width of zero would be a lie", same)
	}
}

func forecasts(p []float64, y []int) []stat.Forecast {
	out := make([]stat.Forecast, len(p))
	for i := range p {
		out[i] = stat.Forecast{P: p[i], N: 1, Hits: y[i], Group: strconv.Itoa(i)}
	}
	return out
}

func TestCalibrationValues(t *testing.T) {
	fs := forecasts(
		[]float64{.05, .1, .15, .2, .3, .35, .4, .5, .55, .6, .7, .8, .85, .9, .95},
		[]int{0, 0, 1, 0, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 1},
	)
	r := stat.Resample{Replicates: 200}
	near(t, "debiased, 3 bins", stat.DebiasedCalibration(fs, 3, r).Value, -.0408, 1e-12)     // numpy, from the formula
	near(t, "sweep (3 bins)", stat.SweepCalibration(fs, r).Value, .06666666666666668, 1e-12) // numpy, from the algorithm
	shuffled := slices.Clone(fs)
	slices.Reverse(shuffled)
	near(t, "order", stat.SweepCalibration(shuffled, r).Hi, stat.SweepCalibration(fs, r).Hi, 0)
	for _, bad := range []float64{math.NaN(), math.Inf(1), -.1, 1.1} {
		fs[0].P = bad
		vacuous(t, "bad forecast", stat.DebiasedCalibration(fs, 3, r), 0, 1)
		vacuous(t, "bad forecast", stat.SweepCalibration(fs, r), 0, 1)
		vacuous(t, "bad forecast", stat.Brier(fs, r).Score, 0, 1)
	}
	vacuous(t, "no forecasts", stat.DebiasedCalibration(nil, 3, r), math.Inf(-1), math.Inf(1))
	if b := stat.Brier(nil, r); b.Score.Defined() || !math.IsNaN(b.Resolution) || b.Curve != nil {
		t.Errorf("Brier of nothing = %+v", b)
	}
}

// TestPerfectPredictorIsCalibrated prints why the plug-in error is not offered:
// forecasts that are exactly right seem miscalibrated by it. 300 draws, seed 9.
func TestPerfectPredictorIsCalibrated(t *testing.T) {
	for _, n := range []int{50, 300, 1000} {
		plug, squared, sweep := 0., 0., 0.
		const draws = 300
		for d := range draws {
			random := rand.New(rand.NewPCG(9, uint64(d)))
			fs := make([]stat.Forecast, n)
			for i := range fs {
				p := random.Float64()
				fs[i] = stat.Forecast{P: p, N: 1, Group: strconv.Itoa(i)}
				if random.Float64() < p {
					fs[i].Hits = 1
				}
			}
			once := stat.Resample{Replicates: 1}
			plug += pluginECE(fs, 15) / draws
			squared += stat.DebiasedCalibration(fs, 15, once).Value / draws
			sweep += stat.SweepCalibration(fs, once).Value / draws
		}
		t.Logf("perfect predictor, n=%d: plug-in ECE %.3f, ECE sweep %.3f, debiased squared error %+.5f", n, plug, sweep, squared)
		near(t, "debiased error of a perfect predictor, n="+strconv.Itoa(n), squared, 0, .002)
		if sweep >= plug {
			t.Errorf("n=%d: the sweep %.3f is no better than the plug-in %.3f", n, sweep, plug)
		}
		if n == 50 && math.Abs(plug-.167) > .02 {
			t.Errorf("plug-in error %.3f at n=50, expected about .167", plug)
		}
	}
}

// pluginECE is the usual, biased, expected calibration error.
func pluginECE(fs []stat.Forecast, bins int) float64 {
	sum, y, n := make([]float64, bins), make([]float64, bins), make([]float64, bins)
	for _, f := range fs {
		b := min(bins-1, int(f.P*float64(bins)))
		sum[b], n[b] = sum[b]+f.P, n[b]+1
		y[b] += float64(f.Hits)
	}
	total := 0.
	for b := range n {
		total += math.Abs(y[b]-sum[b]) / float64(len(fs))
	}
	return total
}

func TestBrier(t *testing.T) {
	// scikit-learn 1.x IsotonicRegression, then the CORP identities.
	fs := forecasts([]float64{.1, .4, .35, .8, .8, .4, .9, .2, .6, .55}, []int{0, 0, 1, 1, 0, 1, 1, 0, 1, 0})
	b := stat.Brier(fs, stat.Resample{Replicates: 200})
	near(t, "score", b.Score.Value, .2145, 1e-12)
	near(t, "reliability", b.Reliability, .04783333333333337, 1e-12)
	near(t, "resolution", b.Resolution, .08333333333333331, 1e-12)
	near(t, "uncertainty", b.Uncertainty, .25, 1e-12)
	near(t, "identity", b.Reliability-b.Resolution+b.Uncertainty, b.Score.Value, 1e-12)
	want := []stat.CurvePoint{{.1, .2, 0, 2}, {.35, .55, .5, 4}, {.6, .8, 2. / 3, 3}, {.9, .9, 1, 1}}
	if !slices.EqualFunc(b.Curve, want, func(a, b stat.CurvePoint) bool {
		return a.From == b.From && a.To == b.To && a.N == b.N && math.Abs(a.Rate-b.Rate) < 1e-12
	}) {
		t.Errorf("curve %v, want %v", b.Curve, want)
	}
}

func TestAUC(t *testing.T) {
	// scikit-learn roc_auc_score; numpy for DeLong's variance from the placements.
	p, y := []float64{.1, .4, .35, .8, .8, .4, .9, .2, .6, .55}, []int{0, 0, 1, 1, 0, 1, 1, 0, 1, 0}
	bounds(t, "AUC", stat.AUC(forecasts(p, y), .95), .72, .37602771670179724, 1, 1e-9)
	perfect := stat.AUC(forecasts([]float64{.1, .2, .8, .9}, []int{0, 0, 1, 1}), .95)
	if perfect.Value != 1 || perfect.Lo > .2 {
		t.Errorf("a perfect order of four gives %v: it proves very little", perfect)
	}
	near(t, "all tied", stat.AUC(forecasts([]float64{.5, .5, .5}, []int{0, 1, 1}), .95).Value, .5, 0)
	vacuous(t, "one outcome only", stat.AUC(forecasts([]float64{.1, .2}, []int{1, 1}), .95), 0, 1)
	vacuous(t, "NaN", stat.AUC(forecasts([]float64{math.NaN(), .2}, []int{1, 0}), .95), 0, 1)
}

func TestKendallTauB(t *testing.T) {
	for _, row := range []struct {
		x, y   []float64
		want   float64
		reason string
	}{
		{[]float64{1, 2, 2, 3, 4, 4, 4, 5}, []float64{1, 3, 2, 2, 5, 5, 4, 4}, .6531972647421809, "scipy, ties on both sides"},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, []float64{1, 3, 2, 5, 4, 7, 6, 9, 8, 10}, .8222222222222222, "scipy, no ties"},
		{[]float64{1, 1, 2, 2}, []float64{1, 1, 2, 2}, 1, "ties that agree are agreement"},
		{[]float64{1, 2, 3}, []float64{3, 2, 1}, -1, "reversed"},
	} {
		near(t, row.reason, stat.KendallTauB(row.x, row.y).Value, row.want, 1e-12)
	}
	vacuous(t, "constant", stat.KendallTauB([]float64{1, 1}, []float64{1, 2}), -1, 1)
	vacuous(t, "empty", stat.KendallTauB(nil, nil), -1, 1)
	vacuous(t, "ragged", stat.KendallTauB([]float64{1}, nil), -1, 1)
	vacuous(t, "NaN", stat.KendallTauB([]float64{1, math.NaN()}, []float64{1, 2}), -1, 1)
}

func TestRankInversion(t *testing.T) {
	dream := [][]float64{make([]float64, 50), make([]float64, 50)}
	truth := [][]float64{make([]float64, 50), make([]float64, 50)}
	for i := range 50 {
		dream[0][i], truth[0][i] = .5, .9
		dream[1][i], truth[1][i] = .8, .2
	}
	e := stat.RankInversion(dream, truth, stat.Resample{})
	near(t, "the dream prefers the worse checkpoint on every task", e.Value, 1, 1e-9)
	near(t, "and agrees with itself", stat.RankInversion(truth, truth, stat.Resample{}).Value, 0, 0)
	flat := [][]float64{dream[0], dream[0]}
	near(t, "no preference counts half", stat.RankInversion(flat, truth, stat.Resample{}).Value, .5, 1e-9)
	vacuous(t, "one checkpoint", stat.RankInversion(dream[:1], truth[:1], stat.Resample{}), 0, 1)
	vacuous(t, "ragged", stat.RankInversion(dream, [][]float64{{1}, {0}}, stat.Resample{}), 0, 1)
	vacuous(t, "no tasks", stat.RankInversion([][]float64{{}, {}}, [][]float64{{}, {}}, stat.Resample{}), 0, 1)
	truth[0][0] = math.NaN()
	vacuous(t, "NaN", stat.RankInversion(dream, truth, stat.Resample{}), 0, 1)
}

func TestConfusion(t *testing.T) {
	// scikit-learn 1.x on the same 100 answers.
	c := stat.Confusion{{50, 3, 2}, {4, 20, 6}, {1, 0, 14}}
	near(t, "balanced accuracy", c.BalancedAccuracy(), .8363636363636363, 1e-12)
	near(t, "MCC", c.MCC(), .7374188594207357, 1e-12)
	near(t, "macro F1", c.MacroF1(), .8068548823265805, 1e-12)
	sparse := stat.Confusion{{50, 0, 0}, {0, 0, 0}, {5, 0, 0}}
	near(t, "a class that never occurs is no class", sparse.BalancedAccuracy(), .5, 1e-12)
	near(t, "always the same answer correlates with nothing", sparse.MCC(), math.NaN(), 0)
	for name, bad := range map[string]stat.Confusion{
		"empty": {}, "ragged": {{1, 2}, {1}}, "NaN": {{math.NaN()}}, "negative": {{1, -1}, {0, 1}},
	} {
		if !math.IsNaN(bad.BalancedAccuracy()) || !math.IsNaN(bad.MCC()) || !math.IsNaN(bad.MacroF1()) {
			t.Errorf("%s matrix has figures", name)
		}
	}
	groups := []stat.Confusion{{{5, 1}, {0, 4}}, {{9, 0}, {1, 2}}, {{3, 2}, {2, 3}}}
	e := stat.OfConfusion("MCC", groups, stat.Confusion.MCC, stat.Resample{})
	near(t, "summed over groups", e.Value, stat.Confusion{{17, 3}, {3, 9}}.MCC(), 1e-12)
	if !(e.Lo < e.Value && e.Value < e.Hi) || e.N != 32 || e.Clusters != 3 {
		t.Errorf("interval over three groups: %v", e)
	}
	vacuous(t, "no groups", stat.OfConfusion("MCC", nil, stat.Confusion.MCC, stat.Resample{}), math.Inf(-1), math.Inf(1))
}

func TestBootstrap(t *testing.T) {
	clusters := binary(5, 5, 4, 5, 0, 3, 5, 2, 5)
	a, b := stat.BootstrapMean(clusters, stat.Resample{Seed: 1}), stat.BootstrapMean(clusters, stat.Resample{Seed: 1})
	if a != b {
		t.Errorf("equal seeds give %v and %v", a, b)
	}
	near(t, "value", a.Value, .725, 1e-12)
	// The exact distribution of the resampled mean has standard deviation sqrt(Σ(p_g-p)²)/K.
	near(t, "width", (a.Hi-a.Lo)/2/1.96, .1221550, .015)
	unanimous := stat.BootstrapMean(binary(5, 5, 5, 5), stat.Resample{})
	bounds(t, "no spread falls back to Clopper-Pearson", unanimous, 1, stat.ClopperPearson(3, 3, .95).Lo, 1, 1e-12)
	vacuous(t, "no clusters", stat.BootstrapMean(nil, stat.Resample{}), math.Inf(-1), math.Inf(1))
	vacuous(t, "confidence", stat.BootstrapMean(clusters, stat.Resample{Confidence: 2}), math.Inf(-1), math.Inf(1))
	never := stat.Resample{}.Estimate(3, 3, func([]int) float64 { return math.NaN() })
	vacuous(t, "a statistic that never exists", never, math.Inf(-1), math.Inf(1))
}
