package train_test

import (
	"context"
	"sync"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/tiny"
	"understudy/envace/train"
)

// fragile is an environment whose sessions break at a call of <unknown>, from the given
// session of a task on.
type fragile struct {
	audit.Environment
	from int

	mu     sync.Mutex
	opened map[string]int
}

func (f *fragile) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	session, err := f.Environment.Open(ctx, start)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened[start.Task]++
	return fragileSession{session, f.opened[start.Task] >= f.from}, err
}

type fragileSession struct {
	audit.Session
	breaks bool
}

func (s fragileSession) Call(ctx context.Context, call audit.Call) (audit.Observation, error) {
	if s.breaks && call.Tool == "<unknown>" {
		return audit.Observation{Status: audit.StatusFault}, nil
	}
	return s.Session.Call(ctx, call)
}

func (s fragileSession) Check(ctx context.Context, task string) (audit.CheckResult, error) {
	return s.Session.(audit.Checker).Check(ctx, task)
}

// breaking makes one call that no world knows.
type breaking struct{ format tiny.Format }

func (b breaking) Generate(_ context.Context, r envace.Request) (envace.Output, error) {
	end := b.format.Vocabulary.End()
	switch {
	case r.Role == audit.RehearseRole:
		return envace.Output{Role: r.Role, Tokens: append(b.format.AnswerTokens([]byte(`{}`)), end)}, nil
	case len(r.Transcript.Items) > 0:
		return envace.Output{Role: r.Role, Tokens: b.format.DoneTokens()}, nil
	}
	tokens, err := b.format.CallTokens(audit.Call{Tool: "no tool", Arguments: []byte(`{}`)})
	return envace.Output{Role: r.Role, Tokens: append(tokens, end)}, err
}

// A sandbox that breaks, whether the policy acts in it or its rehearsal is executed,
// leaves the sample out: it has not failed.
func TestEvaluationInABrokenSandbox(t *testing.T) {
	t.Parallel()
	for before, reason := range []string{"while the policy acts", "while its rehearsal is executed"} {
		c := lesson(t)
		c.Recipe.Evaluation.Canaries, c.Recipe.Evaluation.Tasks = 12, 4
		c.Environment = &fragile{Environment: c.Environment, from: before + 1, opened: map[string]int{}}
		e, err := train.EvaluateWith(t.Context(), c, breaking{c.Format.(tiny.Format)})
		if err != nil {
			t.Fatalf("%s: %v", reason, err)
		}
		for _, task := range e.Tasks {
			if task.Unknown != 1 || task.Samples != 0 {
				t.Errorf("%s: %+v, want one unknown sample and no known one", reason, task)
			}
		}
	}
}
