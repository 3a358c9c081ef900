package eval_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/eval"
	"understudy/sandbox/pyclass"
)

// phone is an ACEBench-style file of one task, and its world.
func phone(t *testing.T) (audit.Environment, []eval.AgentTask) {
	t.Helper()
	questions := `{"id":"agent_multi_step_0","question":"Remind me of milk and bread.","initial_config":{"Reminders":{"items":["milk"]}},"function":[{"name":"add","parameters":{"type":"dict","properties":{"text":{"type":"string"}},"required":["text"]}}],"involved_classes":["Reminders"]}`
	answers := `{"id":"agent_multi_step_0","ground_truth":[{"Reminders":{"items":["milk","bread"]}}]}`
	tasks, err := eval.ReadACE([]byte(questions), []byte(answers))
	if err != nil {
		t.Fatal(err)
	}
	env, err := pyclass.New(t.Context(), pyclass.Spec{
		Name: "phone", Kind: pyclass.ACEBench, Tools: tasks[0].Tools, Timeout: patience,
		Classes: []pyclass.Class{{Name: "Reminders", File: filepath.Join("..", "..", "sandbox", "pyclass", "testdata", "reminders.py")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	return env, tasks
}

// An ACEBench-style file: what attributes are in the end.
func TestACE(t *testing.T) {
	t.Parallel()
	env, tasks := phone(t)
	for _, test := range []struct {
		text   string
		want   bool
		reason string
	}{{"bread", true, "what was asked"}, {"jam", false, "something else"}, {"", false, "nothing"}} {
		policy := &scripted{says: func(tr *envace.Transcript) ([]audit.Call, string) {
			if test.text == "" || len(tr.History()) > 0 {
				return nil, "Done."
			}
			return []audit.Call{call("add", `{"text":"`+test.text+`"}`)}, ""
		}}
		if f := play(t, policy, []eval.Task{tasks[0].Task(env, nil, anyRules(t))}, 1); (f.Average.Value == 1) != test.want || f.Initial != 0 {
			t.Errorf("%s: %v", test.reason, f.Average)
		}
	}
}

// unreadable is a world that stops telling its state at one look, from 1.
type unreadable struct {
	audit.Environment
	at    int
	state json.RawMessage // instead of an answer; nil = a fault
}

type unreadableSession struct {
	audit.Session
	world unreadable
	looks int
}

func (u unreadable) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	session, err := u.Environment.Open(ctx, start)
	return &unreadableSession{Session: session, world: u}, err
}

func (s *unreadableSession) StateDigest(ctx context.Context) (audit.Digest, error) {
	return s.Session.(audit.Stater).StateDigest(ctx)
}

func (s *unreadableSession) State(ctx context.Context, pointer string) (json.RawMessage, error) {
	if s.looks++; s.looks < s.world.at {
		return s.Session.(audit.Stater).State(ctx, pointer)
	}
	if s.world.state != nil {
		return s.world.state, nil
	}
	return nil, errors.New("the process is gone")
}

// A world whose state cannot be read says nothing about the answer: it is not scored,
// neither before the first call nor at the end.
func TestACEUnreadableIsNotScored(t *testing.T) {
	t.Parallel()
	env, tasks := phone(t)
	policy := &scripted{says: func(tr *envace.Transcript) ([]audit.Call, string) {
		if len(tr.History()) > 0 {
			return nil, "Done."
		}
		return []audit.Call{call("add", `{"text":"bread"}`)}, ""
	}}
	for _, test := range []struct {
		world  unreadable
		reason string
	}{
		{unreadable{env, 1, nil}, "gone before the first call"},
		{unreadable{env, 2, nil}, "gone at the end"},
		{unreadable{env, 2, json.RawMessage(`{"Reminders":`)}, "half a state"},
	} {
		_, results := playIn(t, t.TempDir(), eval.Runner{Rollout: envace.Rollout{Policy: policy, ReadAct: readAct}, Samples: 1},
			[]eval.Task{tasks[0].Task(test.world, nil, anyRules(t))})
		if r := results[0]; r.Unknown == "" || r.Success || len(r.Failed) > 0 {
			t.Errorf("%s: got %+v, want an unknown result", test.reason, r)
		}
	}
}
