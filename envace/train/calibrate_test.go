package train_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/train"
)

// rehearsed is a rollout whose ACT makes two calls at once, of which one is dropped, and
// then a third.
func rehearsed() *envace.Trajectory {
	call := func(tool string) audit.Call { return audit.Call{Tool: tool, Arguments: json.RawMessage(`{}`)} }
	answer := func(tool, raw, delta string) *envace.Answer {
		r := &envace.Rehearsed{Output: envace.Output{Role: audit.RehearseRole}, Rehearsal: audit.Rehearsal{Raw: []byte(raw)}}
		if delta != "" {
			r.StateDelta = []byte(delta)
		}
		return &envace.Answer{Call: call(tool), Raw: []byte(raw), Rehearsal: r}
	}
	act := func(tools ...string) *envace.Act {
		a := &envace.Act{Output: envace.Output{Role: audit.ActRole, Text: strings.Join(tools, " ")}}
		for _, tool := range tools {
			a.Calls = append(a.Calls, call(tool))
		}
		return a
	}
	t := &envace.Trajectory{Transcript: envace.Transcript{Task: audit.Task{ID: "t"}}, Stop: envace.StopDone, Dropped: 1}
	t.Items = []envace.Item{
		{Act: act("a", "b")}, {Answer: answer("a", `{"x":1}`, `[]`)},
		{Answer: &envace.Answer{Call: call("b"), Raw: []byte(`{"error":{}}`), Dropped: true}},
		{Act: act("c")}, {Answer: answer("c", `{}`, "")},
	}
	return t
}

// The scorer is asked about what happened: not about calls that were never made, with
// the state delta that came with an answer, and of success only where it is known.
func TestAskedOfTheScorer(t *testing.T) {
	t.Parallel()
	for _, unknown := range []bool{false, true} {
		scorer := &payer{}
		paid, err := train.Calibrated(t.Context(), train.Config{Arm: train.ArmCalibrated, Scorer: scorer}, rehearsed(), envace.Grade{Success: true, Unknown: unknown})
		if err != nil {
			t.Fatal(err)
		}
		if len(paid) != 4 || paid[0] != 0 || paid[1] == 0 || paid[2] != 0 || paid[3] == 0 {
			t.Errorf("outputs are paid %v, want REHEARSE's: the second and the fourth", paid)
		}
		asked := scorer.asked[0].Outputs
		if len(asked) != 2 || len(asked[1].History) != 1 || asked[1].History[0].Call.Tool != "a" || *asked[1].Step != 1 {
			t.Fatalf("asked about %+v; the dropped call is no history", asked)
		}
		if r, fault := envace.ParseRehearsal(*asked[0].Rehearsal); fault != envace.FaultNone || string(r.Raw) != `{"x":1}` || string(r.StateDelta) != `[]` {
			t.Errorf("the scorer reads %q with the delta %q of %q", r.Raw, r.StateDelta, *asked[0].Rehearsal)
		}
		if *asked[1].Rehearsal != `{}` {
			t.Errorf("an answer without a delta: %q", *asked[1].Rehearsal)
		}
		if got := asked[1].Success; asked[0].Success != nil || (got == nil) != unknown || got != nil && !*got {
			t.Errorf("unknown %v: success %v: what nobody could grade is no failure", unknown, got)
		}
	}
}

// forgetful answers for one output fewer than it was asked about.
type forgetful struct{ payer }

func (f *forgetful) Score(ctx context.Context, b audit.ScoreBatch) (audit.ScoredBatch, error) {
	scored, err := f.payer.Score(ctx, b)
	scored.Scores = scored.Scores[1:]
	return scored, err
}

func TestScoresThatAreMissing(t *testing.T) {
	t.Parallel()
	c := train.Config{Arm: train.ArmCalibrated, Scorer: &forgetful{}}
	if paid, err := train.Calibrated(t.Context(), c, rehearsed(), envace.Grade{}); err == nil {
		t.Errorf("paid %v, with one score for two outputs", paid)
	}
}
