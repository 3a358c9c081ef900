package starlark_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// Calls share what the engine keeps ready for them: however one ends, the next
// one answers and costs what it does alone.
func TestCallsLeaveNothingBehind(t *testing.T) {
	fsys := fstest.MapFS{
		"x/domain.yaml": {Data: []byte("name: x\n")},
		"x/state.star":  {Data: []byte("def state(rng):\n    return {\"n\": 1}\n")},
		"x/domain.star": {Data: []byte(strings.Join([]string{
			`def good(db):`,
			`    db["n"] += 1`,
			`    return {"text": "a" * 100, "n": db["n"], "list": sorted([3, 1, 2])}`,
			`def refused(db):`,
			`    db["n"] += 1`,
			`    error("conflict", "no")`,
			`def endless(db):`,
			`    for i in range(1000000):`,
			`        db["n"] = i`,
			`def hungry(db):`,
			`    return "a" * (1 << 40)`,
			`def large(db):`,
			`    return "a" * 100000`,
			`def broken(db):`,
			`    return db["absent"]`,
			`[tool(fn, effect = "write") for fn in [good, refused, endless, hungry, large, broken]]`,
		}, "\n"))},
	}
	d, err := starlark.Load(fsys, "x", starlark.Options{Limits: starlark.Limits{Steps: 50_000, Wall: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := starlark.NewEnvironment(d).Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	dry := func(ctx context.Context, tool string) audit.Observation {
		t.Helper()
		obs, err := s.(audit.DryRunner).DryRun(ctx, audit.Call{Tool: tool})
		if err != nil && ctx.Err() == nil {
			t.Fatalf("%s: %v", tool, err)
		}
		return obs
	}
	want := dry(t.Context(), "good")
	for _, tt := range []struct {
		tool   string
		status audit.Status
		reason string
	}{
		{"good", audit.StatusOK, "an earlier answer is not written into"},
		{"refused", audit.StatusRefused, "its write is dropped"},
		{"endless", audit.StatusFault, "its steps are used up, not the next call's"},
		{"hungry", audit.StatusFault, "its memory is used up, not the next call's"},
		{"large", audit.StatusOK, "its answer's memory is not kept"},
		{"broken", audit.StatusFault, "its failure is its own"},
	} {
		if obs := dry(t.Context(), tt.tool); obs.Status != tt.status {
			t.Fatalf("%s: got %s %.80s, want %s", tt.tool, obs.Status, obs.Raw, tt.status)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // may strike at any moment of the call
		dry(ctx, tt.tool)
		cancel()
		got := dry(t.Context(), "good")
		if got.Status != want.Status || string(got.Raw) != string(want.Raw) || got.After != want.After ||
			got.Cost.Steps != want.Cost.Steps || got.Cost.Bytes != want.Cost.Bytes {
			t.Errorf("after %s: got %+v, want %+v: %s", tt.tool, got, want, tt.reason)
		}
	}
}
