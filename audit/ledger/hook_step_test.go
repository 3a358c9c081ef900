package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/sandbox/starlark"
)

func TestHookSamples(t *testing.T) {
	t.Parallel()
	l := setup(t).Ledger
	w := shop(t)
	calls := shopCalls()
	h := newHook(t, audit.HookConfig{
		Store: l, Audit: audit.Config{Opener: opener{w}}, Inclusion: audit.Stratified(0.1), Secret: []byte("s"),
		HeldOut: func(_, tool string) bool { return tool == "get_order" },
	})
	var outputs []audit.Output
	for i := range 100 {
		outputs = append(outputs, rollout(fmt.Sprint("e", i), func(int) string { return "{}" }, calls...)...)
	}
	outputs = append(outputs, audit.Output{Environment: "shop", Call: calls[0], Rehearsal: new("{}"), Role: audit.RoleAct})
	reasons := map[audit.MaskReason]int{}
	for i, r := range score(t, h, audit.ScoreBatch{Policy: "p", Outputs: outputs}).Scores {
		if r.Status == audit.RewardMasked {
			reasons[r.Reason]++
			if r.Phi != nil || r.Weight != 0 || r.Term != 0 || r.Components != nil || r.FalseSuccess || r.Real.Class != "" {
				t.Errorf("output %d: masked with numbers: %+v", i, r)
			}
		}
		want := 0.1
		if r.Tool == "cancel_order" {
			want = 0.4
		}
		if r.Reason != audit.MaskNotRehearsal && r.Inclusion != want {
			t.Errorf("output %d: π %v of %s, want %v", i, r.Inclusion, r.Tool, want)
		}
		if r.Tool == "get_order" && r.Status == audit.RewardScored {
			t.Errorf("output %d: a tool that is held out is paid", i)
		}
	}
	if reasons[audit.MaskNotRehearsal] != 1 || reasons[audit.MaskHeldOut] == 0 || reasons[audit.MaskNotSampled] < 300 {
		t.Errorf("masked for %v", reasons)
	}
}

// hanging does not answer before it is told to stop.
type hanging struct{ *starlark.Environment }

func (h hanging) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	session, err := h.Environment.Open(ctx, start)
	return hangingSession{session}, err
}

type hangingSession struct{ audit.Session }

func (hangingSession) Call(ctx context.Context, _ audit.Call) (audit.Observation, error) {
	<-ctx.Done()
	return audit.Observation{}, ctx.Err()
}

// worlds are rollouts, each in a world of its own, which nothing of another's answers.
func worlds(first, n int) []audit.Output {
	var outputs []audit.Output
	for i := range n {
		for _, o := range rollout(fmt.Sprint("e", first+i), func(int) string { return "{}" }, shopCalls()...) {
			o.Start.Seed = uint64(first + i)
			outputs = append(outputs, o)
		}
	}
	return outputs
}

// reasonsOf counts why outputs were not audited; "" counts those that were.
func reasonsOf(s audit.ScoredBatch) map[audit.MaskReason]int {
	reasons := map[audit.MaskReason]int{}
	for i := range s.Scores {
		reasons[s.Scores[i].Reason]++
	}
	return reasons
}

// A sandbox that hangs uses the step's budget up, and no more than that.
func TestHookKeepsItsBudget(t *testing.T) {
	t.Parallel()
	l := setup(t).Ledger
	const budget = 200 * time.Millisecond
	h := newHook(t, audit.HookConfig{Store: l, Audit: audit.Config{Opener: opener{hanging{shop(t)}}}, Budget: budget, Secret: []byte("s")})
	for i := range 3 {
		reasons := reasonsOf(score(t, h, audit.ScoreBatch{Policy: "p", Checkpoint: 1, Outputs: worlds(4*i, 4)}))
		if n := reasons[audit.MaskOverBudget] + reasons[audit.MaskNotSampled]; n != 20 || i == 0 && reasons[audit.MaskOverBudget] == 0 {
			t.Errorf("reasons %v of 20, want all over the budget", reasons)
		}
		spent, err := l.Spent(t.Context(), "training p", "p", 1)
		if err != nil || spent > budget || spent == 0 {
			t.Errorf("spent %s of %s: %v", spent, budget, err)
		}
	}
}

// What one batch leaves of a step's budget is the next one's, and nothing when another
// process has taken it.
func TestBatchesShareABudget(t *testing.T) {
	t.Parallel()
	l := setup(t).Ledger
	const budget = time.Hour
	h := newHook(t, audit.HookConfig{Store: l, Audit: audit.Config{Opener: opener{shop(t)}}, Budget: budget, Secret: []byte("s"), Hands: 1})
	ask := func(first int) audit.ScoredBatch {
		return score(t, h, audit.ScoreBatch{Run: "training", Policy: "p", Checkpoint: 1, Outputs: worlds(first, 60)}) // of 15 seconds' grant
	}
	first := ask(0)
	if reasons := reasonsOf(first); reasons[""] == 0 || reasons[audit.MaskNotSampled] > 0 {
		t.Errorf("reasons %v with an hour left, want outputs audited", reasons)
	}
	for { // a batch is answered before it ends
		kept, err := l.Batch(t.Context(), first.ID)
		if err != nil {
			t.Fatal(err)
		}
		if kept.Done {
			break
		}
	}
	spent, err := l.Spent(t.Context(), "training", "p", 1)
	if err != nil || spent == 0 || spent > 15*time.Second {
		t.Errorf("spent %s of a grant of 15s: %v", spent, err)
	}
	granted, err := l.Accept(t.Context(), audit.AcceptedBatch{
		ID: audit.Digest{1}, Batch: audit.ScoreBatch{Run: "training", Policy: "p", Checkpoint: 1}, Want: budget, Budget: budget,
	})
	if left := budget - spent; err != nil || (granted-left).Abs() > time.Millisecond { // seconds are floats in the ledger
		t.Fatalf("granted %s of the %s that were left: %v", granted, left, err)
	}
	if reasons := reasonsOf(ask(60)); reasons[""] > 0 || reasons[audit.MaskOverBudget]+reasons[audit.MaskNotSampled] != 300 {
		t.Errorf("reasons %v of 300 with nothing left, want none audited", reasons)
	}
}

