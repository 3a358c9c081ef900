package starlark_test

import (
	"os"
	"testing"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

func open(tb testing.TB, task string) (audit.Environment, audit.Session) {
	tb.Helper()
	d, err := starlark.Load(os.DirFS("testdata"), "shop", starlark.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	env := starlark.NewEnvironment(d)
	s, err := env.Open(tb.Context(), audit.Start{Task: task})
	if err != nil {
		tb.Fatal(err)
	}
	return env, s
}

func TestReferenceSolution(t *testing.T) {
	env, s := open(t, "t0")
	tasks, err := env.(audit.Tasker).Tasks(t.Context(), 0, 0)
	if err != nil || len(tasks) != 40 {
		t.Fatalf("got %d tasks, %v; want the manifest's 40", len(tasks), err)
	}
	for i, want := range []audit.Status{audit.StatusOK, audit.StatusRefused} {
		obs, err := s.Call(t.Context(), tasks[0].Solution[0])
		if err != nil || obs.Status != want {
			t.Fatalf("call %d: got %s %s, %v; want %s: an order is cancelled once", i, obs.Status, obs.Raw, err, want)
		}
		if wrote := want == audit.StatusOK; wrote != (len(obs.Delta) > 0) || wrote == (obs.Before == obs.After) {
			t.Errorf("call %d: delta %v, digests %s and %s do not fit status %s", i, obs.Delta, obs.Before, obs.After, obs.Status)
		}
	}
	got, err := s.(audit.Checker).Check(t.Context(), "")
	if err != nil || !got.Success() || got.Initial != 0 {
		t.Errorf("check: got %+v, %v; want success that the initial state does not have", got, err)
	}
}
