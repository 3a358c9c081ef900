package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"understudy/audit"
)

// twins is n pairs whose twins disagree on /at always, on /seen in every 25th,
// and on the outcome in every 5th.
func twins(n int) []audit.Pair {
	pairs := make([]audit.Pair, n)
	for i := range pairs {
		observe := func(side int) *audit.Observation {
			raw := fmt.Sprintf(`{"id":"W1","total":5,"seen":%d,"at":"%d-%d","big":{"a":1,"b":2,"c":3}}`, side*boolInt(i%25 == 0), i, side)
			return &audit.Observation{Status: audit.StatusOK, Raw: []byte(raw), Evidence: audit.EvidenceExact}
		}
		pairs[i] = audit.Pair{Action: audit.Action{Call: audit.Call{Tool: "get"}}, Observation: observe(0), Twin: observe(1)}
		if i%5 == 4 {
			pairs[i].Twin = &audit.Observation{Status: audit.StatusRefused, Raw: []byte(`{"error":"busy"}`)}
		}
	}
	return pairs
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestNoiseIsLearnedFromTwins(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		twins  int
		want   []string
		reason string
	}{
		{23, nil, "19 twins whose outcomes agree are too few"},
		{200, []string{"/at"}, "what always differs is noise, what differs in 4 % is not"},
	} {
		learner := audit.NewNoiseLearner(defaults(t))
		learner.Observe(twins(tc.twins))
		noise := learner.Freeze()
		if got := noise.Masks("get"); !slices.Equal(got, tc.want) {
			t.Errorf("%d twins: masks %v, want %v: %s (%+v)", tc.twins, got, tc.want, tc.reason, noise.Paths)
		}
	}
}

func TestMaskedNoiseIsNotComparedAndShown(t *testing.T) {
	t.Parallel()
	learner := audit.NewNoiseLearner(defaults(t))
	learner.Observe(twins(100))
	rules, err := defaults(t).WithNoise(learner.Freeze())
	if err != nil {
		t.Fatal(err)
	}
	if rules.Digest() == defaults(t).Digest() {
		t.Error("learned noise does not change the digest of the rules")
	}
	truth := &audit.Observation{Status: audit.StatusOK, Raw: []byte(`{"id":"W1","total":5,"at":"now"}`), Evidence: audit.EvidenceExact}
	judge := func(raw string) audit.Verdict {
		return rules.Judge(&audit.Case{Tool: audit.Tool{Name: "get", Effect: audit.Read}, Observation: truth, Rehearsal: answer(raw)})
	}
	if v := judge(`{"id":"W1","total":5,"at":"then"}`); v.Severity != audit.S0 || v.Scores.MaskedWeight <= 0 {
		t.Errorf("%v %+v, want the volatile path masked and its weight shown", v.Severity, v.Scores)
	}
	if v := judge(`{"id":"W1","total":6,"at":"then"}`); v.Severity != audit.S3 {
		t.Errorf("%v, want what is not masked still compared", v.Severity)
	}
	if v := judge(`{"error":"busy"}`); v.Severity != audit.S4 {
		t.Errorf("%v, want the outcome never masked", v.Severity)
	}
}

