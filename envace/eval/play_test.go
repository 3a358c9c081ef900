package eval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/eval"
	"understudy/envace/private"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

// scripted is a policy that says what says says: calls, or a reply.
type scripted struct {
	says  func(t *envace.Transcript) ([]audit.Call, string)
	asked atomic.Int64
}

func (s *scripted) Generate(_ context.Context, r envace.Request) (envace.Output, error) {
	s.asked.Add(1)
	if r.Role == audit.RehearseRole {
		return envace.Output{Role: r.Role, Text: "<execution_result>\n{}\n</execution_result>"}, nil
	}
	calls, reply := s.says(r.Transcript)
	parts := []string{reply}
	for _, call := range calls {
		written, err := envace.CallText(call)
		if err != nil {
			return envace.Output{}, err
		}
		parts = append(parts, written)
	}
	return envace.Output{Role: r.Role, Text: strings.TrimSpace(strings.Join(parts, "\n")), Tokens: make([]int32, 3)}, nil
}

// gold makes a task's reference calls, one after the other, then says that it is done.
func gold() *scripted {
	return &scripted{says: func(t *envace.Transcript) ([]audit.Call, string) {
		made := len(t.History())
		if made < len(t.Task.Solution) {
			return t.Task.Solution[made : made+1], ""
		}
		return nil, "It is done."
	}}
}

func idle() *scripted {
	return &scripted{says: func(*envace.Transcript) ([]audit.Call, string) { return nil, "It is done." }}
}

func readAct(o envace.Output) envace.Act {
	act := envace.ParseAct(o.Text)
	act.Output = o
	return act
}

