package diff_test

import (
	"math"
	"testing"

	"understudy/audit/diff"
)

// rules parses the rules of one tool from YAML lines.
func rules(tb testing.TB, paths string) *diff.Rules {
	tb.Helper()
	if paths == "" {
		return nil
	}
	text := "version: \"1\"\ntools:\n  t:\n"
	policy, err := diff.ParsePolicy([]byte(text + paths))
	if err != nil {
		tb.Fatalf("policy %.200s: %v", paths, err)
	}
	return policy.For("t")
}

func TestCompareScores(t *testing.T) {
	t.Parallel()
	tests := []struct {
		real, rehearsed, paths string
		want                   string // the explanation
		f1                     float64
		reason                 string
	}{
		{
			`{"a":1,"b":[1,2,3]}`, `{"a":1.0,"b":[1,3]}`, "",
			"/b/1: the rehearsal omits 2\n", 8. / 9, "an array of 3 weighs 3 and each leaf 2; only recall suffers",
		},
		{
			`[1.0001,2.0001]`, `[2,1.0]`, "\"\": {array: multiset}\n/*: {rule: number, abs: 0.01}",
			"", 1, "tolerances hold inside multisets",
		},
		{
			`[1,2,3]`, `[3,1,2]`, "",
			"the whole answer: the same elements in another order\n", 2. / 3, "the longest run in order counts",
		},
	}
	for _, tt := range tests {
		c := diff.Compare(rules(t, indent(tt.paths)), decode(t, tt.real), decode(t, tt.rehearsed), nil)
		if got := c.Explain(); got != tt.want || math.Abs(c.F1-tt.f1) > 1e-9 {
			t.Errorf("%s, %s: got F1 %.6f and %q, want %.6f and %q: %s",
				tt.real, tt.rehearsed, c.F1, got, tt.f1, tt.want, tt.reason)
		}
	}
}
