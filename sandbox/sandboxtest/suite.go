// Package sandboxtest is the conformance suite that every implementation of
// audit.Environment passes, whatever runs behind it.
package sandboxtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"understudy/audit"
	"understudy/sandbox"
)

// Test runs the suite on an environment that has tasks. Clauses that the
// environment has no capability for are logged, never silently passed.
func Test(t *testing.T, env audit.Environment) {
	t.Helper()
	report, err := sandbox.Contract(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Verdict == sandbox.Fail {
			t.Errorf("%s: %s", f.Name, f.Seen)
		}
	}
	t.Logf("\n%s", report.Table())
	t.Run("capabilities", func(t *testing.T) { capabilities(t, env) })
	t.Run("life", func(t *testing.T) { life(t, env) })
	t.Run("audit", func(t *testing.T) { Audit(t, env) })
	t.Run("parallel", func(t *testing.T) { parallel(t, env) })
}

// capabilities compares what Info names with what a session can do.
func capabilities(t *testing.T, env audit.Environment) {
	t.Helper()
	info := env.Info()
	if info.Name == "" || info.Version == "" || info.Digest.IsZero() {
		t.Errorf("got %+v, want a name, a version and a digest: verdicts name them", info)
	}
	s := open(t, env, audit.Start{})
	for _, c := range info.Capabilities {
		ok := false
		switch c {
		case audit.CanDryRun:
			_, ok = s.(audit.DryRunner)
		case audit.CanSnapshot:
			_, ok = s.(audit.Snapshotter)
		case audit.CanFork:
			_, ok = s.(audit.Forker)
		case audit.CanState:
			_, ok = s.(audit.Stater)
		case audit.CanProbe:
			_, ok = s.(audit.Prober)
		case audit.CanCheck:
			_, ok = s.(audit.Checker)
		case audit.CanSeed, audit.CanShare:
			ok = true // of the environment; the contract tries both
		}
		if !ok {
			t.Errorf("capability %s is named but the session lacks it", c)
		}
	}
}

// life is what happens at the end of things, and with names that nobody knows.
func life(t *testing.T, env audit.Environment) {
	t.Helper()
	s := open(t, env, audit.Start{})
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if _, err := s.Call(t.Context(), audit.Call{Tool: "x"}); err == nil {
		t.Error("a closed session answered a call")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, env, audit.Start{}).Call(ctx, audit.Call{Tool: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: got %v, want context.Canceled", err)
	}
	if _, err := env.Open(t.Context(), audit.Start{Task: "no such task"}); audit.ErrorCode(err) != audit.CodeNotFound || audit.ErrorHint(err) == "" {
		t.Errorf("an unknown task: got %v, want not_found with a hint", err)
	}
	if _, err := env.Open(t.Context(), audit.Start{State: []byte("[]")}); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("a state that is no object: got %v, want invalid", err)
	}
}

// parallel solves one task in many forks at once: all end in one state. Run it
// with -race.
func parallel(t *testing.T, env audit.Environment) {
	t.Helper()
	tasker, ok := env.(audit.Tasker)
	if !ok {
		t.Skip("no tasks")
	}
	tasks, err := tasker.Tasks(t.Context(), 0, 0)
	if err != nil || len(tasks) == 0 {
		t.Fatalf("tasks: %d, %v", len(tasks), err)
	}
	s := open(t, env, audit.Start{Task: tasks[0].ID})
	forker, ok := s.(audit.Forker)
	if !ok || !slices.Contains(env.Info().Capabilities, audit.CanFork) {
		t.Skip("no forks")
	}
	ends := make([]audit.Digest, 8)
	var wg sync.WaitGroup
	for i := range ends {
		wg.Go(func() { ends[i] = solve(t, forker, tasks[0]) })
	}
	wg.Wait()
	for _, end := range ends {
		if end != ends[0] {
			t.Fatalf("eight forks that do the same end in different states: %v", ends)
		}
	}
}

func solve(t *testing.T, forker audit.Forker, task audit.Task) audit.Digest {
	t.Helper()
	fork, err := forker.Fork(t.Context())
	if err != nil {
		t.Error(err)
		return audit.Digest{}
	}
	defer func() { _ = fork.Close() }()
	var end audit.Digest
	for _, call := range task.Solution {
		obs, err := fork.Call(t.Context(), call)
		if err != nil || obs.Status != audit.StatusOK {
			t.Errorf("%s: %s %s, %v", call.Tool, obs.Status, obs.Raw, err)
		}
		end = obs.After
	}
	return end
}

func open(t *testing.T, env audit.Environment, start audit.Start) audit.Session {
	t.Helper()
	s, err := env.Open(t.Context(), start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
