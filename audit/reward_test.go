package audit_test

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"understudy/audit"
)

func scored(tool string, truth, rehearsed audit.Outcome, phi float64) audit.Pair {
	return audit.Pair{
		Episode: "e", Policy: "p", Mode: audit.Open, Effect: audit.Read,
		Action: audit.Action{Call: audit.Call{Tool: tool}},
		Verdict: audit.Verdict{
			Real: truth, Rehearsed: rehearsed,
			FalseSuccess: truth.IsError() && !rehearsed.IsError(),
			Scores:       audit.Scores{Valid: true, Phi: &phi},
		},
	}
}

func ok() audit.Outcome { return audit.Outcome{Class: audit.OK} }

func failed(family audit.Family) audit.Outcome {
	return audit.Outcome{Class: audit.Failed, Family: family}
}

func TestOutcomeGrade(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		truth, rehearsed audit.Outcome
		want             float64
		reason           string
	}{
		{ok(), ok(), 1, "match"},
		{failed(audit.NotFound), failed(audit.NotFound), 1, "same family"},
		{failed(audit.NotFound), failed(audit.Conflict), .5, "right class, wrong family"},
		{ok(), audit.Outcome{Class: audit.OKEmpty}, .5, "a success of the other kind has the right class"},
		{ok(), failed(audit.NotFound), .25, "false error"},
		{failed(audit.NotFound), ok(), 0, "false success earns nothing"},
		{failed(audit.NotFound), audit.Outcome{Class: audit.OKEmpty}, 0, "an empty success is a success"},
	} {
		if got := audit.OutcomeGrade(tc.truth, tc.rehearsed); got != tc.want {
			t.Errorf("OutcomeGrade(%v, %v) = %v, want %v: %s", tc.truth, tc.rehearsed, got, tc.want, tc.reason)
		}
	}
}

func TestRewardIsAlwaysFinite(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{
			math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 5e-324, math.MaxFloat64,
		}))
		pair := scored("t", ok(), ok(), number.Draw(t, "phi"))
		pair.Action.Inclusion = number.Draw(t, "inclusion")
		pair.Verdict.Scores.Shape = new(number.Draw(t, "shape"))
		pair.Verdict.Scores.LeafF1 = new(number.Draw(t, "leaf_f1"))
		seen := []audit.Baseline{{Tool: "t", Outcome: ok().Label(), Sum: number.Draw(t, "sum"), Weight: number.Draw(t, "weight")}}
		first := (*audit.Baselines)(nil).Next(1, 1, seen)
		r := audit.RewardOf(&pair, first.Next(2, 0.9, seen))
		if !(r.Baseline >= 0 && r.Baseline <= 1) {
			t.Fatalf("baseline %v, want it in [0,1]", r.Baseline)
		}
		for name, x := range map[string]float64{"baseline": r.Baseline, "weight": r.Weight, "term": r.Term} {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("%s = %v from %+v", name, x, pair.Verdict.Scores)
			}
		}
		if r.Phi != nil && !(*r.Phi >= 0 && *r.Phi <= 1) {
			t.Fatalf("phi = %v", *r.Phi)
		}
		if r.Components != nil && math.IsNaN(r.Components.Phi()) {
			t.Fatalf("components %+v", *r.Components)
		}
		if scored := r.Status == audit.RewardScored; scored != (r.Weight >= 1) || r.Weight > 10 || !scored && r.Weight != 0 {
			t.Fatalf("%s with weight %v, want it in [1, 10], and 0 when masked", r.Status, r.Weight)
		}
		if math.Abs(r.Term) > r.Weight {
			t.Fatalf("term %v exceeds the weight %v", r.Term, r.Weight)
		}
	})
}

func TestMaskedPairsArePaidNothing(t *testing.T) {
	t.Parallel()
	for _, reason := range audit.MaskReasons() {
		pair := scored("t", ok(), ok(), .9)
		pair.Verdict.Masked = reason
		r := audit.RewardOf(&pair, nil)
		if r.Status != audit.RewardMasked || r.Phi != nil || r.Term != 0 || r.Reason != reason {
			t.Errorf("%s: %+v, want masked, null and 0", reason, r)
		}
	}
	pair := scored("t", ok(), ok(), 0)
	pair.Verdict.Scores.Phi, pair.Verdict.Scores.PhiMask = nil, audit.MaskUnobservable
	if r := audit.RewardOf(&pair, nil); r.Status != audit.RewardMasked || r.Reason != audit.MaskUnobservable {
		t.Errorf("unobservable write: %+v, want masked with its reason", r)
	}
}

func TestBaselinesAreFrozenAndKeyedByTheRealOutcome(t *testing.T) {
	t.Parallel()
	frozen := (*audit.Baselines)(nil).Next(7, 1, []audit.Baseline{
		{Tool: "cancel", Outcome: ok().Label(), Sum: 800, Weight: 1000},
		{Tool: "cancel", Outcome: failed(audit.NotFound).Label(), Sum: 0, Weight: 1000},
	})
	high, low := frozen.Of("cancel", ok()), frozen.Of("cancel", failed(audit.NotFound))
	if math.Abs(high-.8) > .01 || low > .01 {
		t.Errorf("baselines %v and %v, want about .8 for ok and 0 for not_found", high, low)
	}
	next := frozen.Next(8, 1, []audit.Baseline{{Tool: "cancel", Outcome: ok().Label(), Sum: 0, Weight: 1000}})
	if frozen.Of("cancel", ok()) != high || frozen.Version() != 7 || next.Of("cancel", ok()) >= high {
		t.Error("frozen baselines moved")
	}
	text, err := json.Marshal(frozen)
	var stored audit.Baselines
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	if err != nil || stored.Version() != 7 || stored.Of("cancel", ok()) != high || stored.Of("other", failed(audit.Limit)) != frozen.Of("other", failed(audit.Limit)) {
		t.Errorf("stored baselines differ: %s, %v", text, err)
	}
	if got := frozen.Of("never_seen", ok()); math.Abs(got-high) > .01 {
		t.Errorf("unseen tool: %v, want the outcome's mean %v", got, high)
	}
	if got := (*audit.Baselines)(nil).Of("t", ok()); got != .5 {
		t.Errorf("no baselines: %v, want the prior", got)
	}
}
