package audit_test

import (
	"context"
	"math"
	"testing"

	"understudy/audit"
)

func TestSamplingIsAnnouncedBeforeAnythingIsExecuted(t *testing.T) {
	t.Parallel()
	executed := 0
	env := faulty{Environment: shop(t, 1), called: func(context.Context, int, audit.Call, *audit.Observation) error { executed++; return nil }}
	var draws []audit.Draw
	a := newAuditor(t, audit.Config{
		Opener: opener{"shop": env}, Secret: []byte("s"),
		Inclusion: func(tool audit.Tool, _ *audit.Action) float64 {
			if tool.Effect == audit.Read {
				return math.NaN() // clipped to the floor
			}
			return 3
		},
		Announce: func(_ context.Context, d []audit.Draw) error {
			if executed > 0 {
				t.Error("a call was executed before the draws were announced")
			}
			draws = d
			return nil
		},
	})
	pairs := episode(t, a, spoiled(t, mix()))
	if len(draws) != len(pairs) {
		t.Fatalf("%d draws for %d pairs", len(draws), len(pairs))
	}
	for i, p := range pairs {
		d := draws[i]
		if d.Key != p.Key || d.Inclusion != p.Action.Inclusion || d.U < 0 || d.U >= 1 {
			t.Errorf("draw %+v of pair %s with π %v", d, p.Key, p.Action.Inclusion)
		}
		if d.Included() != (p.Verdict.Masked != audit.MaskNotSampled) {
			t.Errorf("step %d: draw %+v, masked %q", i, d, p.Verdict.Masked)
		}
		if p.Effect == audit.Write && p.Verdict.Masked == audit.MaskNotSampled {
			t.Errorf("step %d: a write with π 1 was left out", i)
		}
		if !p.Verdict.Scored() && p.Observation != nil {
			t.Errorf("step %d: a pair that was not drawn keeps no observation", i)
		}
	}
	if executed != len(pairs) {
		t.Errorf("%d of %d calls executed: what is not audited still leads to the next state", executed, len(pairs))
	}
}

func TestAnInclusionThatIsBroughtAlongWasDrawnByTheCaller(t *testing.T) {
	t.Parallel()
	ep := read()
	ep.Actions[0].Inclusion = 0.05
	a := newAuditor(t, audit.Config{Inclusion: func(audit.Tool, *audit.Action) float64 { return 0 }, Secret: []byte("s")})
	p := episode(t, a, ep)[0]
	if !p.Verdict.Scored() || p.Action.Inclusion != 0.05 || audit.InclusionWeight(p.Action.Inclusion) != 10 {
		t.Errorf("masked %q, π %v: want it audited at the caller's π, its weight capped", p.Verdict.Masked, p.Action.Inclusion)
	}
}

func TestDrawsFollowTheirInclusion(t *testing.T) {
	t.Parallel()
	const n = 4000
	a := newAuditor(t, audit.Config{Inclusion: func(audit.Tool, *audit.Action) float64 { return .3 }, Secret: []byte("s")})
	other := newAuditor(t, audit.Config{Inclusion: func(audit.Tool, *audit.Action) float64 { return .3 }, Secret: []byte("another")})
	in, differ := 0, 0
	ep := calls(audit.Forced)
	for i := range n {
		ep.Actions = append(ep.Actions, audit.Action{Step: i, Message: i, Call: call("get_wallet", `{"user_id":"u1"}`), Rehearsal: answer(`{"wallet":1010}`)})
	}
	one, two := episode(t, a, ep), episode(t, other, ep)
	for i := range one {
		if one[i].Verdict.Scored() {
			in++
		}
		if one[i].Verdict.Scored() != two[i].Verdict.Scored() {
			differ++
		}
	}
	if share := float64(in) / n; math.Abs(share-.3) > 4*math.Sqrt(.3*.7/n) {
		t.Errorf("%.3f of the calls drawn at π .3", share)
	}
	if differ == 0 {
		t.Error("two secrets draw the same calls")
	}
}

func TestStratifiedSamplingFavoursRiskyWrites(t *testing.T) {
	t.Parallel()
	inclusion := audit.Stratified(.1)
	low := .2
	for _, tc := range []struct {
		tool   audit.Tool
		r      *audit.Rehearsal
		want   float64
		reason string
	}{
		{audit.Tool{Effect: audit.Read}, nil, .1, "a read"},
		{audit.Tool{Effect: audit.Write}, nil, .4, "a write"},
		{audit.Tool{Effect: audit.Write}, &audit.Rehearsal{Confidence: &low}, 1, "an unsure write"},
		{audit.Tool{Effect: audit.UnknownEffect}, &audit.Rehearsal{Agreement: &low}, 1, "a disputed one"},
	} {
		if got := inclusion(tc.tool, &audit.Action{Rehearsal: tc.r}); got != tc.want {
			t.Errorf("%s: π %v, want %v", tc.reason, got, tc.want)
		}
	}
}
