package audit_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"understudy/audit"
)

// seenCall is an audited call of a prompt group; its arguments are its id.
func seenCall(group, id string, severity audit.Severity) audit.AuditedCall {
	return audit.AuditedCall{
		Key: sha256.Sum256([]byte(group + id + severity.String())), PromptGroup: group, GroupOrder: group, Environment: "shop", Version: "1",
		EnvDigest: sha256.Sum256([]byte("shop@1")), Mode: audit.Forced, Tool: "get", Arguments: sha256.Sum256([]byte(id)),
		Before: sha256.Sum256([]byte("state")), Real: "ok", Rehearsed: "ok", Severity: severity, Weight: 1,
	}
}

func withChange(c audit.AuditedCall, change func(*audit.AuditedCall)) audit.AuditedCall {
	change(&c)
	return c
}

func TestCompareRunsSaysWhatBecameOfEachCall(t *testing.T) {
	t.Parallel()
	right, wrong := seenCall("g", "x", audit.S1), seenCall("g", "x", audit.S3)
	for name, row := range map[string]struct {
		a, b   audit.AuditedCall
		want   audit.Change // "" = unmatched
		reason audit.Mismatch
	}{
		"regressed":       {a: right, b: wrong, want: audit.Regressed},
		"improved":        {a: wrong, b: right, want: audit.Improved},
		"both wrong":      {a: wrong, b: seenCall("g", "x", audit.S5), want: audit.BothWrong},
		"both right":      {a: right, b: seenCall("g", "x", audit.S2), want: audit.BothRight},
		"other arguments": {a: right, b: seenCall("g", "y", audit.S0), reason: audit.OtherArguments},
		"other state":     {a: right, b: withChange(right, func(c *audit.AuditedCall) { c.Before = sha256.Sum256([]byte("other")) }), reason: audit.OtherState},
		"other version":   {a: right, b: withChange(right, func(c *audit.AuditedCall) { c.EnvDigest = sha256.Sum256([]byte("shop@2")) }), reason: audit.OtherWorld},
		"other tool":      {a: right, b: withChange(right, func(c *audit.AuditedCall) { c.Tool = "put" }), reason: audit.NotCalled},
		"other prompt":    {a: right, b: seenCall("h", "x", audit.S0), reason: audit.NoSuchGroup},
		"masked":          {a: right, b: withChange(right, func(c *audit.AuditedCall) { c.Masked = audit.MaskSandboxFault }), reason: audit.MaskedCall},
		"after the fork":  {a: right, b: withChange(right, func(c *audit.AuditedCall) { c.Cascaded = true }), reason: audit.CascadedCall},
	} {
		got := audit.CompareRuns(&audit.GroupSample{Run: "a", Calls: []audit.AuditedCall{row.a}}, &audit.GroupSample{Run: "b", Calls: []audit.AuditedCall{row.b}})
		switch {
		case row.want != "" && (len(got.Matched) != 1 || got.Matched[0].Change != row.want || got.Total.Counts[row.want] != 1):
			t.Errorf("%s: matched %+v", name, got.Matched)
		case row.want == "" && (len(got.Matched) != 0 || len(got.Unmatched) != 2):
			t.Errorf("%s: matched %d, unmatched %d; want 0 and 2", name, len(got.Matched), len(got.Unmatched))
		case row.want == "":
			for _, u := range got.Unmatched {
				if u.Reason != row.reason {
					t.Errorf("%s: second=%v says %s, want %s", name, u.Second, u.Reason, row.reason)
				}
			}
		}
	}
}

func TestCompareRunsMatchesEachCallOnce(t *testing.T) {
	t.Parallel()
	x := seenCall("g", "x", audit.S0)
	got := audit.CompareRuns(&audit.GroupSample{Calls: []audit.AuditedCall{x, x, x}}, &audit.GroupSample{Calls: []audit.AuditedCall{x, x}})
	if len(got.Matched) != 2 || len(got.Unmatched) != 1 || got.Unmatched[0].Reason != audit.NotCalled || got.Unmatched[0].Second {
		t.Errorf("matched %d, unmatched %+v: three calls and two have two in common", len(got.Matched), got.Unmatched)
	}
}

