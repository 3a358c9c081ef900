package stat_test

import (
	"math"
	"strconv"
	"testing"

	"understudy/audit/stat"
)

// binary makes one cluster per hit count, each of m yes-or-no observations.
func binary(m int, hits ...int) []stat.Cluster {
	clusters := make([]stat.Cluster, len(hits))
	for i, h := range hits {
		clusters[i] = stat.Cluster{Group: strconv.Itoa(i), N: m, Weight: float64(m), Sum: float64(h), SumSq: float64(h)}
	}
	return clusters
}

func TestClustered(t *testing.T) {
	// statsmodels 0.14: OLS on a constant, cov_type="cluster", use_t=True. With
	// equal cluster sizes its K/(K-1) correction equals CR2.
	clusters := binary(5, 5, 4, 5, 0, 3, 5, 2, 5)
	e := stat.Clustered(clusters, .95)
	bounds(t, "equal sizes", e, .725, .41620532, 1.03379468, 1e-7)
	near(t, "n_eff", e.NEff, 11.691099476439787, 1e-9)
	near(t, "deff", stat.DesignEffect(clusters), 3.421406180026871, 1e-9)
	if e.N != 40 || e.Clusters != 8 {
		t.Errorf("n=%d in %d clusters, want 40 in 8", e.N, e.Clusters)
	}
	// numpy: residuals of unequal clusters divided by sqrt(1 - leverage), t with 3 degrees of freedom.
	unequal := []stat.Cluster{
		{Group: "a", N: 1, Weight: 1, Sum: 1, SumSq: 1},
		{Group: "b", N: 2, Weight: 2, Sum: 1, SumSq: 1},
		{Group: "c", N: 3, Weight: 3, Sum: 3, SumSq: 3},
		{Group: "d", N: 10, Weight: 10, Sum: 4, SumSq: 4},
	}
	bounds(t, "unequal sizes", stat.Clustered(unequal, .95), .5625, -.046801699360892624, 1.1718016993608926, 1e-9)
}

func TestClusteredProportions(t *testing.T) {
	clusters := binary(5, 5, 4, 5, 0, 3, 5, 2, 5)
	// scipy: Korn-Graubard, n_eff·(t_39/t_7)², then Beta quantiles.
	e := stat.ClusteredClopperPearson(clusters, .95)
	bounds(t, "Korn-Graubard", e, .725, .3403087875877051, .9550629892230841, 1e-9)
	near(t, "n_eff", e.NEff, 8.554411286685008, 1e-9)
	w := stat.ClusteredWilson(clusters, .95)
	if !(w.Lo > e.Lo && w.Hi < e.Hi) {
		t.Errorf("Wilson %v is not inside Clopper-Pearson %v", w, e)
	}
}

