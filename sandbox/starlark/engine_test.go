package starlark_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

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

// An invariant says what does not hold, in words: one that says True by the habit of
// checks is a fault of the domain, not a finding in every world.
func TestInvariantSaysWhatDoesNotHold(t *testing.T) {
	for _, row := range []struct{ returns, want string }{
		{"None", ""},
		{"'one is missing'", "holds: one is missing"},
		{"True", "want a text"},
	} {
		d, err := starlark.Load(fstest.MapFS{
			"x/domain.yaml": {Data: []byte("name: x\n")},
			"x/domain.star": {Data: []byte("def state(rng, size = None):\n    return {}\ndef holds(initial, final):\n    return " + row.returns + "\ninvariant(holds)\n")},
		}, "x", starlark.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := starlark.NewEnvironment(d).Open(t.Context(), audit.Start{})
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.(audit.Inspector).Violations(t.Context())
		if got := strings.Join(found, ";") + fmt.Sprint(err); !strings.Contains(got, row.want) || (row.want == "want a text") != (err != nil) || row.want == "" && len(found) > 0 {
			t.Errorf("an invariant that returns %s: %v, %v; want %q", row.returns, found, err, row.want)
		}
	}
}
