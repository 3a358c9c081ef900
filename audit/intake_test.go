package audit_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"understudy/audit"
)

// One message with 14,408 calls was seen (field case T29).
func TestAFloodOfCallsIsCappedAndCounted(t *testing.T) {
	t.Parallel()
	const flood = 14_408
	ep := calls(audit.Forced)
	for i := range flood {
		user := fmt.Sprintf("u%d", i%3)
		if i >= flood-2000 {
			user = fmt.Sprintf("x%d", i) // 2,000 different ones at the end
		}
		ep.Actions = append(ep.Actions, audit.Action{
			Step: i, Call: call("get_wallet", `{"user_id":"`+user+`"}`), Rehearsal: answer(`{"wallet":1000}`),
		})
	}
	ep.Actions = append(ep.Actions, audit.Action{
		Step: flood, Message: 1, Call: call("get_wallet", `{"user_id":"u0"}`), Rehearsal: answer(`{"wallet":1000}`),
	})
	pairs := episode(t, newAuditor(t, audit.Config{}), ep)
	total, scored := 0, 0
	for _, p := range pairs {
		total += 1 + p.Repeats
		if p.Verdict.Scored() {
			scored++
		}
	}
	if total != flood+1 {
		t.Errorf("the pairs stand for %d calls, want %d: none is lost", total, flood+1)
	}
	if scored > 513 {
		t.Errorf("%d audits, want the cap of 512 and the next message", scored)
	}
	last := pairs[len(pairs)-1]
	if last.Action.Step != flood || !last.Verdict.Scored() || last.Verdict.Severity != audit.S0 {
		t.Errorf("the neighbour after the flood: %+v", last.Verdict)
	}
	if !slices.Contains(pairs[0].Verdict.Flags, audit.FlagCollapsed) {
		t.Errorf("flags %v of the first, want %s", pairs[0].Verdict.Flags, audit.FlagCollapsed)
	}
}

func TestBadEpisodesAreClassedNotDropped(t *testing.T) {
	t.Parallel()
	wallet := call("get_wallet", `{"user_id":"u0"}`)
	good := answer(`{"wallet":1000}`)
	for _, tc := range []struct {
		reason  string
		actions []audit.Action
		masks   []audit.MaskReason
		flag    string // of the first pair
	}{
		{
			"repeated call ids are no identity",
			[]audit.Action{{Step: 0, CallID: "c", Call: wallet, Rehearsal: good}, {Step: 1, CallID: "c", Call: wallet, Rehearsal: good}},
			[]audit.MaskReason{"", ""},
			audit.FlagRepeatedCallID,
		},
		{
			"two results for one key are two pairs with that key",
			[]audit.Action{{Step: 0, Call: wallet, Rehearsal: good}, {Step: 0, Call: wallet, Rehearsal: answer(`{"wallet":1}`)}},
			[]audit.MaskReason{"", ""},
			audit.FlagRepeatedSample,
		},
		{
			"two calls at one step are two calls",
			[]audit.Action{{Step: 0, Call: wallet, Rehearsal: good}, {Step: 0, Call: call("find_orders", `{"user_id":"u0"}`), Rehearsal: good}},
			[]audit.MaskReason{"", ""},
			audit.FlagRepeatedStep,
		},
		{
			"a gap masks what comes after it",
			[]audit.Action{{Step: 0, Call: wallet, Rehearsal: good}, {Step: 2, Call: wallet, Rehearsal: good}, {Step: 3, Call: wallet, Rehearsal: good}},
			[]audit.MaskReason{"", audit.MaskHistory, audit.MaskHistory},
			"",
		},
		{
			"disorder is sorted",
			[]audit.Action{{Step: 1, Call: wallet, Rehearsal: good}, {Step: 0, Call: wallet, Rehearsal: good}},
			[]audit.MaskReason{"", ""},
			"",
		},
		{
			"a cut rehearsal is unparseable, its neighbour is judged",
			[]audit.Action{{Step: 0, Call: wallet, Rehearsal: &audit.Rehearsal{Raw: []byte(`{"wallet":10`), Truncated: true}}, {Step: 1, Call: wallet, Rehearsal: good}},
			[]audit.MaskReason{"", ""},
			audit.FlagTruncated,
		},
		{
			"an empty rehearsal is an answer that says nothing",
			[]audit.Action{{Step: 0, Call: wallet, Rehearsal: &audit.Rehearsal{}}},
			[]audit.MaskReason{""},
			"",
		},
		{
			"no arguments at all",
			[]audit.Action{{Step: 0, Call: audit.Call{Tool: "get_wallet"}, Rehearsal: good}, {Step: 1, Call: wallet, Rehearsal: good}},
			[]audit.MaskReason{"", ""},
			"",
		},
		{"no actions", nil, nil, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			t.Parallel()
			ep := calls(audit.Forced)
			ep.Actions = tc.actions
			for i := range ep.Actions {
				ep.Actions[i].Message = i
			}
			pairs := episode(t, newAuditor(t, audit.Config{}), ep)
			var masks []audit.MaskReason
			for _, p := range pairs {
				masks = append(masks, p.Verdict.Masked)
			}
			if !slices.Equal(masks, tc.masks) {
				t.Errorf("masks %q, want %q", masks, tc.masks)
			}
			if tc.flag != "" && !slices.Contains(pairs[0].Verdict.Flags, tc.flag) {
				t.Errorf("flags %v, want %s", pairs[0].Verdict.Flags, tc.flag)
			}
			if _, err := json.Marshal(pairs); err != nil {
				t.Errorf("the pairs cannot be stored: %v", err)
			}
		})
	}
}

