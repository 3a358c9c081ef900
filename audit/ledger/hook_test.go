package ledger_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// patience is for the slowest machine: what is waited for does come.
const patience = 5 * time.Minute

// opener finds one environment under every name.
type opener struct{ env audit.Environment }

func (o opener) Environment(context.Context, string) (audit.Environment, error) { return o.env, nil }

func shop(tb testing.TB) *starlark.Environment {
	tb.Helper()
	domain, err := starlark.Load(os.DirFS("../testdata"), "shop", starlark.Options{Version: 1})
	if err != nil {
		tb.Fatal(err)
	}
	env := starlark.NewEnvironment(domain)
	tb.Cleanup(func() { _ = env.Close() })
	return env
}

// counted counts the calls that reach the sandbox.
type counted struct {
	*starlark.Environment
	mu    sync.Mutex
	calls int
	wait  chan struct{} // when set, calls wait for it
}

func (c *counted) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	s, err := c.Environment.Open(ctx, start)
	if err != nil {
		return nil, err
	}
	return countedSession{s.(*starlark.Session), c}, nil
}

type countedSession struct {
	*starlark.Session
	of *counted
}

func (s countedSession) Call(ctx context.Context, call audit.Call) (audit.Observation, error) {
	s.of.mu.Lock()
	s.of.calls++
	s.of.mu.Unlock()
	if s.of.wait != nil {
		select {
		case <-s.of.wait:
		case <-ctx.Done():
			return audit.Observation{}, ctx.Err()
		}
	}
	return s.Session.Call(ctx, call)
}

func (s countedSession) Fork(ctx context.Context) (audit.Session, error) {
	fork, err := s.Session.Fork(ctx)
	if err != nil {
		return nil, err
	}
	return countedSession{fork.(*starlark.Session), s.of}, nil
}

func newHook(tb testing.TB, config audit.HookConfig) *audit.Hook {
	tb.Helper()
	h, err := audit.NewHook(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := h.Close(); err != nil {
			tb.Error(err)
		}
	})
	return h
}

func toCall(tool, arguments string) audit.Call {
	return audit.Call{Tool: tool, Arguments: json.RawMessage(arguments)}
}

// rollout is an episode's calls as outputs, each with its history and what
// answer says to it.
func rollout(episode string, answer func(step int) string, calls ...audit.Call) []audit.Output {
	var (
		outputs []audit.Output
		history []audit.Earlier
	)
	for i, call := range calls {
		text := answer(i)
		outputs = append(outputs, audit.Output{Environment: "shop", Episode: episode, History: history, Call: call, Rehearsal: &text})
		history = append(history[:i:i], audit.Earlier{Call: call, Answer: &text})
	}
	return outputs
}

