package starlark_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

func TestMain(m *testing.M) {
	starlark.ChildMain()
	os.Exit(m.Run())
}

// bomb is a domain that counts, and whose tools can take their process down: its
// limits are those of a domain that nobody bounded.
func bomb(tb testing.TB) *starlark.ChildEnvironment {
	tb.Helper()
	fsys := fstest.MapFS{
		"b/domain.yaml": {Data: []byte("name: b\n")},
		"b/domain.star": {Data: []byte(`
def add(db, n):
    db["total"] += n
    return db["total"]
tool(add, params={"n": integer("how much")}, effect="write")

def eat(db):
    """Eat memory."""
    db["total"] += 1
    keep = []
    for i in range(1000000):
        keep.append("x%d" % i * 100000)
    return len(keep)
tool(eat, effect="write")

def spin(db):
    """Never end."""
    for i in range(1000000):
        for j in range(1000000):
            pass
tool(spin)
`)},
		"b/state.star": {Data: []byte("def state(rng):\n    return {\"total\": 0}\n")},
	}
	env, err := starlark.NewChildEnvironment(tb.Context(), fsys, "b", starlark.ChildOptions{
		Options: starlark.Options{Limits: starlark.Limits{Steps: 1 << 60, Bytes: 1 << 60, Wall: time.Hour}},
		Memory:  512 << 20, Grace: 50 * time.Millisecond,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = env.Close() })
	return env
}

func call(tb testing.TB, s audit.Session, tool, args string) audit.Observation {
	tb.Helper()
	obs, err := s.Call(tb.Context(), audit.Call{Tool: tool, Arguments: []byte(args)})
	if err != nil {
		tb.Fatal(err)
	}
	return obs
}

// TestChildDies runs a domain that exhausts its process's memory: the call is a
// fault, and the sessions live on in another process as they were.
func TestChildDies(t *testing.T) {
	env := bomb(t)
	s, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	call(t, s, "add", `{"n":2}`)
	snap, err := s.(audit.Snapshotter).Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fork, err := s.(audit.Forker).Fork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := call(t, s, "add", `{"n":3}`)
	obs := call(t, s, "eat", ``)
	named := obs.Error != nil && (strings.Contains(obs.Error.Message, "memory") || strings.Contains(obs.Error.Message, "allocate")) // the race detector's word
	if obs.Status != audit.StatusFault || !named {
		t.Fatalf("got %s %s, want a fault that names memory", obs.Status, obs.Raw)
	}
	if obs.Before != before.After || obs.After != before.After {
		t.Error("the call that killed its process had an effect")
	}
	var others sync.WaitGroup
	others.Go(func() { _ = env.Info() }) // what the domain says of itself is read while another child is loaded
	if obs := call(t, s, "add", `{"n":1}`); string(obs.Raw) != "6" || obs.Before != before.After {
		t.Errorf("after the death: got %s, want 6: the session is rebuilt by replay", obs.Raw)
	}
	others.Wait()
	if obs := call(t, fork, "add", `{"n":1}`); string(obs.Raw) != "3" {
		t.Errorf("the fork: got %s, want 3", obs.Raw)
	}
	if err := s.(audit.Snapshotter).Restore(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
	if obs := call(t, s, "add", `{"n":1}`); string(obs.Raw) != "3" {
		t.Errorf("after restoring a snapshot of the dead process: got %s, want 3", obs.Raw)
	}
}

// TestChildCancelled ends a call that runs too long by its caller's patience.
func TestChildCancelled(t *testing.T) {
	s, err := bomb(t).Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	call(t, s, "add", `{"n":2}`)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Call(ctx, audit.Call{Tool: "spin"}); !errors.Is(err, context.DeadlineExceeded) { // the domain's own limit is an hour
		t.Errorf("got %v, want the caller's deadline", err)
	}
	if obs := call(t, s, "add", `{"n":1}`); string(obs.Raw) != "3" {
		t.Errorf("afterwards: got %s, want 3", obs.Raw)
	}
}

func TestChildRefusesBrokenDomain(t *testing.T) {
	fsys := fstest.MapFS{"b/domain.yaml": {Data: []byte("name: b\n")}, "b/domain.star": {Data: []byte("while True:\n    pass\n")}}
	_, err := starlark.NewChildEnvironment(t.Context(), fsys, "b", starlark.ChildOptions{})
	if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), "b/domain.star:1:1") || audit.ErrorHint(err) == "" {
		t.Errorf("got %v, hint %q; want the place and the remedy, across the pipe", err, audit.ErrorHint(err))
	}
}
