package starlark_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// broken is a domain whose tool "add" writes and then panics in Go.
func broken(t *testing.T, compat string) *starlark.Domain {
	t.Helper()
	d, err := starlark.Load(fstest.MapFS{
		"p/domain.yaml": {Data: []byte("name: p\n")},
		"p/domain.star": {Data: []byte(`
def add(db, n):
    db["total"] += n
    return db["total"]
tool(add, params={"n": integer("how much")}, effect="write")

def total(db):
    return db["total"]
tool(total)
`)},
		"p/state.star": {Data: []byte("def state(rng):\n    return {\"total\": 7}\n")},
	}, "p", starlark.Options{Compat: compat})
	if err != nil {
		t.Fatal(err)
	}
	starlark.Break(d)
	return d
}

// checkFault checks that a call was a fault that names the defect and left
// nothing behind, and says the same each time.
func checkFault(t *testing.T, obs audit.Observation, before audit.Digest) {
	t.Helper()
	if obs.Status != audit.StatusFault || obs.Error == nil || obs.Error.Family != audit.Internal {
		t.Fatalf("got %s %s, want an internal fault", obs.Status, obs.Raw)
	}
	for _, want := range []string{"panicked", "brokenBuiltin", "nil pointer"} {
		if !strings.Contains(obs.Error.Message, want) {
			t.Errorf("got %q, want it to say %q", obs.Error.Message, want)
		}
	}
	if strings.Contains(obs.Error.Message, "\n") || strings.Contains(obs.Error.Message, "0x") {
		t.Errorf("got %q, want one line that is the same in every run", obs.Error.Message)
	}
	if len(obs.Delta) != 0 || obs.Before != obs.After || obs.Before != before {
		t.Errorf("delta %v, before %s, after %s; want the state as it was: %s", obs.Delta, obs.Before, obs.After, before)
	}
}

// A Go panic under a handler is a fault of that call, under every behaviour.
func TestPanicIsFaultWithoutEffect(t *testing.T) {
	for _, compat := range []string{"", starlark.CompatTau2} {
		s, err := starlark.NewEnvironment(broken(t, compat)).Open(t.Context(), audit.Start{})
		if err != nil {
			t.Fatal(err)
		}
		before := call(t, s, "total", `{}`)
		checkFault(t, call(t, s, "add", `{"n":1}`), before.After)
		dry, err := s.(audit.DryRunner).DryRun(t.Context(), audit.Call{Tool: "add", Arguments: []byte(`{"n":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		checkFault(t, dry, before.After)
		if _, err := s.(audit.Inspector).Violations(t.Context()); audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), "panicked") {
			t.Errorf("an invariant that panics: got %v, want the domain's fault", err)
		}
		if obs := call(t, s, "total", `{}`); string(obs.Raw) != "7" || obs.Before != before.After {
			t.Errorf("afterwards: got %s, want 7: the session lives on", obs.Raw)
		}
	}
}

// The same in a child: neither the call nor a malformed request ends the process.
func TestPanicInChildIsFaultWithoutEffect(t *testing.T) {
	s := starlark.Serve(broken(t, ""))
	session, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Call(t.Context(), session, audit.Call{Tool: "total"})
	if err != nil {
		t.Fatal(err)
	}
	obs, err := s.Call(t.Context(), session, audit.Call{Tool: "add", Arguments: []byte(`{"n":1}`)})
	if err != nil {
		t.Fatal(err)
	}
	checkFault(t, obs, before.After)
	if err := s.Malformed(t.Context(), session); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("a call request without a call: got %v, want an error that names the panic", err)
	}
	obs, err = s.Call(t.Context(), session, audit.Call{Tool: "total"})
	if err != nil || string(obs.Raw) != "7" || obs.Before != before.After {
		t.Errorf("afterwards: got %s, %v, want 7: the process lives on", obs.Raw, err)
	}
}
