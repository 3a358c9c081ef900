package audit_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/audit/trace"
	"understudy/sandbox/starlark"
	"understudy/sandbox/tau2"
)

// TestTrap10TheRecordedWorldScoresFull audits tau2-bench's own answers as rehearsals:
// a rehearser that replays the sandbox scores 100 % (issue 5).
// It is trap 10 of facts/envace.md, section 6: pairs are compared from the same state.
func TestTrap10TheRecordedWorldScoresFull(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "shared", "data", "tau2")
	if data := os.Getenv("UNDERSTUDY_DATA"); data != "" {
		dir = filepath.Join(data, "tau2")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Logf("no recordings in %s: set UNDERSTUDY_DATA; the domains of sandbox/tau2 are tested there", dir)
		return
	}
	bundles, err := tau2.Import(t.Context(), os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bundles {
		env := starlark.NewEnvironment(b.Domain)
		t.Cleanup(func() { _ = env.Close() })
		a := newAuditor(t, audit.Config{Opener: opener{b.Name: env}})
		files, err := filepath.Glob(filepath.Join(dir, b.Name, "trace.*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: recordings %v, %v", b.Name, files, err)
		}
		for _, file := range files {
			t.Run(b.Name+"/"+filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				scored, flipped, leaves := 0, 0, 0
				opts := trace.Options{Environment: b.Name, Mode: audit.Forced, Answers: trace.AsRehearsal}
				_, err := trace.Import(file, opts, func(ep audit.Episode) error {
					for _, p := range episode(t, a, &ep) {
						scored++
						if v := p.Verdict; !v.Scored() || v.Severity != audit.S0 {
							t.Errorf("%s step %d %s: %s %s %v, real %v, rehearsed %v, differences %v, flags %v",
								ep.ID, p.Action.Step, p.Action.Call.Tool, v.Masked, v.MaskDetail, v.Severity, v.Real, v.Rehearsed, v.Differences, v.Flags)
						}
					}
					for i := range ep.Actions {
						leaves += boolInt(flipStatus(&ep.Actions[i]))
					}
					for _, p := range episode(t, a, &ep) {
						flipped += len(p.Verdict.Differences)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if flipped != leaves || scored == 0 {
					t.Errorf("%d flipped fields cost %d leaves", leaves, flipped)
				}
				t.Logf("%d of %d recorded answers score S0; %d flipped fields cost %d leaves", scored, scored, leaves, flipped)
			})
		}
	}
}

// flipStatus changes one field of a recorded object and reports whether it did.
func flipStatus(action *audit.Action) bool {
	var body map[string]json.RawMessage
	if action.Rehearsal == nil || json.Unmarshal(action.Rehearsal.Raw, &body) != nil {
		return false
	}
	status, ok := body["status"]
	if !ok || !strings.HasPrefix(string(status), `"`) {
		return false
	}
	body["status"] = json.RawMessage(`"flipped"`)
	raw, err := json.Marshal(body)
	action.Rehearsal.Raw = raw
	return err == nil
}