func TestOneKeyTwoResults(t *testing.T) {
	t.Parallel()
	ep := calls(audit.Forced, call("get_wallet", `{"user_id":"u0"}`), call("get_wallet", `{"user_id":"u0"}`))
	ep.Actions[1].Step = 0
	ep.Actions[0].Rehearsal, ep.Actions[1].Rehearsal = answer(`{"wallet":1000}`), answer(`{"wallet":1}`)
	pairs := episode(t, newAuditor(t, audit.Config{}), ep)
	if pairs[0].Key != pairs[1].Key || pairs[0].Verdict.Severity == pairs[1].Verdict.Severity {
		t.Errorf("keys %s and %s, severities %v and %v: want one key with two results",
			pairs[0].Key, pairs[1].Key, pairs[0].Verdict.Severity, pairs[1].Verdict.Severity)
	}
}

func TestNonFiniteNumbersAreDropped(t *testing.T) {
	t.Parallel()
	inf := float32(1)
	for range 200 {
		inf *= 10
	}
	ep := read()
	nan := float64(inf - inf)
	ep.Actions[0].Rehearsal = &audit.Rehearsal{Raw: []byte(`{"wallet":1010}`), LogProbs: []float32{-1, inf}, Confidence: &nan}
	p := episode(t, newAuditor(t, audit.Config{}), ep)[0]
	if p.Action.Rehearsal.LogProbs != nil || p.Action.Rehearsal.Confidence != nil || !slices.Contains(p.Verdict.Flags, audit.FlagNonFiniteLogProb) {
		t.Errorf("%+v flags %v: want non-finite numbers dropped and flagged", p.Action.Rehearsal, p.Verdict.Flags)
	}
	if !p.Verdict.Scored() {
		t.Errorf("masked %s: the answer itself is fine", p.Verdict.Masked)
	}
	if _, err := json.Marshal(p); err != nil {
		t.Errorf("marshal: %v", err)
	}
	nasty := read()
	nasty.Actions[0].Rehearsal = answer(`{"wallet":1e400000000}`)
	if v := episode(t, newAuditor(t, audit.Config{}), nasty)[0].Verdict; v.Scores.Valid || !slices.Contains(v.Flags, audit.FlagOversize) || v.Severity != audit.S4 {
		t.Errorf("1e400000000: %+v, want an oversize answer that is judged, not averaged", v)
	}
}

// Of a flooded message whose calls have several rehearsals each, every rehearsal is in a pair or counted by one, once.
func TestFloodOfRehearsalsIsCountedOnce(t *testing.T) {
	t.Parallel()
	ep := calls(audit.Forced)
	for step := range 4 { // u0 twice, then u1 and u2 beyond the limit of one
		for sample := range 2 {
			ep.Actions = append(ep.Actions, audit.Action{
				Step: step, Sample: sample, Call: call("get_wallet", fmt.Sprintf(`{"user_id":"u%d"}`, max(0, step-1))), Rehearsal: answer(`{"wallet":1000}`),
			})
		}
	}
	var got []int
	for _, p := range episode(t, newAuditor(t, audit.Config{Limits: audit.Limits{CallsPerMessage: 1}}), ep) {
		got = append(got, p.Repeats)
	}
	if want := []int{2, 0, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("pairs stand for %v further actions, want %v: eight actions in all", got, want)
	}
}

// Whatever an episode looks like, every action is in a pair or counted by one.
func TestNoActionIsLost(t *testing.T) {
	t.Parallel()
	env := shop(t, 1)
	auditor := newAuditor(t, audit.Config{Opener: opener{"shop": env}, Limits: audit.Limits{CallsPerMessage: 4}})
	rapid.Check(t, func(rt *rapid.T) {
		ep := calls(rapid.SampledFrom([]audit.Mode{audit.Forced, audit.Open, audit.Probe, audit.Canary}).Draw(rt, "mode"))
		n := rapid.IntRange(0, 20).Draw(rt, "n")
		for range n {
			ep.Actions = append(ep.Actions, audit.Action{
				Step: rapid.IntRange(0, 12).Draw(rt, "step"), Message: rapid.IntRange(0, 3).Draw(rt, "message"),
				Sample: rapid.IntRange(0, 1).Draw(rt, "sample"), CallID: rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "id"),
				Call: call(rapid.SampledFrom([]string{"get_wallet", "cancel_order", "nope", ""}).Draw(rt, "tool"),
					rapid.SampledFrom([]string{`{"user_id":"u0"}`, `{"user_id":"u0","order_id":"W100","reason":"mistake"}`, `{`, ``, "\x00"}).Draw(rt, "arguments")),
				Rehearsal: answer(rapid.SampledFrom([]string{`{"wallet":1000}`, `[]`, `{`, "", `{"error":"no"}`, strings.Repeat("[", 5000)}).Draw(rt, "answer")),
			})
		}
		pairs, err := auditor.Episode(t.Context(), ep)
		if err != nil {
			rt.Fatalf("episode: %v", err)
		}
		total := 0
		for _, p := range pairs {
			if p.Action.Probe == 0 {
				total += 1 + p.Repeats
			}
			if _, err := json.Marshal(p); err != nil {
				rt.Fatalf("marshal: %v", err)
			}
		}
		if total != n {
			rt.Fatalf("pairs stand for %d actions, want %d", total, n)
		}
	})
}
