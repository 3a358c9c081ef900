package train_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

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
		{Act: act("a", "b")},
		{Answer: answer("a", `{"x":1}`, `[]`)},
		{Answer: &envace.Answer{Call: call("b"), Raw: []byte(`{"error":{}}`), Dropped: true}},
		{Act: act("c")},
		{Answer: answer("c", `{}`, "")},
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

// slow has no score for its first output until it is pulled so many times; each pull
// but the last brings the second's.
type slow struct {
	payer
	pulls  int
	whole  audit.ScoredBatch
	pulled []audit.Digest
}

func (s *slow) Score(ctx context.Context, b audit.ScoreBatch) (audit.ScoredBatch, error) {
	whole, err := s.payer.Score(ctx, b)
	whole.ID = audit.Digest{7}
	s.whole = whole
	return s.without(2), err
}

func (s *slow) without(pending int) audit.ScoredBatch {
	part := s.whole
	part.Pending, part.Scores = pending, slices.Clone(s.whole.Scores)
	for i := range pending {
		part.Scores[i] = audit.Reward{Status: audit.RewardPending}
	}
	return part
}

func (s *slow) Scores(_ context.Context, id audit.Digest, _ time.Duration) (audit.ScoredBatch, error) {
	s.pulled = append(s.pulled, id)
	if len(s.pulled) >= s.pulls {
		return s.whole, nil
	}
	return s.without(1), nil
}

// A slow sandbox changes no reward: what is pending is waited for, as long as scores
// come.
func TestPendingScoresAreWaitedFor(t *testing.T) {
	t.Parallel()
	for pulls, waited := range map[int]bool{1: true, 2: true, 9: false} {
		scorer := &slow{pulls: pulls}
		paid, err := train.Calibrated(t.Context(), train.Config{Arm: train.ArmCalibrated, Scorer: scorer}, rehearsed(), envace.Grade{})
		switch {
		case waited && (err != nil || paid[1] != .5 || paid[3] != .5 || len(scorer.pulled) != pulls || scorer.pulled[0] != (audit.Digest{7})):
			t.Errorf("after %d pulls: paid %v, %v, pulled %v", pulls, paid, err, scorer.pulled)
		case !waited && (audit.ErrorCode(err) != audit.CodeInfrastructure || len(scorer.pulled) != 2):
			t.Errorf("a sandbox that is stuck: paid %v, %v after %d pulls", paid, err, len(scorer.pulled))
		}
	}
}

func TestScoresThatAreMissing(t *testing.T) {
	t.Parallel()
	c := train.Config{Arm: train.ArmCalibrated, Scorer: &forgetful{}}
	if paid, err := train.Calibrated(t.Context(), c, rehearsed(), envace.Grade{}); err == nil {
		t.Errorf("paid %v, with one score for two outputs", paid)
	}
}