func TestBaselinesAreFrozenPerStep(t *testing.T) {
	t.Parallel()
	l := setup(t).Ledger
	w := shop(t)
	answers := truths(t, w, shopCalls()...)
	h := newHook(t, audit.HookConfig{Store: l, Audit: audit.Config{Opener: opener{w}}})
	ask := func(step int64, episode string) audit.Reward {
		return score(t, h, audit.ScoreBatch{
			Policy: "p", Checkpoint: step, Outputs: rollout(episode, func(i int) string { return answers[i] }, shopCalls()[:1]...),
		}).Scores[0]
	}
	var before float64
	for step := range int64(4) {
		r, same := ask(step, "a"), ask(step, "b")
		if r.Version != step || r.Baseline != same.Baseline {
			t.Errorf("step %d: baselines %v (%d) and %v", step, r.Baseline, r.Version, same.Baseline)
		}
		if step > 0 && r.Baseline <= before {
			t.Errorf("step %d: baseline %v after perfect answers, %v before", step, r.Baseline, before)
		}
		before = r.Baseline
	}
	again, first, err := l.Freeze(t.Context(), "training p", "p", 3, 0.9)
	if err != nil || first || again.Version() != 3 || again.Of("get_order", audit.Outcome{Class: audit.OK}) != before {
		t.Errorf("frozen again: %v %v %v", again, first, err)
	}
}

func TestCanariesAreNeverPaid(t *testing.T) {
	t.Parallel()
	l := setup(t).Ledger
	w := shop(t)
	canaries, err := audit.Canaries(t.Context(), w, 1, 5)
	if err != nil || len(canaries) == 0 {
		t.Fatalf("%d canaries: %v", len(canaries), err)
	}
	h := newHook(t, audit.HookConfig{Store: l, Audit: audit.Config{Opener: opener{w}}, Canaries: func(context.Context, string) ([]audit.Episode, error) { return canaries, nil }})
	var outputs []audit.Output
	for _, e := range canaries {
		if e.Start.Shared != "" {
			continue // nobody else's world can be asked for
		}
		o := audit.Output{Environment: "shop", Start: e.Start, Rehearsal: new(`{"error":"no"}`)}
		for _, a := range e.Actions {
			o.Call = a.Call
			if a.Canary == nil {
				o.History = append(o.History, audit.Earlier{Call: a.Call})
			}
		}
		outputs = append(outputs, o)
	}
	for _, r := range score(t, h, audit.ScoreBatch{Policy: "p", Outputs: outputs}).Scores {
		if r.Reason != audit.MaskCanary || r.Phi != nil {
			t.Errorf("%+v", r)
		}
	}
	alarms := raised(t, l, "")
	if len(alarms) != 1 || alarms[0].Kind != audit.AlarmCanary {
		t.Errorf("%+v", alarms)
	}
}

// raised waits for the alarms of a run: a batch is answered before it is closed,
// and they are kept when it is.
func raised(t *testing.T, l *ledger.Ledger, run string) []audit.Alarm {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		alarms, _, err := l.Alarms(t.Context(), run, audit.Page{})
		if err != nil {
			t.Fatal(err)
		}
		if len(alarms) > 0 || time.Now().After(deadline) {
			return alarms
		}
	}
}

// TestAlarmsComeFromPayments trains a policy whose REHEARSE refuses less and less
// while the sandbox refuses as ever.
func TestAlarmsComeFromPayments(t *testing.T) {
	t.Parallel()
	l := setup(t).Ledger
	w := shop(t)
	refused := toCall("get_order", `{"user_id":"u1","order_id":"W999"}`)
	h := newHook(t, audit.HookConfig{Store: l, Audit: audit.Config{Opener: opener{w}}})
	const each = 40
	for step := range 16 {
		var outputs []audit.Output
		for i := range each {
			text := `{"error":{"code":"not_found","message":"no such order"}}`
			if i < each*step/16 {
				text = `{"order_id":"W999"}`
			}
			outputs = append(outputs, audit.Output{Environment: "shop", Episode: fmt.Sprint(step, "/", i), Call: refused, Rehearsal: &text})
		}
		if step < 11 { // the first ten steps are what is usual
			for i := range outputs {
				outputs[i].Rehearsal = new(`{"error":{"code":"not_found","message":"no such order"}}`)
			}
		}
		score(t, h, audit.ScoreBatch{Run: "training", Policy: "p", Checkpoint: int64(step), Outputs: outputs})
	}
	if alarms := raised(t, l, "training"); len(alarms) != 1 || alarms[0].Kind != audit.AlarmErrorsVanish || alarms[0].Step < 11 {
		t.Errorf("%+v", alarms)
	}
}