func TestNoiseBeyondItsBudgetIsScored(t *testing.T) {
	t.Parallel()
	pairs := make([]audit.Pair, 60)
	for i := range pairs {
		observe := func(side int) *audit.Observation {
			return &audit.Observation{Status: audit.StatusOK, Raw: fmt.Appendf(nil, `{"a":"%d","b":"%d","c":"%d","d":"%d","e":5}`, side, side, side, side)}
		}
		pairs[i] = audit.Pair{Action: audit.Action{Call: audit.Call{Tool: "get"}}, Observation: observe(0), Twin: observe(1)}
	}
	learner := audit.NewNoiseLearner(defaults(t))
	learner.Observe(pairs)
	noise := learner.Freeze()
	if n := len(noise.Masks("get")); n != 1 {
		t.Errorf("%d of four volatile fifths masked, want one: the budget is 30 %% of the weight", n)
	}
	rules, err := defaults(t).WithNoise(noise)
	if err != nil {
		t.Fatal(err)
	}
	var stored audit.Noise
	if text, err := json.Marshal(noise); err != nil || json.Unmarshal(text, &stored) != nil || stored.Digest() != noise.Digest() {
		t.Errorf("stored noise differs: %s, %v", text, err)
	}
	v := rules.Judge(&audit.Case{Tool: audit.Tool{Name: "get"}, Observation: pairs[0].Observation, Rehearsal: answer(`{"a":"0","b":"0","c":"0","d":"0","e":5}`)})
	if v.Scores.MaskedWeight > .3 || !slices.Contains(v.Flags, audit.FlagMaskCapped) {
		t.Errorf("masked weight %v, flags %v: want it capped and said", v.Scores.MaskedWeight, v.Flags)
	}
}

// An environment that is not deterministic is executed twice, from the same
// state with another clock and seed.
func TestTwinsAreExecuted(t *testing.T) {
	t.Parallel()
	env := faulty{
		Environment: shop(t, 1),
		info:        func(info *audit.EnvironmentInfo) { info.Deterministic = false },
	}
	var starts []audit.Start
	env.open = func(_ context.Context, start audit.Start) error { starts = append(starts, start); return nil }
	calls := 0
	env.called = func(_ context.Context, _ int, _ audit.Call, o *audit.Observation) error {
		calls++
		o.Raw = fmt.Appendf(nil, `{"wallet":%d}`, calls)
		return nil
	}
	p := episode(t, newAuditor(t, audit.Config{Opener: opener{"shop": env}}), read())[0]
	if p.Twin == nil || string(p.Twin.Raw) == string(p.Observation.Raw) {
		t.Fatalf("twin %v beside %s", p.Twin, p.Observation.Raw)
	}
	if len(starts) != 2 || starts[0].Seed == starts[1].Seed {
		t.Errorf("starts %+v, want two with different seeds", starts)
	}
	calls = 0
	p = episode(t, newAuditor(t, audit.Config{Opener: opener{"shop": env}, NoTwins: true}), read())[0]
	if p.Twin != nil || calls != 1 {
		t.Errorf("%d calls with twins switched off", calls)
	}
}

// A twin that refuses what the sandbox does lives in another world from then on:
// what differs there is no noise.
func TestATwinThatIsOutOfStepTeachesNothing(t *testing.T) {
	t.Parallel()
	env := faulty{
		Environment: shop(t, 1), opened: new(atomic.Int64),
		info: func(info *audit.EnvironmentInfo) { info.Deterministic = false },
		called: func(_ context.Context, session int, c audit.Call, o *audit.Observation) error {
			if session == 2 && c.Tool == "cancel_order" {
				o.Status, o.Raw = audit.StatusRefused, []byte(`{"error":"busy"}`)
			}
			return nil
		},
	}
	look := call("get_wallet", `{"user_id":"u0"}`)
	ep := calls(audit.Forced, look, call("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"mistake"}`), look)
	pairs := episode(t, newAuditor(t, audit.Config{Opener: opener{"shop": env}}), ep)
	for i, want := range []bool{true, true, false} {
		if twin := pairs[i].Twin != nil; twin != want {
			t.Errorf("step %d: compared with the twin: %v, want %v", i, twin, want)
		}
	}
}

func TestTheOrderOfNoiseIsNoPartOfItsDigest(t *testing.T) {
	t.Parallel()
	a := audit.NoisePath{Tool: "get", Pattern: "/a", Masked: true}
	b := audit.NoisePath{Tool: "get", Pattern: "/b", Masked: true}
	if x, y := audit.NewNoise([]audit.NoisePath{a, b}), audit.NewNoise([]audit.NoisePath{b, a}); x.Digest() != y.Digest() {
		t.Error("the same masks have two digests")
	}
}
