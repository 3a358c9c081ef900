package ledger_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// defective panics where its seed says so.
type defective struct {
	*starlark.Environment
	panics *atomic.Int64
}

const (
	panicsOpen  = 1
	panicsCheck = 2
	panicsFork  = 3
)

func (d defective) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	if start.Seed == panicsOpen {
		d.panics.Add(1)
		panic("a defect")
	}
	seed := start.Seed
	start.Task = "" // ours is checked below
	session, err := d.Environment.Open(ctx, start)
	if err != nil {
		return nil, err
	}
	return defectiveSession{session, seed, d.panics}, nil
}

type defectiveSession struct {
	audit.Session
	seed   uint64
	panics *atomic.Int64
}

func (s defectiveSession) Check(context.Context, string) (audit.CheckResult, error) {
	if s.seed == panicsCheck {
		s.panics.Add(1)
		panic("a defect")
	}
	return audit.CheckResult{}, nil
}

func (s defectiveSession) Fork(ctx context.Context) (audit.Session, error) {
	if s.seed == panicsFork {
		s.panics.Add(1)
		panic("a defect")
	}
	fork, err := s.Session.(audit.Forker).Fork(ctx)
	return defectiveSession{fork, s.seed, s.panics}, err
}

// A sandbox that panics costs the outputs that needed it: neither the others of
// their batch nor the process.
func TestHookOutlivesADefectiveSandbox(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := shop(t)
	panics := new(atomic.Int64)
	h := newHook(t, audit.HookConfig{Store: b.Ledger, Audit: audit.Config{Opener: opener{defective{w, panics}}}})
	calls := shopCalls()
	answers := truths(t, w, calls...)
	for seed := range uint64(4) {
		outputs := rollout("e", func(i int) string { return answers[i] }, calls[:3]...)
		outputs = append(outputs, rollout("f", func(i int) string { return answers[i+1] }, calls[1:3]...)...) // a state of two ways on
		for i := range outputs {
			outputs[i].Start.Seed, outputs[i].Start.Task = seed, "a task"
		}
		outputs[2].Success = new(true)
		panics.Store(0)
		for i, r := range score(t, h, audit.ScoreBatch{Policy: "p", Checkpoint: int64(seed), Outputs: outputs}).Scores {
			switch {
			case seed == panicsOpen && (r.Reason != audit.MaskSandboxUnavailable || !strings.Contains(r.Detail, "panicked")):
				t.Errorf("a sandbox that panics on opening, output %d: %s %s %q", i, r.Status, r.Reason, r.Detail)
			case seed != panicsOpen && r.Status != audit.RewardScored:
				t.Errorf("seed %d, output %d: %s %s %q", seed, i, r.Status, r.Reason, r.Detail)
			}
		}
		if (panics.Load() > 0) != (seed > 0) {
			t.Errorf("seed %d: %d panics", seed, panics.Load())
		}
	}
}
