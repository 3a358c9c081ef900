package sandboxtest

import (
	"context"
	"slices"
	"testing"

	"understudy/audit"
)

// opener finds one environment, whatever it is called.
type opener struct{ env audit.Environment }

func (o opener) Environment(context.Context, string) (audit.Environment, error) { return o.env, nil }

// Audit runs a whole audit on the environment: the solution of its first task,
// rehearsed by what a run before answered, except that the last call is rehearsed
// as a refusal, and that a call which the environment refuses is rehearsed as a
// success. The verdicts must say exactly that.
func Audit(t *testing.T, env audit.Environment) {
	t.Helper()
	task, answers := solved(t, env)
	ep := &audit.Episode{ID: "e", PromptGroup: task.ID, Policy: "p", Environment: env.Info().Name, Mode: audit.Forced, Start: audit.Start{Task: task.ID, Seed: 7}}
	calls := append(append([]audit.Call(nil), task.Solution...), audit.Call{Tool: "no_such_tool_anywhere", Arguments: []byte(`{}`)})
	answers[len(answers)-1] = `{"error":{"code":"not_found","message":"there is no such thing"}}`
	answers = append(answers, `{"success":true}`)
	for i, c := range calls {
		ep.Actions = append(ep.Actions, audit.Action{Step: i, Message: i, Call: c, Rehearsal: &audit.Rehearsal{Raw: []byte(answers[i])}})
	}
	auditor, err := audit.New(audit.Config{Opener: opener{env}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = auditor.Close() }()
	pairs, err := auditor.Episode(t.Context(), ep)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range pairs {
		v := p.Verdict
		want, ok := "the same outcome", v.Scored() && v.Real.Class == v.Rehearsed.Class
		switch {
		case i == len(calls)-1:
			want, ok = "a false success, S5", v.Scored() && v.Severity == audit.S5
		case i == len(calls)-2:
			want, ok = "a false error, S4", v.Scored() && v.Severity == audit.S4
		case env.Info().Deterministic:
			want, ok = "the same answer, S0 or S1", v.Scored() && v.Severity <= audit.S1
		}
		if !ok {
			t.Errorf("call %d, %s: got %s, real %s, rehearsed %s, masked %q %s; want %s",
				i+1, p.Action.Call.Tool, v.Severity, v.Real, v.Rehearsed, v.Masked, v.MaskDetail, want)
		}
		if p.Twin == nil != env.Info().Deterministic {
			t.Errorf("call %d: twin %v; the environment is deterministic: %v", i+1, p.Twin != nil, env.Info().Deterministic)
		}
	}
	checked := slices.Contains(env.Info().Capabilities, audit.CanCheck)
	if checked && (pairs[0].Executed == nil || !*pairs[0].Executed) {
		t.Errorf("terminal success %v; the solution solves the task", pairs[0].Executed)
	}
}

// solved runs the first task's solution and returns what was answered.
func solved(t *testing.T, env audit.Environment) (audit.Task, []string) {
	t.Helper()
	tasker, ok := env.(audit.Tasker)
	if !ok {
		t.Skip("no tasks")
	}
	tasks, err := tasker.Tasks(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) == 0 || len(tasks[0].Solution) == 0 {
		t.Skip("no task with a solution")
	}
	s := open(t, env, audit.Start{Task: tasks[0].ID, Seed: 7})
	var answers []string
	for _, c := range tasks[0].Solution {
		seen, err := s.Call(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, string(seen.Raw))
	}
	if err := s.Close(); err != nil { // a server may have one place only
		t.Fatal(err)
	}
	return tasks[0], answers
}