func shopCalls() []audit.Call {
	return []audit.Call{
		toCall("get_order", `{"user_id":"u0","order_id":"W100"}`),
		toCall("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"mistake"}`),
		toCall("cancel_order", `{"user_id":"u0","order_id":"W100","reason":"mistake"}`), // conflict
		toCall("get_order", `{"user_id":"u1","order_id":"W999"}`),                       // not_found
		toCall("find_orders", `"{\"user_id\":\"u6\"}"`),                                 // arguments as text
	}
}

// truths are the sandbox's own answers.
func truths(tb testing.TB, w audit.Environment, calls ...audit.Call) []string {
	tb.Helper()
	s, err := w.Open(tb.Context(), audit.Start{})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var answers []string
	for _, call := range calls {
		var text string
		if json.Unmarshal(call.Arguments, &text) == nil {
			call.Arguments = json.RawMessage(text)
		}
		o, err := s.Call(tb.Context(), call)
		if err != nil {
			tb.Fatal(err)
		}
		answers = append(answers, string(o.Raw))
	}
	return answers
}

// score asks for a batch's scores, and waits as long as may be unless the batch says
// how long.
func score(tb testing.TB, h audit.Scorer, b audit.ScoreBatch) audit.ScoredBatch {
	tb.Helper()
	b.DeadlineMS = cmp.Or(b.DeadlineMS, patience.Milliseconds())
	s, err := h.Score(tb.Context(), b)
	if err != nil {
		tb.Fatalf("%v (%s)", err, audit.ErrorHint(err))
	}
	return s
}

// TestHookPaysOnce scores two rollouts, asks again in every way, and restarts.
func TestHookPaysOnce(t *testing.T) {
	t.Parallel()
	l := setup(t).Ledger
	env := &counted{Environment: shop(t)}
	config := audit.HookConfig{Store: l, Audit: audit.Config{Opener: opener{env}}}
	h := newHook(t, config)
	calls := shopCalls()
	answers := truths(t, env.Environment, calls...)
	honest := rollout("honest", func(i int) string { return answers[i] }, calls...)
	liar := rollout("liar", func(int) string { return `{"ok":true}` }, calls...)
	batch := audit.ScoreBatch{Policy: "p", Checkpoint: 3, Outputs: append(honest, liar...)}
	first := score(t, h, batch)
	if first.Pending != 0 || len(first.Scores) != 2*len(calls) {
		t.Fatalf("%+v", first)
	}
	if env.calls != len(calls) {
		t.Errorf("%d calls of the sandbox for two rollouts of the same %d calls", env.calls, len(calls))
	}
	for i, r := range first.Scores {
		if r.Status != audit.RewardScored || r.Weight != 1 || r.Step != i%len(calls) || r.Repeated || r.Key.IsZero() {
			t.Errorf("output %d: %+v", i, r)
			continue
		}
		if lied := i >= len(calls); !lied && (*r.Phi != 1 || r.Class != audit.ClassMatch) || lied && *r.Phi == 1 {
			t.Errorf("output %d: phi %v of class %s", i, *r.Phi, r.Class)
		}
		if refused := r.Step == 2 || r.Step == 3; refused && i >= len(calls) && (!r.FalseSuccess || r.Class != audit.ClassOptimistic) {
			t.Errorf("output %d: a success for a refusal is %+v", i, r)
		}
	}
	again := score(t, h, batch)
	other := newHook(t, config) // after a restart
	pulled, err := other.Scores(t.Context(), first.ID, patience)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]audit.ScoredBatch{"again": again, "pulled": pulled, "by another": score(t, other, batch)} {
		if s.ID != first.ID {
			t.Errorf("%s: id %s, want %s", name, s.ID, first.ID)
		}
		for i, r := range s.Scores {
			r.Repeated = false
			if got, want := fmt.Sprint(*r.Phi, r.Baseline, r.Key), fmt.Sprint(*first.Scores[i].Phi, first.Scores[i].Baseline, first.Scores[i].Key); got != want {
				t.Errorf("%s: output %d: got %s, want %s", name, i, got, want)
			}
		}
	}
	if env.calls != len(calls) {
		t.Errorf("%d calls of the sandbox after questions that were answered", env.calls)
	}
	report, err := l.Verify(t.Context())
	if err != nil || report.Err() != nil || report.Pairs != 2*len(calls) {
		t.Errorf("%+v %v", report, err)
	}
	changed := batch
	changed.Outputs = []audit.Output{batch.Outputs[0]}
	changed.Outputs[0].Rehearsal, changed.Outputs[0].Sample = new("{}"), new(first.Scores[0].Sample)
	if r := score(t, h, changed).Scores[0]; r.Status != audit.RewardMasked || r.Reason != audit.MaskConflict || r.Phi != nil || r.Components != nil || r.Class != "" {
		t.Errorf("another output at a place that was paid: %+v", r)
	}
	changed.Outputs = []audit.Output{batch.Outputs[1]}
	changed.Outputs[0].History = []audit.Earlier{{Call: calls[0]}} // without what was answered
	changed.Outputs[0].Sample = new(first.Scores[1].Sample)
	if r := score(t, h, changed).Scores[0]; !r.Repeated {
		t.Errorf("in mode forced nothing depends on earlier answers: %+v", r)
	}
}

// TestTextOfTextIsUnpackedOnce has a policy quote its arguments once too often:
// what is left is a text, in the call, in histories that outputs share, when the
// same batch is sent again, and when the ledger has kept it.
func TestTextOfTextIsUnpackedOnce(t *testing.T) {
	t.Parallel()
	l := setup(t).Ledger
	env := &counted{Environment: shop(t), wait: make(chan struct{})}
	config := audit.HookConfig{Store: l, Audit: audit.Config{Opener: opener{env}}}
	quoted := toCall("get_order", `"\"\\\"{}\\\"\""`)
	batch := audit.ScoreBatch{Policy: "p", DeadlineMS: 1, Outputs: rollout("e", func(int) string { return "{}" }, quoted, quoted, quoted)}
	h, err := audit.NewHook(config)
	if err != nil {
		t.Fatal(err)
	}
	first := score(t, h, batch)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	close(env.wait)
	pulled, err := newHook(t, config).Scores(t.Context(), first.ID, patience)
	if err != nil || pulled.ID != first.ID || pulled.Pending != 0 {
		t.Errorf("pulled %+v: %v", pulled, err)
	}
	batch.DeadlineMS = 0
	again := score(t, newHook(t, config), batch)
	if again.ID != first.ID {
		t.Errorf("sent again it is batch %s, want %s", again.ID, first.ID)
	}
	for i, r := range again.Scores {
		if r.Status != audit.RewardScored || !r.Repeated || r.Real.Family != audit.MalformedCall && r.Real.Family != audit.SchemaInvalid {
			t.Errorf("output %d: %+v", i, r)
		}
	}
}

// TestHookGoesOnFromKeptStates sends a rollout one step a batch.
func TestHookGoesOnFromKeptStates(t *testing.T) {
	t.Parallel()
	env := &counted{Environment: shop(t)}
	calls := shopCalls()
	answers := truths(t, env.Environment, calls...)
	for _, mode := range []audit.Mode{audit.Forced, audit.Open} {
		env.calls = 0
		h := newHook(t, audit.HookConfig{Store: setup(t).Ledger, Audit: audit.Config{Opener: opener{env}}})
		for i, o := range rollout("e", func(i int) string { return answers[i] }, calls...) {
			o.Mode = mode
			r := score(t, h, audit.ScoreBatch{Policy: "p", Outputs: []audit.Output{o}}).Scores[0]
			if r.Status != audit.RewardScored || *r.Phi != 1 {
				t.Errorf("%s, step %d: %+v", mode, i, r)
			}
		}
		if env.calls != len(calls) {
			t.Errorf("%s: %d calls of the sandbox for %d steps", mode, env.calls, len(calls))
		}
	}
}

