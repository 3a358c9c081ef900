package audit_test

import (
	"testing"

	"understudy/audit"
)

func TestTheTruthScoresFull(t *testing.T) {
	t.Parallel()
	pairs := episode(t, newAuditor(t, audit.Config{}), spoiled(t, mix()))
	for _, p := range pairs {
		v := p.Verdict
		if !v.Scored() || v.Severity != audit.S0 || v.Scores.Phi == nil || *v.Scores.Phi != 1 {
			t.Errorf("step %d %s: %s %s %v real %v rehearsed %v phi %v flags %v diffs %v, want S0 and phi 1",
				p.Action.Step, p.Action.Call.Tool, v.Masked, v.MaskDetail, v.Severity, v.Real, v.Rehearsed, v.Scores.Phi, v.Flags, v.Differences)
		}
		if v.Evidence != audit.EvidenceExact || v.Rules.IsZero() || p.Key.IsZero() {
			t.Errorf("step %d: no provenance in %+v", p.Action.Step, v)
		}
	}
}

func TestEachPerturbationIsGraded(t *testing.T) {
	t.Parallel()
	const (
		get      = `{"user_id":"u0","order_id":"W100"}`
		cancel   = `{"user_id":"u0","order_id":"W100","reason":"mistake"}`
		shipped  = `{"user_id":"u1","order_id":"W101","reason":"mistake"}`
		stranger = `{"user_id":"u1","order_id":"W100"}`
	)
	for _, tc := range []struct {
		how    audit.Perturbation
		call   audit.Call
		want   audit.Severity
		phi    func(float64) bool
		reason string
	}{
		{audit.Faithful, call("get_order", get), audit.S0, is(1), "the truth"},
		{audit.WrongField, call("get_order", get), audit.S3, between(.7, 1), "one wrong leaf is material and costs that leaf"},
		{audit.WrongField, call("cancel_order", cancel), audit.S3, below(1), "of a write too"},
		{audit.WrongFamily, call("cancel_order", shipped), audit.S4, is(.5), "right class, wrong family"},
		{audit.AlwaysOK, call("cancel_order", shipped), audit.S5, is(0), "false success"},
		{audit.AlwaysOK, call("get_order", stranger), audit.S5, is(0), "of a read too"},
		{audit.AlwaysError, call("get_order", get), audit.S4, is(.25), "false error"},
		{audit.AlwaysError, call("cancel_order", cancel), audit.S4, is(0), "that also denies the write"},
		{audit.EchoArguments, call("get_order", get), audit.S3, below(.5), "wrong shape"},
		{audit.SilentClaim, call("cancel_order", cancel), audit.S3, is(0), "made, not claimed"},
		{audit.PhantomClaim, call("get_order", get), audit.S5, is(1), "claimed by a read; its answer is right all the same"},
		{audit.PhantomClaim, call("cancel_order", shipped), audit.S0, is(1), "a rehearsed error claims nothing"},
		{audit.Padded, call("get_order", get), audit.S3, between(.4, .95), "padding costs"},
		{audit.Omitting, call("get_order", get), audit.S3, between(.2, .95), "omission costs"},
		{audit.Garbled, call("get_order", get), audit.S4, is(0), "what cannot be read is no answer"},
	} {
		t.Run(string(tc.how)+"/"+tc.call.Tool, func(t *testing.T) {
			t.Parallel()
			ep := spoiled(t, calls(audit.Forced, tc.call), audit.Share{Perturbation: tc.how, Weight: 1})
			v := episode(t, newAuditor(t, audit.Config{}), ep)[0].Verdict
			if !v.Scored() || v.Severity != tc.want || v.Scores.Phi == nil || !tc.phi(*v.Scores.Phi) {
				t.Errorf("%s: severity %v phi %v (%s %s, differences %v, scores %+v), want %v", tc.reason,
					v.Severity, deref(v.Scores.Phi), v.Masked, v.Scores.PhiMask, v.Differences, v.Scores, tc.want)
			}
		})
	}
}

func TestOneFlippedFieldCostsExactlyOneLeaf(t *testing.T) {
	t.Parallel()
	ep := spoiled(t, mix(), audit.Share{Perturbation: audit.WrongField, Weight: 1})
	for _, p := range episode(t, newAuditor(t, audit.Config{}), ep) {
		if p.Verdict.Real.IsError() || p.Verdict.Real.Class == audit.OKEmpty {
			continue
		}
		if n := len(p.Verdict.Differences); n != 1 {
			t.Errorf("step %d: %d differences %v, want exactly the flipped leaf", p.Action.Step, n, p.Verdict.Differences)
		}
	}
}

// Nothing that ignores the call may earn more than a rehearser that tries.
func TestConstantRehearsersEarnLessThanAnHonestOne(t *testing.T) {
	t.Parallel()
	mean := func(shares ...audit.Share) float64 {
		return meanPhi(episode(t, newAuditor(t, audit.Config{}), spoiled(t, mix(), shares...)))
	}
	// Honest, not perfect: half of its answers have a wrong field or family.
	honest := mean(
		audit.Share{Perturbation: audit.Faithful, Weight: 2},
		audit.Share{Perturbation: audit.WrongField, Weight: 1},
		audit.Share{Perturbation: audit.WrongFamily, Weight: 1},
	)
	for _, how := range []audit.Perturbation{
		audit.AlwaysError, audit.EchoArguments, audit.Garbled,
	} {
		if got := mean(audit.Share{Perturbation: how, Weight: 1}); got >= honest {
			t.Errorf("%s earns %.3f, an honest rehearser %.3f", how, got, honest)
		}
	}
	for _, says := range []string{`{"success":true}`, `[]`, `{}`, `{"error":{"code":"conflict","message":"no"}}`} {
		constant := mix()
		for i := range constant.Actions {
			constant.Actions[i].Rehearsal = answer(says)
		}
		if got := meanPhi(episode(t, newAuditor(t, audit.Config{}), constant)); got >= honest {
			t.Errorf("always %s earns %.3f, an honest rehearser %.3f", says, got, honest)
		}
	}
	truth := mean(audit.Share{Perturbation: audit.Faithful, Weight: 1})
	for _, how := range []audit.Perturbation{audit.Padded, audit.Omitting, audit.SilentClaim} {
		if got := mean(audit.Share{Perturbation: how, Weight: 1}); got >= truth {
			t.Errorf("%s earns %.3f, the truth %.3f: padding, omission and silence cost", how, got, truth)
		}
	}
}

func is(want float64) func(float64) bool { return func(x float64) bool { return x == want } }

func below(limit float64) func(float64) bool { return func(x float64) bool { return x < limit } }

func between(lo, hi float64) func(float64) bool {
	return func(x float64) bool { return lo < x && x < hi }
}

func deref(x *float64) float64 {
	if x == nil {
		return -1
	}
	return *x
}

func meanPhi(pairs []audit.Pair) float64 {
	total, n := 0.0, 0
	for i := range pairs {
		if phi := pairs[i].Verdict.Scores.Phi; phi != nil {
			total, n = total+*phi, n+1
		}
	}
	return total / float64(max(n, 1))
}
