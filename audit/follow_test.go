package audit_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
)

// renamedOrder is an open episode whose first answer names a new order W7777777,
// and whose later calls speak of it so.
func renamedOrder(t *testing.T) *audit.Episode {
	t.Helper()
	place := call("place_order", `{"user_id":"u2","sku":"s1","pieces":2}`)
	session, err := shop(t, 1).Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	truth, err := session.Call(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	var order struct{ ID string }
	if err := json.Unmarshal(truth.Raw, &order); err != nil {
		t.Fatal(err)
	}
	named := strings.ReplaceAll(string(truth.Raw), order.ID, "W7777777")
	look := call("get_order", `{"user_id":"u2","order_id":"W7777777"}`)
	ep := calls(audit.Open, place, look, look)
	for i := range ep.Actions {
		ep.Actions[i].Rehearsal = answer(named)
	}
	return ep
}

// What is not audited of an open episode happened in the rehearsed world all the
// same: it names things, and it may be where the worlds fork.
func TestAnOpenEpisodeGoesOnFromWhatIsNotAudited(t *testing.T) {
	t.Parallel()
	audits := map[string]func(t *testing.T, ep *audit.Episode) []audit.Pair{
		"only led to": func(t *testing.T, ep *audit.Episode) []audit.Pair {
			t.Helper()
			ep.Actions[0].Replay = true
			return episode(t, newAuditor(t, audit.Config{}), ep)
		},
		"not drawn": func(t *testing.T, ep *audit.Episode) []audit.Pair {
			t.Helper()
			return without(t, ep, func(a *audit.Action) bool { return a.Step == 0 })
		},
	}
	for name, audited := range audits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ep := renamedOrder(t)
			for _, p := range audited(t, ep) {
				if v := p.Verdict; p.Action.Step > 0 && (v.Severity != audit.S0 || !slices.Contains(v.Flags, audit.FlagTranslated)) {
					t.Errorf("step %d: %v %v %v, want the order known by its rehearsed name", p.Action.Step, v.Severity, v.Real, v.Flags)
				}
			}
			ep.Actions[0].Rehearsal = answer(`{"error":{"code":"conflict","message":"sold out"}}`)
			for _, p := range audited(t, ep) {
				if v := p.Verdict; p.Action.Step > 0 && (!v.Cascaded || v.Fork) {
					t.Errorf("step %d: cascaded %v fork %v, want the fork before it known", p.Action.Step, v.Cascaded, v.Fork)
				}
			}
		})
	}
}

// without audits the episode under a secret that leaves out the given actions
// and nothing else.
func without(t *testing.T, ep *audit.Episode, out func(*audit.Action) bool) []audit.Pair {
	t.Helper()
	rarely := func(_ audit.Tool, a *audit.Action) float64 {
		if out(a) {
			return .02
		}
		return 1
	}
	for secret := range byte(10) {
		pairs := episode(t, newAuditor(t, audit.Config{Inclusion: rarely, Secret: []byte{secret}}), ep)
		drawn := func(p audit.Pair) bool { return out(&p.Action) && p.Verdict.Masked != audit.MaskNotSampled }
		if !slices.ContainsFunc(pairs, drawn) {
			return pairs
		}
	}
	t.Fatal("ten secrets draw what one in fifty does")
	return nil
}

// Each further rehearsal of an action stands beside the first, with the names that
// were known before the action, also where the first was not drawn.
func TestAnotherRehearsalKnowsTheNamesSoFar(t *testing.T) {
	t.Parallel()
	ep := renamedOrder(t)
	second := ep.Actions[1]
	second.Sample = 1
	ep.Actions = slices.Insert(ep.Actions, 2, second)
	for _, p := range without(t, ep, func(a *audit.Action) bool { return a.Step == 1 && a.Sample == 0 }) {
		if v := p.Verdict; v.Severity != audit.S0 {
			t.Errorf("step %d sample %d: %v %v, want the order known by its rehearsed name", p.Action.Step, p.Action.Sample, v.Severity, v.Differences)
		}
	}
}

// Calls behind an outage keep places of their own, and those that a run without
// the outage would have given them.
func TestMaskedCallsKeepTheirKeys(t *testing.T) {
	t.Parallel()
	look := call("get_wallet", `{"user_id":"u0"}`)
	ep := calls(audit.Forced, look, look, look)
	for i := range ep.Actions {
		ep.Actions[i].Rehearsal = answer(`{"wallet":1000}`)
	}
	whole := episode(t, newAuditor(t, audit.Config{}), ep)
	env := faulty{Environment: shop(t, 1), called: func(context.Context, int, audit.Call, *audit.Observation) error { return errDown }}
	for i, p := range episode(t, newAuditor(t, audit.Config{Opener: opener{"shop": env}}), ep) {
		if p.Verdict.Masked == "" {
			t.Fatalf("step %d is not masked: the test breaks nothing", i)
		}
		if p.Key != whole[i].Key {
			t.Errorf("step %d has another key behind an outage", i)
		}
	}
}