// TestHookForksInOpenMode: what comes after a material lie is nobody's fault.
func TestHookForksInOpenMode(t *testing.T) {
	t.Parallel()
	w := shop(t)
	calls := shopCalls()
	answers := truths(t, w, calls...)
	outputs := rollout("e", func(i int) string {
		if i == 1 {
			return `{"error":"order not found"}`
		}
		return answers[i]
	}, calls...)
	for i := range outputs {
		outputs[i].Mode = audit.Open
	}
	h := newHook(t, audit.HookConfig{Store: setup(t).Ledger, Audit: audit.Config{Opener: opener{w}}})
	for i, r := range score(t, h, audit.ScoreBatch{Policy: "p", Outputs: outputs}).Scores {
		if cascaded := i > 1; cascaded != (r.Reason == audit.MaskCascaded) || cascaded != (r.Phi == nil) {
			t.Errorf("step %d: %+v", i, r)
		}
	}
}

// TestConcurrentPaymentsAreOne has several hooks score the same outputs at once,
// as several processes would.
func TestConcurrentPaymentsAreOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := shop(t)
	batch := audit.ScoreBatch{Policy: "p", DeadlineMS: patience.Milliseconds(), Outputs: rollout("e", func(int) string { return "{}" }, shopCalls()...)}
	var (
		group   sync.WaitGroup
		mu      sync.Mutex
		answers []audit.ScoredBatch
	)
	for range 4 {
		h := newHook(t, audit.HookConfig{Store: b.Ledger, Audit: audit.Config{Opener: opener{w}}})
		group.Go(func() {
			s, err := h.Score(t.Context(), batch)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, s)
		})
	}
	group.Wait()
	for i := range batch.Outputs {
		fresh := 0
		for _, s := range answers {
			if !s.Scores[i].Repeated {
				fresh++
			}
			if *s.Scores[i].Phi != *answers[0].Scores[i].Phi {
				t.Errorf("output %d was paid %v and %v", i, *s.Scores[i].Phi, *answers[0].Scores[i].Phi)
			}
		}
		if fresh != 1 {
			t.Errorf("output %d was paid %d times", i, fresh)
		}
	}
	if n := b.number(t, `SELECT count(*) FROM score`); n != len(batch.Outputs) {
		t.Errorf("%d payments of %d outputs", n, len(batch.Outputs))
	}
	b.verify(t)
}

func TestHookRefuses(t *testing.T) {
	t.Parallel()
	h := newHook(t, audit.HookConfig{Store: setup(t).Ledger, Audit: audit.Config{Opener: opener{shop(t)}}})
	good := func() audit.Output {
		return audit.Output{Environment: "shop", Call: toCall("get_order", "{}"), Rehearsal: new("")}
	}
	tests := []struct {
		change func(*audit.ScoreBatch)
		code   audit.Code
		reason string
	}{
		{func(b *audit.ScoreBatch) { b.Policy = "" }, audit.CodeUnprocessable, "nobody to pay"},
		{func(b *audit.ScoreBatch) { b.Policy = "a\x00b" }, audit.CodeUnprocessable, "a name that the ledger cannot keep"},
		{func(b *audit.ScoreBatch) { b.Run = strings.Repeat("r", 191) }, audit.CodeUnprocessable, "a name that is too long"},
		{func(b *audit.ScoreBatch) { b.Outputs = nil }, audit.CodeUnprocessable, "nothing to score"},
		{func(b *audit.ScoreBatch) { b.Outputs[0].Rehearsal = nil }, audit.CodeUnprocessable, "no rehearsal"},
		{func(b *audit.ScoreBatch) { b.Outputs[0].Mode = audit.Canary }, audit.CodeUnprocessable, "a canary"},
		{func(b *audit.ScoreBatch) { b.Outputs[0].Start.Shared = "x" }, audit.CodeUnprocessable, "somebody else's world"},
		{func(b *audit.ScoreBatch) { b.Outputs[0].Confidence = new(1.5) }, audit.CodeUnprocessable, "a confidence that is none"},
		{func(b *audit.ScoreBatch) { b.Outputs = make([]audit.Output, audit.MaxOutputs+1) }, audit.CodeLimit, "too many outputs"},
	}
	for _, test := range tests {
		b := audit.ScoreBatch{Policy: "p", Outputs: []audit.Output{good()}}
		test.change(&b)
		if _, err := h.Score(t.Context(), b); audit.ErrorCode(err) != test.code || audit.ErrorHint(err) == "" {
			t.Errorf("%s: got %v", test.reason, err)
		}
	}
}

var _ audit.Scorer = (*audit.Hook)(nil)
