package ledger_test

import (
	"testing"

	"understudy/audit"
)

// TestHookDeadline: what has no verdict by then is pending, and pulled later.
func TestHookDeadline(t *testing.T) {
	t.Parallel()
	env := &counted{Environment: shop(t), wait: make(chan struct{})}
	h := newHook(t, audit.HookConfig{Store: setup(t).Ledger, Audit: audit.Config{Opener: opener{env}}})
	batch := audit.ScoreBatch{Policy: "p", DeadlineMS: 20, Outputs: rollout("e", func(int) string { return "{}" }, shopCalls()...)}
	s := score(t, h, batch)
	if s.Pending != len(batch.Outputs) {
		t.Fatalf("%+v", s)
	}
	for _, r := range s.Scores {
		if r.Status != audit.RewardPending || r.Phi != nil || r.Weight != 0 || r.Term != 0 {
			t.Errorf("pending with numbers: %+v", r)
		}
	}
	close(env.wait)
	s, err := h.Scores(t.Context(), s.ID, patience)
	if err != nil || s.Pending != 0 {
		t.Fatalf("%+v %v", s, err)
	}
	if _, err := h.Scores(t.Context(), audit.Digest{1}, 0); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("an unknown batch: %v", err)
	}
}

// TestHookIsInterrupted closes a hook in the middle of a batch; another one
// takes the batch up by its id alone.
func TestHookIsInterrupted(t *testing.T) {
	t.Parallel()
	l := setup(t).Ledger
	env := &counted{Environment: shop(t), wait: make(chan struct{})}
	h, err := audit.NewHook(audit.HookConfig{Store: l, Audit: audit.Config{Opener: opener{env}}})
	if err != nil {
		t.Fatal(err)
	}
	batch := audit.ScoreBatch{Policy: "p", DeadlineMS: 1, Outputs: rollout("e", func(int) string { return "{}" }, shopCalls()...)}
	s := score(t, h, batch)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	close(env.wait)
	second := newHook(t, audit.HookConfig{Store: l, Audit: audit.Config{Opener: opener{env}}})
	pulled, err := second.Scores(t.Context(), s.ID, patience)
	if err != nil || pulled.Pending != 0 || len(pulled.Scores) != len(batch.Outputs) {
		t.Fatalf("%+v %v", pulled, err)
	}
	for _, r := range pulled.Scores {
		if r.Status != audit.RewardScored {
			t.Errorf("%+v", r)
		}
	}
}

// TestHookIsBusy: one batch too many at once is asked to come again.
func TestHookIsBusy(t *testing.T) {
	t.Parallel()
	env := &counted{Environment: shop(t), wait: make(chan struct{})}
	h := newHook(t, audit.HookConfig{Store: setup(t).Ledger, Audit: audit.Config{Opener: opener{env}}, Batches: 1})
	batch := audit.ScoreBatch{Policy: "p", DeadlineMS: 1, Outputs: rollout("e", func(int) string { return "{}" }, shopCalls()...)}
	first := score(t, h, batch)
	if joined := score(t, h, batch); joined.ID != first.ID || joined.Pending != len(batch.Outputs) {
		t.Errorf("the same batch again: %+v", joined)
	}
	other := batch
	other.Policy = "q"
	if _, err := h.Score(t.Context(), other); audit.ErrorCode(err) != audit.CodeBusy {
		t.Errorf("another batch: %v", err)
	}
	close(env.wait)
}
