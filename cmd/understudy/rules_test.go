package main_test

import (
	"encoding/json"
	"testing"

	"understudy/audit"
)

// What a person wrote down of answers and fields decides verdicts, and is part of them.
func TestWrittenRules(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	call := audit.Call{Tool: "get_user", Arguments: json.RawMessage(`{"user":"U1"}`)}
	path := d.write("chat.jsonl", chatLine("near", []audit.Call{call}, []string{`{"user":"U1","gift":34,"card":43,"orders":["#06","#14","#20"]}`})+"\n"+
		chatLine("failed", []audit.Call{call}, []string{`{"user":"U1","gift":34,"card":40,"orders":["#06","#14","#20"],"state":"gone"}`})+"\n")
	rules := d.write("rules.yaml", "version: \"1\"\ntools:\n  get_user:\n    fields: [{pointer: /state, failed: [gone]}]\n")
	paths := d.write("paths.yaml", "version: \"1\"\ntools:\n  get_user:\n    /card: {rule: number, abs: 5}\n")
	do := func(run string, flags ...string) [audit.Severities]int {
		t.Helper()
		d.do(0, append([]string{"audit", path, "--environment", "retail-mini@1", "--mode", "forced", "--run", run}, flags...)...)
		rungs, _ := d.ladder(run)
		return rungs
	}
	defaults, near, all := do("defaults"), do("near", "--path-policy", paths), do("all", "--path-policy", paths, "--rules", rules)
	if defaults[audit.S0] != 0 || defaults[audit.S4] != 0 {
		t.Errorf("by the defaults: %v, want no exact answer and no false error", defaults)
	}
	if near[audit.S0]+near[audit.S1] != 1 || near[audit.S4] != 0 {
		t.Errorf("with a tolerance of 5: %v, want one match", near)
	}
	if all[audit.S0]+all[audit.S1] != 1 || all[audit.S4] != 1 {
		t.Errorf("with a field that says failure, too: %v, want one match and one false error", all)
	}
	d.says(d.do(0, "verify"), `"runs": 3,`, `"pairs": 6,`) // other rules, other verdicts of the same calls

	gate := []string{"gate", "--policy", d.write("gate.yaml", "version: 1\nbaseline: defaults\ndefaults:\n  fsr: {max: 0.5}\n  material: {allowed_increase: 0.1}\n"), "--run"}
	d.says(d.do(3, append(gate, "all")...), `baseline "defaults" cannot be compared with run "all"`, "answers of retail-mini were judged by the rules ", "the run's by ", "--path-policy", "hint: ", "name another baseline")
	d.says(d.do(2, append(gate, "defaults")...), "INCONCLUSIVE")

	audits := []string{"audit", path, "--environment", "retail-mini@1"}
	d.says(d.do(3, append(audits, "--rules", d.write("bad.yaml", "version: \"1\"\ntols: {}\n"))...), "bad.yaml", `"tols"`, "hint: ", "tools")
	d.says(d.do(3, append(audits, "--path-policy", d.write("bad.yaml", "version: \"1\"\ntools:\n  get_user:\n    /card: volatil\n"))...), "bad.yaml", "line 4", "volatil", `did you mean "volatile"`, "hint: ")
	d.says(d.do(3, append(audits, "--path-policy", "nowhere.yaml")...), "path-policy: open nowhere.yaml", "hint: name an existing file")
}
