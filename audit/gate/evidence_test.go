package gate_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/audit/stat"
)

func TestBadCountsAreAnError(t *testing.T) {
	for name, c := range map[string]stat.Cluster{
		"NaN":           {Group: "g", N: 1, Weight: 1, Sum: nan()},
		"negative":      {Group: "g", N: 1, Weight: -1, Sum: 0},
		"more than all": {Group: "g", N: 1, Weight: 1, Sum: 2},
	} {
		bad := tool("pay", audit.FigureFSR, 99, 1, 0)
		bad.Groups[audit.FigureFSR] = append(bad.Groups[audit.FigureFSR], c)
		if v := decide(load(t, "defaults: {fsr: {max: 0.05}}"), evidence(bad)); v.Status != gate.Error || v.ExitCode != 4 {
			t.Errorf("%s: %s, want ERROR", name, v.Line)
		}
		s := source{runs: map[string]audit.RunFacts{"r1": facts("r1")}, counts: map[string][]audit.ToolCounts{"r1": {bad}}}
		_, err := gate.Collect(t.Context(), s, load(t, "defaults: {fsr: {max: 0.05}}"), "r1", "")
		if audit.ErrorCode(err) != audit.CodeInternal {
			t.Errorf("%s: collect says %v", name, err)
		}
	}
}

func nan() float64 {
	zero := 0.
	return zero / zero
}

func TestCollect(t *testing.T) {
	base := source{
		runs:   map[string]audit.RunFacts{"r1": facts("r1"), "r0": facts("r0"), "tag:last": facts("r0")},
		counts: map[string][]audit.ToolCounts{"r1": {tool("pay", audit.FigureFSR, 3, 1, 0)}, "r0": {tool("pay", audit.FigureFSR, 3, 1, 0)}},
	}
	change := func(edit func(*audit.RunFacts)) source {
		s := source{runs: maps.Clone(base.runs), counts: base.counts}
		f := facts("r0")
		edit(&f)
		s.runs["r0"] = f
		return s
	}
	by := func(run, baseline map[string][]audit.Digest) source {
		s := change(func(f *audit.RunFacts) { f.Rules = baseline })
		f := facts("r1")
		f.Rules = run
		s.runs["r1"] = f
		return s
	}
	judged := by(map[string][]audit.Digest{"retail": {{1}, {3}}}, map[string][]audit.Digest{"retail": {{2}}})
	elsewhere := by(map[string][]audit.Digest{"retail": {{1}}, "shop": {{3}}}, map[string][]audit.Digest{"retail": {{1}}, "bank": {{4}}})
	p := load(t, "defaults: {fsr: {max: 0.05}}")
	for _, row := range []struct {
		name          string
		source        source
		run, baseline string
		code          audit.Code
		says          string
	}{
		{"plain", base, "r1", "", "", ""},
		{"baseline", base, "r1", "r0", "", ""},
		{"tag", base, "r1", "tag:last", "", ""},
		{"auto without any", base, "r1", "auto", "", ""},
		{"no run", base, "r7", "", audit.CodeNotFound, `no run "r7"`},
		{"no baseline", base, "r1", "r7", audit.CodeNotFound, `no run "r7"`},
		{"other version", change(func(f *audit.RunFacts) { f.Environments[0].Version = "2" }), "r1", "r0", audit.CodeConflict, "retail@2"},
		{"other digest", change(func(f *audit.RunFacts) { f.Environments[0].Digest = audit.Digest{2} }), "r1", "r0", audit.CodeConflict, "0200000000"},
		{"other wire API", change(func(f *audit.RunFacts) { f.WireAPIs = []string{"responses"} }), "r1", "r0", audit.CodeConflict, "wire API responses"},
		{"other world", change(func(f *audit.RunFacts) { f.Environments[0].Name = "airline" }), "r1", "r0", audit.CodeConflict, "share no environment"},
		{"other rules", judged, "r1", "r0", audit.CodeConflict, "judged by the rules 020000000000, the run's by 010000000000 and 030000000000"},
		{"rules of another world", elsewhere, "r1", "r0", "", ""},
		{"store down", source{err: &audit.Error{Code: audit.CodeInfrastructure, Message: "down"}}, "r1", "", audit.CodeInfrastructure, "down"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e, err := gate.Collect(t.Context(), row.source, p, row.run, row.baseline)
			if audit.ErrorCode(err) != row.code || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Fatalf("error %v (%s), want %q (%s)", err, audit.ErrorCode(err), row.says, row.code)
			}
			if row.name == "auto without any" && len(e.Notes) != 1 {
				t.Errorf("notes %q do not say that there is nothing to compare with", e.Notes)
			}
		})
	}
}

func TestInventedToolsAreOne(t *testing.T) {
	made := func(name string) audit.ToolCounts {
		c := tool(name, audit.FigureFSR, 70, 1, 0)
		c.Unknown = 70
		return c
	}
	s := source{
		runs:   map[string]audit.RunFacts{"r1": facts("r1")},
		counts: map[string][]audit.ToolCounts{"r1": {made("pay_now"), made("pay_please"), tool("pay", audit.FigureFSR, 120, 1, 0)}},
	}
	p := load(t, "defaults: {fsr: {max: 0.05}}")
	e, err := gate.Collect(t.Context(), s, p, "r1", "")
	if err != nil {
		t.Fatal(err)
	}
	v := decide(p, e)
	if len(v.Checks) != 2 || v.Checks[0].Tool != gate.UnknownTools || v.Checks[0].Estimate.N != 140 {
		text, _ := json.MarshalIndent(v.Checks, "", " ")
		t.Errorf("want one check for all invented tools, got %s", text)
	}
}