func TestClustersThatAgree(t *testing.T) {
	all, none := binary(8, 8, 8, 8, 8, 8, 8), binary(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	e := stat.ClusteredClopperPearson(all, .95)
	near(t, "n_eff of six unanimous groups", e.NEff, 6, 1e-12)
	near(t, "lower bound", e.Lo, stat.ClopperPearson(6, 6, .95).Lo, 1e-12)
	e = stat.ClusteredClopperPearson(none, .95)
	near(t, "n_eff of ten single calls", e.NEff, 10, 1e-12)
	near(t, "upper bound", e.Hi, stat.ClopperPearson(0, 10, .95).Hi, 1e-12)
	half := stat.ClusteredWilson(binary(2, 1, 1, 1, 1), .95)
	near(t, "n_eff when clusters vary less than chance", half.NEff, 8*.5520801, 1e-5) // (t_7/t_3)²
}

func TestBadClusters(t *testing.T) {
	inf := math.Inf(1)
	for _, row := range []struct {
		clusters []stat.Cluster
		reason   string
	}{
		{nil, "no clusters"},
		{[]stat.Cluster{{Group: "a"}, {Group: "b"}}, "all weights zero"},
		{[]stat.Cluster{{Group: "a", N: 1, Weight: math.NaN()}}, "NaN weight"},
		{[]stat.Cluster{{Group: "a", N: 1, Weight: 1, Sum: inf}}, "infinite sum"},
		{[]stat.Cluster{{Group: "a", N: 1, Weight: -1}}, "negative weight"},
	} {
		vacuous(t, row.reason, stat.Clustered(row.clusters, .95), -inf, inf)
		vacuous(t, row.reason, stat.ClusteredWilson(row.clusters, .95), 0, 1)
		vacuous(t, row.reason, stat.ClusteredClopperPearson(row.clusters, .95), 0, 1)
		vacuous(t, row.reason, stat.PairedDifference(row.clusters, row.clusters, .95), -inf, inf)
	}
	one := binary(5, 2)
	if e := stat.Clustered(one, .95); e.Value != .4 || !math.IsInf(e.Lo, -1) || !math.IsInf(e.Hi, 1) {
		t.Errorf("one cluster gives %v, want .4 with open bounds", e)
	}
	if e := stat.ClusteredClopperPearson(one, .95); e.Lo != 0 || e.Hi != 1 {
		t.Errorf("one divided cluster gives %v, want [0,1]", e)
	}
	beyond := []stat.Cluster{{Group: "a", N: 1, Weight: 1, Sum: 3, SumSq: 9}, {Group: "b", N: 1, Weight: 1, Sum: 2, SumSq: 4}}
	vacuous(t, "values beyond 1 as a proportion", stat.ClusteredWilson(beyond, .95), 0, 1)
}

func TestPairedDifference(t *testing.T) {
	a, b := binary(5, 5, 4, 5, 0, 3, 5, 2, 5), binary(5, 4, 4, 3, 1, 2, 5, 1, 4)
	// scipy: t interval of the eight differences of group means.
	bounds(t, "paired", stat.PairedDifference(a, b, .95), .125, -.02817999712271696, .2781799971227169, 1e-9)
	extra := append(binary(5, 4, 4, 3, 1, 2, 5, 1, 4), stat.Cluster{Group: "only here", N: 100, Weight: 100})
	bounds(t, "unmatched groups left out", stat.PairedDifference(a, extra, .95), .125, -.02817999712271696, .2781799971227169, 1e-9)
	vacuous(t, "no shared group", stat.PairedDifference(a[:1], b[1:2], .95), math.Inf(-1), math.Inf(1))
}

func TestHajek(t *testing.T) {
	// Two groups, equal within. Weights 1 and 4: (1·1·2 + 4·0·2) / (2+8) = .2.
	samples := []stat.Sampled{
		{Value: 1, Inclusion: 1, Group: "a"},
		{Value: 1, Inclusion: 1, Group: "a"},
		{Value: 0, Inclusion: .25, Group: "b"},
		{Value: 0, Inclusion: .25, Group: "b"},
	}
	near(t, "weighted mean", stat.Hajek(samples, stat.Inclusion{}, .95).Value, .2, 1e-12)
	samples[2].Inclusion, samples[3].Inclusion = 1e-9, 1e-9
	near(t, "cap of 10", stat.Hajek(samples, stat.Inclusion{}, .95).Value, 2./22, 1e-12)
	near(t, "floor of .02", stat.Hajek(samples, stat.Inclusion{Cap: 1e6}, .95).Value, 2./102, 1e-12)
	for _, pi := range []float64{0, -1, 1.5, math.NaN()} {
		samples[0].Inclusion = pi
		vacuous(t, "impossible inclusion", stat.Hajek(samples, stat.Inclusion{}, .95), math.Inf(-1), math.Inf(1))
	}
	vacuous(t, "no samples", stat.Hajek(nil, stat.Inclusion{}, .95), math.Inf(-1), math.Inf(1))
}

func TestRatio(t *testing.T) {
	// numpy: delta method on the logarithm with CR2 influences, t with 7 degrees of freedom.
	executed, rehearsed := binary(5, 5, 4, 5, 1, 3, 5, 2, 5), binary(5, 5, 5, 5, 2, 4, 5, 3, 4)
	bounds(t, "consistency ratio", stat.Ratio(executed, rehearsed, .95), .9090909090909092, .7621111425136192, 1.0844170028349465, 1e-9)
	back := stat.Ratio(rehearsed, executed, .95)
	near(t, "the inverse has the inverse bound", 1/back.Hi, .7621111425136192, 1e-9)
	vacuous(t, "denominator zero", stat.Ratio(executed, binary(5, 0, 0, 0, 0, 0, 0, 0, 0), .95), 0, math.Inf(1))
	if e := stat.Ratio(binary(5, 0, 0), binary(5, 4, 3), .95); e.Value != 0 || !math.IsInf(e.Hi, 1) {
		t.Errorf("numerator zero gives %v, want 0 with an open bound", e)
	}
}
