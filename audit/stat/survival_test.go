package stat_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"understudy/audit/stat"
)

// luck are the lifetimes of testdata/survival.R: eight groups of rollouts, each alike.
func luck() []stat.Lifetime {
	groups := []struct{ times, events []int }{
		{[]int{1, 1, 2, 2}, []int{1, 1, 1, 1}},
		{[]int{6, 7, 9, 9}, []int{1, 1, 0, 0}},
		{[]int{3, 3, 4}, []int{1, 1, 1}},
		{[]int{9, 9, 9, 8}, []int{0, 0, 0, 1}},
		{[]int{2, 1}, []int{1, 1}},
		{[]int{5, 6, 6, 7}, []int{1, 1, 0, 1}},
		{[]int{1, 2, 2}, []int{1, 1, 1}},
		{[]int{9, 8, 9, 9}, []int{0, 1, 0, 0}},
	}
	var all []stat.Lifetime
	for g, group := range groups {
		for i, at := range group.times {
			all = append(all, stat.Lifetime{Time: float64(at), Event: group.events[i] == 1, Group: strconv.Itoa(g)})
		}
	}
	return all
}

// Against R's survfit with a cluster, and its influences integrated: testdata/survival.R.
func TestClusteredSurvival(t *testing.T) {
	t.Parallel()
	curve := stat.KaplanMeier(luck(), .95)
	for _, row := range []struct{ at, survival, lo, hi float64 }{
		{1, .857142857, .525805239, .963709223},
		{2, .678571429, .155532750, .922377420},
		{6, .464285714, .100683069, .773817852},
		{8, .309523810, .068714648, .598346980},
	} {
		e := curve.At(row.at)
		bounds(t, fmt.Sprintf("S(%v)", row.at), e, row.survival, row.lo, row.hi, 1e-8)
		if e.Clusters != 8 || e.N != 28 || e.NEff >= 28 {
			t.Errorf("S(%v) is of %d in %d groups, as many as %v: want 28 in 8, worth less", row.at, e.N, e.Clusters, e.NEff)
		}
	}
	bounds(t, "RMST(4.5)", curve.RMST(4.5), 3.428571429, 2.231265077, 4.5, 1e-8) // R's upper one, 4.626, lies beyond what can be
	bounds(t, "RMST(8)", curve.RMST(8), 5.101190476, 2.600811175, 7.601569778, 1e-8)
}

// A group of one is independent: its variance is Greenwood's, and the bounds differ by t
// alone.
func TestGroupsOfOneAreIndependent(t *testing.T) {
	t.Parallel()
	plain := remission()
	single := remission()
	for i := range single {
		single[i].Group = strconv.Itoa(i)
	}
	k := float64(len(single))
	wider := 2.0859634472658364 / 1.959963984540054 * math.Sqrt(k/(k-1)) // R: qt(.975, 20) / qnorm(.975)
	log := func(e stat.Estimate) float64 { return math.Log(-math.Log(e.Lo)) - math.Log(-math.Log(e.Value)) }
	a, b := stat.KaplanMeier(plain, .95), stat.KaplanMeier(single, .95)
	for _, at := range []float64{6, 13, 23} {
		near(t, fmt.Sprint("half width at ", at), log(b.At(at))/log(a.At(at)), wider, 1e-9)
	}
	near(t, "half width of the mean", (b.RMST(20).Value-b.RMST(20).Lo)/(a.RMST(20).Value-a.RMST(20).Lo), wider, 1e-9)
}

func TestClusteredSurvivalEdges(t *testing.T) {
	t.Parallel()
	group := func(name string, times ...float64) (all []stat.Lifetime) {
		for _, at := range times {
			all = append(all, stat.Lifetime{Time: math.Abs(at), Event: at > 0, Group: name})
		}
		return all
	}
	one := stat.KaplanMeier(group("a", 1, 2, -3, -3), .95)
	bounds(t, "one group bounds nothing", one.At(1), .75, 0, 1, 1e-12)
	bounds(t, "one group bounds no mean", one.RMST(3), 2.25, 0, 3, 1e-12)
	// Groups that are alike show no spread between them: that is chance, and no reason
	// to know more than from as many independent lifetimes.
	alike := stat.KaplanMeier(append(group("a", 1, 2, -3, -3), group("b", 1, 2, -3, -3)...), .95)
	free := stat.KaplanMeier(append(group("", 1, 2, -3, -3), group("", 1, 2, -3, -3)...), .95)
	if a, b := alike.At(2), free.At(2); a.Value != b.Value || a.Lo > b.Lo || a.Hi < b.Hi || a.NEff != 8 {
		t.Errorf("two groups that are alike: %v, eight lifetimes of their own: %v", a, b)
	}
	unbroken := stat.KaplanMeier(append(group("a", -3, -3, -3), group("b", -3, -3, -3)...), .95)
	bounds(t, "no event in two groups", unbroken.At(3), 1, stat.ClopperPearson(2, 2, .95).Lo, 1, 1e-12)
	gone := stat.KaplanMeier(append(group("a", 1, 1), group("b", 2, 2)...), .95)
	bounds(t, "nobody left", gone.At(2), 0, 0, 1, 0)
	if e := gone.RMST(3); !(e.Lo <= 1.5 && e.Hi >= 1.5 && e.Value == 1.5) {
		t.Errorf("mean until nobody is left: %v", e)
	}
}

// TestCoverageOfSurvival: rollouts of a prompt share its difficulty. Bounds that take
// them for independent miss what they promise, those by groups keep it. 400 draws, seed
// 7: the standard error of a row is .011.
func TestCoverageOfSurvival(t *testing.T) {
	t.Parallel()
	const groups, size, horizon, draws, at = 40, 8, 10, 400, 5.
	// A group's chance of an error a step is one of two, as likely as the other.
	chances := []float64{.03, .3}
	truth := (math.Pow(1-chances[0], at) + math.Pow(1-chances[1], at)) / 2
	random := rand.New(rand.NewPCG(7, 1))
	covered := map[bool]int{}
	for range draws {
		var all []stat.Lifetime
		for g := range groups {
			p := chances[random.IntN(2)]
			for range size {
				l := stat.Lifetime{Time: horizon, Group: strconv.Itoa(g)}
				for step := 1; step <= horizon && !l.Event; step++ {
					if random.Float64() < p {
						l.Time, l.Event = float64(step), true
					}
				}
				all = append(all, l)
			}
		}
		for _, grouped := range []bool{true, false} {
			if !grouped {
				for i := range all {
					all[i].Group = ""
				}
			}
			if e := stat.KaplanMeier(all, .95).At(at); e.Lo <= truth && truth <= e.Hi {
				covered[grouped]++
			}
		}
	}
	byGroup, alone := float64(covered[true])/draws, float64(covered[false])/draws
	t.Logf("coverage of 95 %% intervals of S(5), %d groups of %d rollouts: by groups %.3f, as if independent %.3f", groups, size, byGroup, alone)
	if byGroup < .92 || alone > .8 {
		t.Errorf("by groups %.3f, want at least .92; as if independent %.3f, which was seen to fail", byGroup, alone)
	}
}
