package eval_test

import (
	"math"
	"slices"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/eval"
)

func TestPassHat(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n, c, k int
		want    float64
		reason  string
	}{
		{4, 4, 4, 1, "all right"},
		{4, 0, 1, 0, "none right"},
		{4, 3, 1, 0.75, "pass^1 is the average"},
		{4, 3, 2, 0.5, "C(3,2)/C(4,2) = 3/6"},
		{4, 2, 2, 1. / 6, "C(2,2)/C(4,2) = 1/6"},
		{4, 3, 4, 0, "C(3,4) = 0"},
		{8, 6, 3, 20. / 56, "C(6,3)/C(8,3)"},
		{3, 2, 4, math.NaN(), "fewer samples than k"},
		{4, 5, 1, math.NaN(), "more right than there are"},
	} {
		got := eval.PassHat(test.n, test.c, test.k)
		if math.IsNaN(test.want) != math.IsNaN(got) || !math.IsNaN(got) && math.Abs(got-test.want) > 1e-12 {
			t.Errorf("PassHat(%d,%d,%d) = %v, want %v: %s", test.n, test.c, test.k, got, test.want, test.reason)
		}
	}
}

func TestToolUse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reference, called string
		use               eval.ToolUse
		tr, tp, f1        float64
		reason            string
	}{
		{"abc", "abc", eval.ToolUse{Reference: 3, Called: 3, Both: 3}, 1, 1, 1, "the same"},
		{"abc", "cbaab", eval.ToolUse{Reference: 3, Called: 3, Both: 3}, 1, 1, 1, "order and repetition do not matter"},
		{"abcd", "abx", eval.ToolUse{Reference: 4, Called: 3, Both: 2}, .5, 2. / 3, 4. / 7, "two of four, two of three: 2·½·⅔/(½+⅔)"},
		{"a", "", eval.ToolUse{Reference: 1}, 0, 0, 0, "nothing was called"},
		{"ab", "cd", eval.ToolUse{Reference: 2, Called: 2}, 0, 0, 0, "nothing in common"},
	} {
		got := eval.UseOf(letters(test.reference), letters(test.called))
		if got != test.use || math.Abs(got.Recall()-test.tr) > 1e-12 || math.Abs(got.Precision()-test.tp) > 1e-12 || math.Abs(got.F1()-test.f1) > 1e-12 {
			t.Errorf("%q of %q: %+v TR %v TP %v TF1 %v; want %+v %v %v %v: %s", test.called, test.reference,
				got, got.Recall(), got.Precision(), got.F1(), test.use, test.tr, test.tp, test.f1, test.reason)
		}
	}
	paper := eval.ToolUse{Reference: 10000, Called: 4123 * 10000 / 5404, Both: 4123} // TR 41.23, TP 54.04
	if got := 100 * paper.F1(); math.Abs(got-46.77) > 0.01 {
		t.Errorf("TF1 of the paper's TR and TP is %.3f, want 46.77", got)
	}
}

func letters(text string) []string {
	var out []string
	for _, r := range text {
		out = append(out, string(r))
	}
	return out
}

// results makes samples of tasks: each text has one letter a sample, r right, w wrong,
// u unknown.
func results(tasks ...string) []eval.Result {
	var out []eval.Result
	for i, samples := range tasks {
		for j, r := range samples {
			one := eval.Result{Task: string(rune('a' + i)), Sample: j, Stop: envace.StopDone, Calls: 2, Tokens: 10}
			switch r {
			case 'r':
				one.Success, one.Score = true, 1
			case 'w':
				one.Score = 0.5
			case 'u':
				one.Unknown = "no answer"
			}
			out = append(out, one)
		}
	}
	return out
}

