package main_test

import (
	"encoding/json"
	"strings"
	"testing"

	"understudy/audit"
)

// What was audited in two runs stays with the one that is left.
func TestDrop(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	calls := []audit.Call{{Tool: "get_user", Arguments: json.RawMessage(`{"user":"U1"}`)}}
	path := d.write("chat.jsonl", chatLine("e", calls, replay(t, world(t, "retail-mini@1"), calls...))+"\n")
	for _, run := range []string{"monday", "tuesday"} {
		d.do(0, "audit", path, "--environment", "retail-mini@1", "--run", run)
	}
	d.do(0, "import", path, "--environment", "retail-mini@1", "--run", "queued")
	d.says(d.do(0, "drop", "monday", "queued", "--dry-run"),
		"run", "shared", "monday", "queued", "results that another run holds", "queued still has 1 open episodes", "nothing was removed")
	d.says(d.do(3, "drop", "monday"), "monday", "nobody sits at a terminal", "hint: ", "--yes")
	d.says(d.do(3, "drop", "monday", "mnday", "--yes"), `run "mnday"`)
	d.says(d.do(0, "report", "monday"), "1 scored") // all of them or none, as far as names go
	d.says(d.do(0, "drop", "monday", "queued", "--yes"), "dropped monday", "dropped queued")
	if out := d.do(3, "report", "monday"); !strings.Contains(out, "does not exist") && !strings.Contains(out, "not found") {
		t.Errorf("report of a dropped run:\n%s", out)
	}
	d.says(d.do(0, "report", "tuesday"), "get_user", "1 scored")
	d.says(d.do(0, "verify"), `"runs": 1`)
	d.says(d.do(0, "audit", path, "--environment", "retail-mini@1", "--run", "monday"), "1 scored") // the name is free again
}
