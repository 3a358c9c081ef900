package train_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/tiny"
	"understudy/envace/train"
)

// slowly is a policy that takes an hour for each rehearsal, if it is left the time.
type slowly struct{ envace.Policy }

func (s slowly) Generate(ctx context.Context, r envace.Request) (envace.Output, error) {
	if r.Role == audit.RehearseRole {
		select {
		case <-time.After(time.Hour): // of the bubble's clock
		case <-ctx.Done():
			return envace.Output{}, context.Cause(ctx)
		}
	}
	return s.Policy.Generate(ctx, r)
}

// How slow the machine is that the engine runs on changes nothing of an evaluation.
func TestEvaluationWaitsForTheEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := lesson(t)
		c.Recipe.Evaluation.Canaries, c.Recipe.Evaluation.Tasks = 12, 2
		e, err := train.EvaluateWith(t.Context(), c, slowly{breaking{c.Format.(tiny.Format)}})
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Figures) == 0 {
			t.Error("nothing was audited")
		}
		for _, f := range e.Figures {
			if len(f.Masked) > 0 || f.Scored != f.Pairs {
				t.Errorf("%s: %d of %d rehearsals have a verdict, masked are %v", f.Mode, f.Scored, f.Pairs, f.Masked)
			}
		}
	})
}
