package audit_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
)

// Field case T2: the error of one call compounds in the next, which is judged
// against the sandbox and reported as cascaded.
func TestAnOpenEpisodeForksOnce(t *testing.T) {
	t.Parallel()
	ep := calls(audit.Open,
		call("get_wallet", `{"user_id":"u0"}`),
		call("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"mistake"}`),
		call("get_wallet", `{"user_id":"u0"}`),
	)
	ep.Actions[0].Rehearsal = answer(`{"wallet":1000}`)
	ep.Actions[1].Rehearsal = answer(`{"order_id":"W100","status":"cancelled","wallet":1023}`) // 1025
	ep.Actions[2].Rehearsal = answer(`{"wallet":1023}`)
	pairs := episode(t, newAuditor(t, audit.Config{}), ep)
	for i, want := range []struct{ fork, cascaded bool }{{false, false}, {true, false}, {false, true}} {
		v := pairs[i].Verdict
		if v.Fork != want.fork || v.Cascaded != want.cascaded {
			t.Errorf("step %d: fork %v cascaded %v severity %v, want %+v", i, v.Fork, v.Cascaded, v.Severity, want)
		}
	}
	if v := pairs[2].Verdict; v.Severity != audit.S3 || len(v.Differences) != 1 || string(v.Differences[0].Real) != "1025" {
		t.Errorf("the cascaded call is judged against the sandbox: %+v", v)
	}
	ep.Mode = audit.Forced
	for i, p := range episode(t, newAuditor(t, audit.Config{}), ep) {
		if p.Verdict.Fork || p.Verdict.Cascaded {
			t.Errorf("step %d: a forced history never forks", i)
		}
	}
}

// A rehearsed world may name a new order otherwise, as long as it goes on so.
func TestAnOpenEpisodeMayRenameIDs(t *testing.T) {
	t.Parallel()
	env := shop(t, 1)
	session, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	truth, err := session.Call(t.Context(), call("place_order", `{"user_id":"u2","sku":"s1","pieces":2}`))
	if err != nil {
		t.Fatal(err)
	}
	var order struct{ ID string }
	if err := json.Unmarshal(truth.Raw, &order); err != nil {
		t.Fatal(err)
	}
	renamed := strings.ReplaceAll(string(truth.Raw), order.ID, "W7777777")
	ep := calls(audit.Open,
		call("place_order", `{"user_id":"u2","sku":"s1","pieces":2}`),
		call("get_order", `{"user_id":"u2","order_id":"W7777777"}`),
		call("get_order", `{"user_id":"u2","order_id":"W7777777"}`),
	)
	ep.Actions[0].Rehearsal = answer(renamed)
	ep.Actions[1].Rehearsal = answer(renamed)
	ep.Actions[2].Rehearsal = answer(strings.ReplaceAll(renamed, "W7777777", "W8888888"))
	pairs := episode(t, newAuditor(t, audit.Config{}), ep)
	for i := range 2 {
		if v := pairs[i].Verdict; v.Severity != audit.S0 || *v.Scores.IDIntegrity != 1 {
			t.Errorf("step %d: %v %v, want a consistent renaming to be exact", i, v.Severity, v.Differences)
		}
	}
	if !slices.Contains(pairs[1].Verdict.Flags, audit.FlagTranslated) {
		t.Errorf("flags %v, want the argument's id translated", pairs[1].Verdict.Flags)
	}
	if v := pairs[2].Verdict; v.Severity != audit.S3 || *v.Scores.IDIntegrity != 0 {
		t.Errorf("%v %v, want the third name of one order to break the renaming", v.Severity, v.Differences)
	}
}

func TestWhatTheRehearserIsShown(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode   audit.Mode
		want   string
		reason string
	}{
		{audit.Forced, `{"wallet":1000}`, "the executed truth"},
		{audit.Open, `{"wallet":5}`, "the rehearsed world"},
	} {
		var seen []audit.Turn
		model := rehearserFunc(func(_ context.Context, req audit.RehearseRequest) ([]audit.Rehearsal, error) {
			seen = req.History
			return []audit.Rehearsal{{Raw: []byte(`{"wallet":5}`)}}, nil
		})
		ep := calls(tc.mode, call("get_wallet", `{"user_id":"u0"}`), call("get_wallet", `{"user_id":"u0"}`))
		episode(t, newAuditor(t, audit.Config{Rehearser: model}), ep)
		if len(seen) != 1 || string(seen[0].Answer) != tc.want {
			t.Errorf("%s: history %s, want %s: %s", tc.mode, seen, tc.want, tc.reason)
		}
	}
}