// TestCompareRunsAgainstANaiveCount compares random samples, and swaps them:
// what regressed one way improved the other.
func TestCompareRunsAgainstANaiveCount(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 5))
	var a, b audit.GroupSample
	regressed, tools := 0, map[string]int{}
	for i := range 400 {
		tool := fmt.Sprintf("tool-%d", rng.IntN(3))
		x := withChange(seenCall(fmt.Sprintf("g%02d", i/8), strconv.Itoa(i), audit.Severity(rng.IntN(6))), func(c *audit.AuditedCall) { c.Tool = tool })
		y := withChange(x, func(c *audit.AuditedCall) { c.Severity = audit.Severity(rng.IntN(6)) })
		a.Calls, b.Calls = append(a.Calls, x), append(b.Calls, y)
		if x.Severity < audit.S3 && y.Severity >= audit.S3 {
			regressed++
			tools[tool]++
		}
	}
	forth, back := audit.CompareRuns(&a, &b), audit.CompareRuns(&b, &a)
	if forth.Total.Counts[audit.Regressed] != regressed || back.Total.Counts[audit.Improved] != regressed || forth.Total.N() != 400 || forth.Groups != 50 {
		t.Errorf("regressed %d of %d in %d groups, want %d of 400 in 50", forth.Total.Counts[audit.Regressed], forth.Total.N(), forth.Groups, regressed)
	}
	if d := forth.Total.Delta.Value + back.Total.Delta.Value; d > 1e-12 || d < -1e-12 {
		t.Errorf("the differences %v and %v do not cancel", forth.Total.Delta.Value, back.Total.Delta.Value)
	}
	for _, d := range forth.Tools {
		if d.Counts[audit.Regressed] != tools[d.Tool] || !d.Delta.Defined() || d.Delta.Clusters == 0 {
			t.Errorf("%s: %d regressed, want %d (%v)", d.Tool, d.Counts[audit.Regressed], tools[d.Tool], d.Delta)
		}
	}
	for i := 1; i < len(forth.Matched); i++ {
		if forth.Matched[i].Jump() > forth.Matched[i-1].Jump() {
			t.Fatalf("call %d got worse by more than the one before it", i)
		}
	}
}

func TestCompareRunsKeepsToTheGroupsOfBoth(t *testing.T) {
	t.Parallel()
	a := audit.GroupSample{Calls: []audit.AuditedCall{seenCall("a", "1", 0), seenCall("b", "2", 0), seenCall("c", "3", 0)}, Through: "c"}
	b := audit.GroupSample{Calls: []audit.AuditedCall{seenCall("a", "1", 0), seenCall("b", "2", 0)}, Through: "b"}
	got := audit.CompareRuns(&a, &b)
	if len(got.Matched) != 1 || len(got.Unmatched) != 0 || !got.Sampled {
		t.Errorf("matched %d, unmatched %+v: only group a is whole on both sides", len(got.Matched), got.Unmatched)
	}
}

func TestRehearsalSweepCountsWhatIsHeldBack(t *testing.T) {
	t.Parallel()
	var calls []audit.AuditedCall
	add := func(step int, truth string, rehearsed ...string) {
		for sample, r := range rehearsed {
			calls = append(calls, audit.AuditedCall{PromptGroup: strconv.Itoa(step), Step: step, Sample: sample, Real: truth, Rehearsed: r, Weight: 1})
		}
	}
	add(0, "error:not_found", "ok", "error:not_found", "error:limit")
	add(1, "ok", "ok", "ok", "error:limit")
	add(2, "error:limit", "ok", "ok", "ok")
	add(3, "ok", "error:limit") // rehearsed once: it says nothing about N = 2
	points := audit.RehearsalSweep(calls)
	want := map[string][2]float64{"any 1": {0, 0}, "any 2": {.5, 0}, "any 3": {.5, 1}, "majority 1": {0, 0}, "majority 2": {0, 0}, "majority 3": {.5, 0}}
	if len(points) != len(want) {
		t.Fatalf("%d points, want %d", len(points), len(want))
	}
	for _, p := range points {
		name := fmt.Sprintf("%s %d", p.Rule, p.Attempts)
		if w := want[name]; p.Avoided.Value != w[0] || p.Suppressed.Value != w[1] || p.Avoided.N != 2 || p.Suppressed.N != 1 {
			t.Errorf("%s: avoided %v, suppressed %v; want %v of 2 and 1", name, p.Avoided, p.Suppressed, w)
		}
	}
	if got := audit.RehearsalSweep(calls[9:]); got != nil {
		t.Errorf("a call rehearsed once gives %v: there is nothing to sweep", got)
	}
}