func TestCompute(t *testing.T) {
	t.Parallel()
	f := eval.Compute(results("rrrr", "rrww", "wwww", "rruu"), 4)
	if f.Tasks != 4 || f.Samples != 14 || f.Unknown != 2 {
		t.Fatalf("%d tasks, %d samples, %d unknown; want 4, 14, 2", f.Tasks, f.Samples, f.Unknown)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s = %v, want %v", what, got, want)
		}
	}
	near("Avg@4", f.Average.Value, 8./14)
	near("score", f.Score.Value, (8+6*.5)/14)
	near("pass^1", f.PassHat[0].Value, (1+.5+0+1)/4)
	near("pass^2", f.PassHat[1].Value, (1+1./6+0+1)/4)
	near("pass^3", f.PassHat[2].Value, (1.+0+0)/3) // the task with two known samples is left out
	near("pass^4", f.PassHat[3].Value, 1./3)
	near("tokens", f.Tokens, 10)
	if f.Average.Clusters != 4 || f.Average.NEff >= 14 || f.Average.Lo > 4./7 || f.Average.Hi < 4./7 {
		t.Errorf("%v: samples of one task are not independent", f.Average)
	}
	if len(f.Stops) != 1 || f.Stops[0] != (eval.Count{What: "done", Times: 14}) {
		t.Errorf("stops %v", f.Stops)
	}
	if f := eval.Compute(nil, 4); f.Average.Defined() {
		t.Errorf("%v of nothing", f.Average)
	}
}

// The average of every sample is that of any order of playing, to the last bit.
func TestComputeIgnoresOrder(t *testing.T) {
	t.Parallel()
	all := results("rwrw", "wwrr", "rrrw")
	back := slices.Clone(all)
	slices.Reverse(back)
	a, b := eval.Compute(all, 4), eval.Compute(back, 4)
	if a.Average != b.Average || a.PassHat[1] != b.PassHat[1] || a.Score != b.Score {
		t.Errorf("%v and %v", a, b)
	}
}

func played(benchmark string, column eval.Column, policy string, tasks ...string) eval.Played {
	return eval.Played{
		Run:     eval.Run{Benchmark: benchmark, Column: column, Policy: policy, TaskCount: len(tasks), Samples: 4},
		Figures: eval.Compute(results(tasks...), 4),
	}
}

func TestOverall(t *testing.T) {
	t.Parallel()
	bfcl := played("bfcl", eval.BFCL, "p", "rrrr", "wwww")     // .5
	retail := played("retail", eval.Tau2, "p", "rrrr", "rrrr") // 1
	airline := played("airline", eval.Tau2, "p", "rwww")       // .25
	vita := played("delivery", eval.Vita, "p", "rrww", "wwww") // .25
	fin := played("finmcp", eval.FinMCP, "other", "rrrr")      // in no Overall
	o, err := eval.OverallOf([]eval.Played{airline, bfcl, fin, retail, vita})
	if err != nil {
		t.Fatal(err)
	}
	if want := (.5 + .625 + .25) / 3; math.Abs(o.Average.Value-want) > 1e-12 || o.Policy != "p" {
		t.Errorf("Overall %v of %s, want %v of p", o.Average, o.Policy, want)
	}
	if o.Average.Lo >= o.Average.Value || o.Average.Hi <= o.Average.Value {
		t.Errorf("interval %v", o.Average)
	}
	reread := vita
	reread.Run.Rules = audit.Digest{0xab}
	for _, test := range []struct {
		played []eval.Played
		want   string
		reason string
	}{
		{[]eval.Played{bfcl, retail, reread}, "one reading of answers: bfcl has the defaults, delivery has the rules ab00000000000000", "of answers that were read by two tables"},
		{[]eval.Played{bfcl, retail}, "vita: no benchmark was run", "two columns have no mean of three"},
		{[]eval.Played{fin}, "bfcl: no benchmark was run; tau2: no benchmark was run; vita", "all that is missing is named"},
		{[]eval.Played{bfcl, retail, played("delivery", eval.Vita, "p", "rru")}, "delivery has 2 of 4 samples", "an incomplete column"},
		{[]eval.Played{bfcl, retail, played("delivery", eval.Vita, "q", "rrrr")}, "one policy: bfcl has p, delivery has q", "of two policies"},
	} {
		_, err := eval.OverallOf(test.played)
		if err == nil || audit.ErrorHint(err) == "" || !contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.reason, err, test.want)
		}
	}
}