func TestSeveralRehearsalsOfOneAction(t *testing.T) {
	t.Parallel()
	model := rehearserFunc(func(_ context.Context, req audit.RehearseRequest) ([]audit.Rehearsal, error) {
		if req.K != 3 {
			t.Errorf("asked for %d rehearsals, want 3", req.K)
		}
		return []audit.Rehearsal{{Raw: []byte(`{"wallet":1000}`)}, {Raw: []byte(`{"wallet": 1e3}`)}}, nil // one too few
	})
	pairs := episode(t, newAuditor(t, audit.Config{Rehearser: model, Rehearsals: 3}), calls(audit.Forced, call("get_wallet", `{"user_id":"u0"}`)))
	if len(pairs) != 3 || pairs[0].Key == pairs[1].Key {
		t.Fatalf("%d pairs, want three with keys of their own", len(pairs))
	}
	if a := pairs[0].Action.Rehearsal.Agreement; a == nil || *a != 1 {
		t.Errorf("agreement %v, want 1: 1000 = 1e3", a)
	}
	if pairs[2].Verdict.Masked != audit.MaskRehearseUnavailable {
		t.Errorf("the missing answer: %q, want it masked", pairs[2].Verdict.Masked)
	}
}

// A probe asks both worlds what the write did.
func TestProbesShowWhatAWriteDid(t *testing.T) {
	t.Parallel()
	cancel := call("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"mistake"}`)
	for _, tc := range []struct {
		order, wallet string
		f1            float64
		silent        bool
		reason        string
	}{
		{"cancelled", `1025`, 1, false, "both effects"},
		{"cancelled", `1000`, 2. / 3, false, "the refund is forgotten: one of two cells"},
		{"pending", `1000`, 0, true, "the write left no trace"},
	} {
		model := rehearserFunc(func(_ context.Context, req audit.RehearseRequest) ([]audit.Rehearsal, error) {
			switch req.Call.Tool {
			case "get_order":
				return []audit.Rehearsal{{Raw: []byte(`{"id":"W100","user":"u0","status":"` + tc.order + `","sku":"s0","pieces":1,"note":"leave it at the door"}`)}}, nil
			case "get_wallet":
				return []audit.Rehearsal{{Raw: []byte(`{"wallet":` + tc.wallet + `}`)}}, nil
			default:
				return []audit.Rehearsal{{Raw: []byte(`{"order_id":"W100","status":"cancelled","wallet":1025}`)}}, nil
			}
		})
		pairs := episode(t, newAuditor(t, audit.Config{Rehearser: model}), calls(audit.Probe, cancel))
		if len(pairs) != 3 {
			t.Fatalf("%s: %d pairs, want the write and two probes", tc.reason, len(pairs))
		}
		s := pairs[0].Verdict.Scores
		if s.EffectSource != audit.EffectByProbe || s.EffectF1 == nil || *s.EffectF1 != tc.f1 || s.SilentWrite != tc.silent {
			t.Errorf("%s: %+v, want effect F1 %v by probe", tc.reason, s, tc.f1)
		}
		for _, p := range pairs[1:] {
			if p.Action.Probe == 0 || p.Mode != audit.Probe || !p.Verdict.Scored() {
				t.Errorf("%s: probe pair %+v", tc.reason, p.Verdict)
			}
		}
	}
}

func TestTerminalChecksDecideSuccess(t *testing.T) {
	t.Parallel()
	ep := calls(audit.Open, call("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"mistake"}`))
	ep.Start.Task, ep.Success = "t0", new(true)
	ep.Actions[0].Rehearsal = answer(`{"order_id":"W100","status":"cancelled","wallet":1}`)
	p := episode(t, newAuditor(t, audit.Config{}), ep)[0]
	if p.Executed == nil || !*p.Executed || p.Verdict.Severity < audit.S3 {
		t.Errorf("executed %v severity %v: want a right answer by a wrong observation", p.Executed, p.Verdict.Severity)
	}
	if c := audit.PairCounters(&p)[audit.CountRightByWrong]; c.Sum != 1 {
		t.Errorf("right by wrong is not counted: %+v", c)
	}
	ep.Actions[0].Call = call("cancel_order", `{"user_id":"u1","order_id":"W101","reason":"mistake"}`)
	p = episode(t, newAuditor(t, audit.Config{}), ep)[0]
	c := audit.EpisodeCounters([]audit.Pair{p})
	if p.Executed == nil || *p.Executed || c[audit.CountOptimistic].Sum != 1 {
		t.Errorf("executed %v, counters %v: want an optimistic gap", p.Executed, c)
	}
}

func TestAnEpisodeGoesOnFromAKeptSession(t *testing.T) {
	t.Parallel()
	var made int
	env := faulty{Environment: shop(t, 1), called: func(context.Context, int, audit.Call, *audit.Observation) error { made++; return nil }}
	for _, mode := range []audit.Mode{audit.Forced, audit.Open} {
		a := newAuditor(t, audit.Config{Opener: opener{"shop": env}, Sessions: 4})
		whole := spoiled(t, mix())
		whole.Mode = mode
		made = 0
		var keys []audit.Digest
		for n := range whole.Actions {
			live := *whole
			live.Actions = slices.Clone(whole.Actions[:n+1])
			for i := range n {
				live.Actions[i].Replay = true
			}
			pairs := episode(t, a, &live)
			if len(pairs) != 1 || pairs[0].Verdict.Severity != audit.S0 {
				t.Fatalf("%s step %d: %d pairs, %+v", mode, n, len(pairs), pairs[0].Verdict)
			}
			keys = append(keys, pairs[0].Key)
		}
		if made != len(whole.Actions) {
			t.Errorf("%s: %d sandbox calls for %d live actions: the prefix is not replayed", mode, made, len(whole.Actions))
		}
		for i, p := range episode(t, a, whole) {
			if p.Key != keys[i] {
				t.Errorf("%s step %d: the live key differs from the whole episode's", mode, i)
			}
		}
	}
}

func TestSomebodyElseWritesOnASharedState(t *testing.T) {
	t.Parallel()
	ep := calls(audit.Canary,
		call("get_order", `{"user_id":"u0","order_id":"W100"}`),
		call("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"no_need"}`),
		call("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"mistake"}`),
	)
	ep.Start.Shared = "desk"
	ep.Actions[0].Replay, ep.Actions[1].Replay, ep.Actions[1].Foreign = true, true, true
	ep.Actions[2].Canary = &audit.CanaryLabel{Mutation: "stale_write", Level: audit.DomainLevel, Family: audit.Conflict}
	var shown int
	model := rehearserFunc(func(_ context.Context, req audit.RehearseRequest) ([]audit.Rehearsal, error) {
		shown = len(req.History)
		return []audit.Rehearsal{{Raw: []byte(`{"order_id":"W100","status":"cancelled","wallet":1025}`)}}, nil
	})
	pairs := episode(t, newAuditor(t, audit.Config{Rehearser: model}), ep)
	if len(pairs) != 1 || !pairs[0].Verdict.FalseSuccess || pairs[0].Verdict.Real.Family != audit.Conflict {
		t.Fatalf("%+v, want the canary refused as a conflict and believed to succeed", pairs)
	}
	if shown != 1 {
		t.Errorf("the rehearser was shown %d turns, want only its own", shown)
	}
}

// An id that a call makes up is nobody's fault, its effect included.
func TestAMadeUpIDIsNoDifference(t *testing.T) {
	t.Parallel()
	ep := spoiled(t, calls(audit.Forced, call("place_order", `{"user_id":"u2","sku":"s1","pieces":2}`)))
	r := ep.Actions[0].Rehearsal
	var order struct{ ID string }
	if err := json.Unmarshal(r.Raw, &order); err != nil {
		t.Fatal(err)
	}
	r.Raw = []byte(strings.ReplaceAll(string(r.Raw), order.ID, "W4242424"))
	r.StateDelta = json.RawMessage(strings.ReplaceAll(string(r.StateDelta), order.ID, "W4242424"))
	a := newAuditor(t, audit.Config{})
	if v := episode(t, a, ep)[0].Verdict; v.Severity != audit.S0 || *v.Scores.EffectF1 != 1 || *v.Scores.IDIntegrity != 1 {
		t.Errorf("%v %v %+v: want another id to be exact, also in the claimed effect", v.Severity, v.Differences, v.Scores)
	}
	r.Raw = []byte(strings.Replace(string(r.Raw), `"s1"`, `"s2"`, 1))
	if v := episode(t, a, ep)[0].Verdict; v.Severity != audit.S3 || len(v.Differences) != 1 {
		t.Errorf("%v %v: want the other field alone to count", v.Severity, v.Differences)
	}
}

// A probe that nobody answered says nothing about the write's effect.
func TestAMaskedProbeIsNoSilence(t *testing.T) {
	t.Parallel()
	model := rehearserFunc(func(_ context.Context, req audit.RehearseRequest) ([]audit.Rehearsal, error) {
		switch req.Call.Tool {
		case "get_order":
			return []audit.Rehearsal{{Raw: []byte(`{"id":"W100","user":"u0","status":"cancelled","sku":"s0","pieces":1,"note":"leave it at the door"}`)}}, nil
		case "get_wallet":
			return []audit.Rehearsal{{Unavailable: "the model server answered 503"}}, nil
		default:
			return []audit.Rehearsal{{Raw: []byte(`{"order_id":"W100","status":"cancelled","wallet":1025}`)}}, nil
		}
	})
	cancel := call("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"mistake"}`)
	pairs := episode(t, newAuditor(t, audit.Config{Rehearser: model}), calls(audit.Probe, cancel))
	if s := pairs[0].Verdict.Scores; s.EffectF1 == nil || *s.EffectF1 != 1 || *s.RealCells != 1 {
		t.Errorf("effect F1 %v of %v cells, want the one cell that was asked about right", s.EffectF1, s.RealCells)
	}
}
