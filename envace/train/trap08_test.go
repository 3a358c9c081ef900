package train_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/tiny"
	"understudy/envace/train"
)

// believer calls what its user wished for first, and answers every call alike.
type believer struct {
	format tiny.Format
	tools  []audit.Tool
	answer string
}

func (b believer) Generate(_ context.Context, r envace.Request) (envace.Output, error) {
	if r.Role == audit.RehearseRole {
		return envace.Output{Role: r.Role, Tokens: append(b.format.AnswerTokens([]byte(b.answer)), b.format.Vocabulary.End())}, nil
	}
	if len(r.Transcript.Items) > 0 {
		return envace.Output{Role: r.Role, Tokens: b.format.DoneTokens()}, nil
	}
	goal, err := tiny.GoalOf(r.Transcript.Task, b.tools)
	if err != nil {
		return envace.Output{}, err
	}
	tokens, err := b.format.CallTokens(*goal.Refused)
	return envace.Output{Role: r.Role, Tokens: append(tokens, b.format.Vocabulary.End())}, err
}

// Trap 8 of facts/envace.md, section 6: (a) a REHEARSE that accepts everything shows in
// the false-accept rate on canaries, one that refuses everything does not, and a rise
// between two checkpoints is said; (d) what it imagined to solve is executed, and the
// gap is there for each checkpoint.
func TestTrap08TheEasierWorldShows(t *testing.T) {
	t.Parallel()
	c := lesson(t)
	c.Recipe.Evaluation.Canaries, c.Recipe.Evaluation.Tasks = 60, 12
	tools, err := c.Environment.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Grader = tiny.Checklist{Tools: tools, Rules: c.Rules}
	// Tasks whose first wish the sandbox refuses: the solution does something else.
	all, err := c.Environment.(audit.Tasker).Tasks(t.Context(), 5, 80)
	if err != nil {
		t.Fatal(err)
	}
	c.Test = slices.DeleteFunc(all, func(task audit.Task) bool {
		goal, err := tiny.GoalOf(task, tools)
		return err != nil || goal.Refused == nil || slices.ContainsFunc(task.Solution, func(call audit.Call) bool { return audit.CallDigest(call) == audit.CallDigest(*goal.Refused) })
	})
	if len(c.Test) < 12 {
		t.Fatalf("%d tasks are left", len(c.Test))
	}
	format, ok := c.Format.(tiny.Format)
	if !ok {
		t.Fatal("the lesson is not in the tiny format")
	}
	evaluate := func(answer string) train.Evaluated {
		e, err := train.EvaluateWith(t.Context(), c, believer{format, tools, answer})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	strict, lenient := evaluate(`{"error":{"code":"not_found"}}`), evaluate(`{}`)
	fsr := func(e train.Evaluated) float64 { return e.Of(audit.Canary).Value(string(audit.FigureFSR)).Value }
	if fsr(strict) != 0 || fsr(lenient) != 1 {
		t.Errorf("accepted of the canaries: %v by the one that refuses all, %v by the one that accepts all", fsr(strict), fsr(lenient))
	}
	rate := func(e train.Evaluated, count func(train.EvaluatedTask) int) float64 { return e.Rate(count) }
	imagined, executed := rate(lenient, func(x train.EvaluatedTask) int { return x.Imagined }), rate(lenient, func(x train.EvaluatedTask) int { return x.Executed })
	if imagined < .9 || executed != 0 {
		t.Errorf("imagined %v, executed %v: one that invents every success solves nothing", imagined, executed)
	}
	if line := train.Rising([]train.Evaluated{strict, lenient}); !strings.Contains(line, "easier than the real one") {
		t.Errorf("the rise is not said: %q", line)
	}
	for _, quiet := range [][]train.Evaluated{{lenient}, {lenient, strict}, {lenient, lenient}, {{Unexecuted: true}, lenient}} {
		if line := train.Rising(quiet); line != "" {
			t.Errorf("no rise, but %q", line)
		}
	}
}
