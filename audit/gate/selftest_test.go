package gate_test

import (
	"strings"
	"testing"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

func world(t *testing.T) gate.World {
	t.Helper()
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() { _ = registry.Close() })
	env, err := registry.Environment(t.Context(), "retail")
	if err != nil {
		t.Fatal(err)
	}
	w, err := gate.NewWorld(t.Context(), env, 5, 12)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSelftest shows the gate blocking: on the built-in retail domain, rehearsers
// that always say ok, get one field wrong or keep silent about writes FAIL, and a
// faithful one passes.
func TestSelftest(t *testing.T) {
	w := world(t)
	p, err := gate.Load(gate.Starting())
	if err != nil {
		t.Fatal(err)
	}
	trials, err := gate.Selftest(t.Context(), p, w, today())
	for _, trial := range trials {
		t.Logf("%-13s want %s: %s", trial.Rehearser, trial.Want, trial.Verdict.Line)
	}
	if err != nil {
		t.Error(err)
	}
	if len(trials) != 4 {
		t.Errorf("%d trials, want 4", len(trials))
	}
	for _, row := range []struct{ policy, blind, reason string }{
		{"defaults: {leaf_f1: {min: 0.9}, silent_write: {max: 0.05}}", "always_ok", "nothing asks for fsr"},
		{"defaults: {fsr: {max: 0.05}, silent_write: {max: 0.05}}", "wrong_field", "nothing looks at values"},
		{"defaults: {fsr: {max: 0.05}, leaf_f1: {min: 0.97}}", "silent_write", "nothing looks at writes"},
		{"defaults: {informational: true, fsr: {max: 0.05}}", "always_ok", "nothing decides"},
	} {
		_, err := gate.Selftest(t.Context(), load(t, row.policy), w, today())
		if audit.ErrorCode(err) != audit.CodeConflict || !strings.Contains(err.Error(), row.blind) {
			t.Errorf("%s: %v, want it to say that %s gets through: %s", row.policy, err, row.blind, row.reason)
		}
	}
}