func anyRules(t *testing.T) *audit.Rules {
	t.Helper()
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func ownTasks(t *testing.T, name string, n int) []eval.Task {
	t.Helper()
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() { _ = registry.Close() })
	env, err := registry.Environment(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := env.(audit.Tasker).Tasks(t.Context(), 3, n)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := eval.FromEnvironment(t.Context(), env, asked, anyRules(t))
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func play(t *testing.T, policy envace.Policy, tasks []eval.Task, samples int) eval.Figures {
	t.Helper()
	f, results := playIn(t, t.TempDir(), eval.Runner{Rollout: envace.Rollout{Policy: policy, ReadAct: readAct}, Samples: samples, Seed: 1}, tasks)
	for _, r := range results {
		if r.Unknown != "" {
			t.Errorf("task %s is unknown: %s", r.Task, r.Unknown)
		}
	}
	return f
}

func playIn(t *testing.T, dir string, r eval.Runner, tasks []eval.Task) (eval.Figures, []eval.Result) {
	t.Helper()
	book, err := eval.OpenBook(dir, runOf(tasks, r.Samples))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), tasks, book); err != nil {
		t.Fatal(err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	return eval.Compute(book.Results(), r.Samples), book.Results()
}

func runOf(tasks []eval.Task, samples int) eval.Run {
	return eval.Run{Benchmark: "b", Policy: "p", TaskCount: len(tasks), Samples: samples}
}

// On our own domains the reference solutions do every task and nothing does none.
func TestGoldAndIdle(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"retail", "retail-mini", "delivery"} {
		tasks := ownTasks(t, name, 3)
		if f := play(t, gold(), tasks, 2); f.Average.Value != 1 || f.Score.Value != 1 || f.PassHat[1].Value != 1 || f.Samples != 6 {
			t.Errorf("%s: the reference scores %v over %d samples", name, f.Average, f.Samples)
		}
		if f := play(t, idle(), tasks, 1); f.Average.Value != 0 || f.Score.Value != 0 || f.Initial != 0 {
			t.Errorf("%s: doing nothing scores %v; %d tasks hold before anything is done", name, f.Average, f.Initial)
		}
	}
}

// A server that fails leaves samples unknown; a fault of ours, or a wrong key, ends
// the run.
func TestUnknown(t *testing.T) {
	t.Parallel()
	tasks := ownTasks(t, "retail-mini", 2)
	for _, test := range []struct {
		err     error
		unknown int
		reason  string
	}{
		{&audit.Error{Code: audit.CodeInfrastructure, Message: "away"}, 2, "a server that is away"},
		{&audit.Error{Code: audit.CodeUnauthorized, Message: "no key"}, 0, "asking again cannot mend it"},
		{errors.New("a defect"), 0, "ours"},
	} {
		book, err := eval.OpenBook(t.TempDir(), runOf(tasks, 1))
		if err != nil {
			t.Fatal(err)
		}
		runner := eval.Runner{Rollout: envace.Rollout{Policy: failing{test.err}, ReadAct: readAct}, Samples: 1}
		err = runner.Run(t.Context(), tasks, book)
		f := eval.Compute(book.Results(), 1)
		if f.Unknown != test.unknown || f.Samples != 0 || (err == nil) != (test.unknown > 0) {
			t.Errorf("%s: %d unknown of %d, %v", test.reason, f.Unknown, f.Samples, err)
		}
		_ = book.Close()
	}
}

// What a grader cannot find out leaves the sample unknown, too: a server that is away, a
// world that is gone, a conversation over the judge's context.
func TestUngradable(t *testing.T) {
	t.Parallel()
	task := ownTasks(t, "retail-mini", 1)[0]
	begin := task.Begin
	for _, test := range []struct {
		err     error
		unknown bool
	}{
		{&audit.Error{Code: audit.CodeInfrastructure, Message: "the judge is away"}, true},
		{fmt.Errorf("ask the judge: %w", envace.ErrPrompt), true},
		{fmt.Errorf("look: %w", envace.ErrWorld), true},
		{errors.New("a defect"), false},
	} {
		task.Begin = func() eval.Sample {
			sample := begin()
			sample.Grade = func(context.Context, *envace.Trajectory) (eval.Verdict, error) { return eval.Verdict{}, test.err }
			return sample
		}
		book, err := eval.OpenBook(t.TempDir(), runOf([]eval.Task{task}, 1))
		if err != nil {
			t.Fatal(err)
		}
		runner := eval.Runner{Rollout: envace.Rollout{Policy: idle(), ReadAct: readAct}, Samples: 1}
		err = runner.Run(t.Context(), []eval.Task{task}, book)
		if f := eval.Compute(book.Results(), 1); (err == nil) != test.unknown || (f.Unknown == 1) != test.unknown {
			t.Errorf("%v: %d unknown, the run ended with %v", test.err, f.Unknown, err)
		}
		_ = book.Close()
	}
}

type failing struct{ err error }

func (f failing) Generate(context.Context, envace.Request) (envace.Output, error) {
	return envace.Output{}, f.err
}

// Private attempts reach no world, and ACT reads their memory in the one execution.
func TestRehearse(t *testing.T) {
	t.Parallel()
	tasks := ownTasks(t, "retail-mini", 2)
	policy := gold()
	var remembered atomic.Int64
	plain := policy.says
	policy.says = func(tr *envace.Transcript) ([]audit.Call, string) {
		if strings.Contains(tr.Memory, "Attempt 2") {
			remembered.Add(1)
		}
		return plain(tr)
	}
	read := func(o envace.Output) envace.Rehearsed {
		r := envace.Rehearsed{Output: o}
		r.Rehearsal, r.Fault = envace.ParseRehearsal(o.Text)
		return r
	}
	runner := eval.Runner{
		Rollout: envace.Rollout{Policy: policy, ReadAct: readAct}, Samples: 1,
		Rehearse: func(task eval.Task, rollout envace.Rollout) private.Rehearser {
			return private.Rehearser{
				Rollout: rollout, World: envace.Rehearsing{Policy: policy, Read: read}, Attempts: 2, Mode: private.Parallel,
				Assess: func(context.Context, *envace.Trajectory) (private.Assessment, error) {
					return private.Assessment{Success: true, Score: 1}, nil
				},
				Memory: private.Memory{Count: func(text string) int { return len(text) }, Most: 5000, Rules: task.Rules},
			}
		},
	}
	f, results := playIn(t, t.TempDir(), runner, tasks)
	if f.Average.Value != 1 || remembered.Load() == 0 {
		t.Errorf("%v, the memory was read %d times", f.Average, remembered.Load())
	}
	for _, r := range results {
		if r.Memory == 0 || r.Tokens <= 3*(r.Calls+1) {
			t.Errorf("%+v: attempts cost tokens, and leave a memory", r)
		}
	}
}

func call(tool, arguments string) audit.Call {
	return audit.Call{Tool: tool, Arguments: json.RawMessage(arguments)}
}
