package gate_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"understudy/audit"
	"understudy/audit/gate"
)

// hostile is what a model may put into a name or a value.
const hostile = "pay|`<script>alert(1)</script>\"'&]]>-->\n## @all [x](http://evil.example) www.evil.example \x1b[31m\u202etxt *b* _i_ $(rm)"

// verdicts are one of every kind, the last full of hostile text.
func verdicts(t *testing.T) map[string]*gate.Verdict {
	t.Helper()
	p := load(t, "baseline: auto\ndefaults: {fsr: {max: 0.05, critical: true}, leaf_f1: {allowed_decrease: 0.02}, phantom_write: {max_count: 0}}\n"+
		"tools: {weather: {informational: true}, ship: {fsr: {critical: false}}}\nfindings: {max_new: 0}\n"+
		"known_issues: [{fingerprint: k1, reason: \"JIRA <12>\", expires: 2026-12-31}]\n"+
		"waivers: [{tool: ship, figure: fsr, reason: \"<b>flaky</b>\", by: \"@ann\", expires: 2026-12-05}]\n")
	findings := []audit.Finding{
		{
			Fingerprint: "f1", Environment: "retail", Tool: hostile, Pattern: "/a/*/" + hostile, Kind: "changed", Severity: audit.S5, Count: 7,
			Samples: []audit.Sample{{Pair: audit.Digest{9}, Pointer: "/a/0", Rehearsed: `"` + hostile + `"`, Real: "null"}},
		},
		{Fingerprint: "k1", Environment: "retail", Tool: "pay", Kind: "missing", Pattern: "/b", Severity: audit.S3, Count: 2},
		{Fingerprint: "f2", Environment: "retail", Tool: "pay", Kind: "changed", Pattern: "/c", Severity: audit.S1, Count: 1},
	}
	gated := func(counts ...audit.ToolCounts) *gate.Verdict {
		e := evidence(counts...)
		e.Run.ID, e.Run.Policy = "r1", hostile
		e.Findings = findings
		e.Baseline, e.BaselineCounts, e.BaselineFindings = new(facts("r0")), []audit.ToolCounts{tool("pay", audit.FigureLeafF1, 40, 4, 4)}, []string{"f2"}
		return decide(p, e)
	}
	return map[string]*gate.Verdict{
		"pass":         decide(load(t, "defaults: {fsr: {max: 0.05}}"), evidence(tool("pay", audit.FigureFSR, 200, 1, 0))),
		"fail":         gated(tool("pay", audit.FigureFSR, 40, 4, 2), tool("ship", audit.FigureFSR, 40, 4, 2), tool("weather", audit.FigureFSR, 5, 1, 1), tool(hostile, audit.FigureFSR, 40, 4, 3)),
		"inconclusive": decide(load(t, "defaults: {fsr: {max: 0.05}}"), evidence(tool(hostile, audit.FigureFSR, 20, 1, 0))),
		"nothing":      decide(load(t, "defaults: {fsr: {max: 0.05}}"), evidence()),
		"error":        broken(t),
	}
}

// broken is a verdict on counts that are none; its evidence is mended afterwards,
// since JSON cannot hold what was wrong with it.
func broken(t *testing.T) *gate.Verdict {
	t.Helper()
	bad := tool("pay", audit.FigureFSR, 9, 1, 0)
	bad.Groups[audit.FigureFSR][0].Sum = -1
	return decide(load(t, "defaults: {fsr: {max: 0.05}}"), evidence(bad))
}

func report(t *testing.T, kind gate.ReportKind, v *gate.Verdict) []byte {
	t.Helper()
	data, err := gate.Report(kind, v)
	if err != nil {
		t.Fatalf("report %s: %v", kind, err)
	}
	return data
}

func TestJSONFollowsItsSchemaAndVerifies(t *testing.T) {
	s := schema(t, gate.VerdictSchema())
	for name, v := range verdicts(t) {
		data := report(t, gate.JSON, v)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		again, err := gate.Verify(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !bytes.Equal(report(t, gate.JSON, again), data) {
			t.Errorf("%s: the recomputed report has other bytes", name)
		}
	}
}

func TestVerifyFindsEveryEdit(t *testing.T) {
	fail := string(report(t, gate.JSON, verdicts(t)["fail"]))
	for _, row := range []struct{ name, old, new, says string }{
		{"status", `"status": "FAIL",`, `"status": "PASS",`, "does not follow"},
		{"exit code", `"exit_code": 1`, `"exit_code": 0`, "exit code"},
		{"evidence", `"sum": 3,`, `"sum": 0,`, "does not follow"},
		{"policy", "max: 0.05", "max: 0.95", "does not follow"},
		{"line", `"line": "FAIL`, `"line": "PASS`, "line"},
		{"unknown field", `"line": "FAIL`, `"note": 1, "line": "FAIL`, "not the JSON report"},
		{"schema", "understudy.gate/1", "understudy.gate/9", "understudy.gate/9"},
		{"cut", fail[len(fail)/2:], "", "not the JSON report"},
	} {
		edited := strings.Replace(fail, row.old, row.new, 1)
		if edited == fail {
			t.Fatalf("%s: nothing to edit", row.name)
		}
		if _, err := gate.Verify([]byte(edited)); err == nil || !strings.Contains(err.Error(), row.says) || audit.ErrorCode(err) == audit.CodeInternal {
			t.Errorf("%s: %v, want an error about %q", row.name, err, row.says)
		}
	}
	if _, err := gate.Verify([]byte("null")); err == nil {
		t.Error("null verifies")
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"schema":"understudy.gate/1","evidence":{"run":{},"counts":null},"policy":{"text":"version: 1"}}`))
	f.Add([]byte(`{"schema":"understudy.gate/1","evidence":{"run":{},"counts":[{"tool":"a","mode":"forced","groups":{"fsr":[{"n":-1,"weight":1e308,"sum":1e308}]}}]},"policy":{"text":"version: 1\ndefaults: {fsr: {max: 0.1}}"}}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = gate.Verify(data) // must not panic
	})
}

func TestSARIF(t *testing.T) {
	text, err := os.ReadFile("testdata/sarif.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s := schema(t, text)
	for name, v := range verdicts(t) {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(report(t, gate.SARIF, v)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID              string
				RuleIndex           int
				Level               string
				BaselineState       string
				OccurrenceCount     int
				PartialFingerprints map[string]string
				Suppressions        []struct{ Justification string }
				Locations           []struct {
					PhysicalLocation struct{ Region struct{ StartLine int } }
				}
			}
		}
	}
	v := verdicts(t)["fail"]
	if err := json.Unmarshal(report(t, gate.SARIF, v), &log); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	suppressed := []string{}
	for _, r := range log.Runs[0].Results {
		id := r.PartialFingerprints["understudy/v1"]
		if seen[id] || id == "" {
			t.Errorf("fingerprint %q stands twice: results are aggregated", id)
		}
		seen[id] = true
		if log.Runs[0].Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID {
			t.Errorf("rule index %d is not %s", r.RuleIndex, r.RuleID)
		}
		for _, s := range r.Suppressions {
			suppressed = append(suppressed, s.Justification)
		}
		if id == "f2" && (r.Level != "note" || r.BaselineState != "unchanged") || id == "f1" && (r.Level != "error" || r.OccurrenceCount != 7 || r.BaselineState != "new") {
			t.Errorf("result %+v", r)
		}
		if r.RuleID == "gate/fsr" && len(r.Suppressions) > 0 && r.Locations[0].PhysicalLocation.Region.StartLine != 4 {
			t.Errorf("ship's result points at line %d, the policy names it on line 4", r.Locations[0].PhysicalLocation.Region.StartLine)
		}
	}
	if !slices.Equal(suppressed, []string{"@ann: <b>flaky</b>", "JIRA <12>"}) {
		t.Errorf("suppressed %q, want the waiver and the known issue", suppressed)
	}
}

// TestJUnit decodes the report strictly: only the elements and attributes that
// CI servers know (the Jenkins xunit form), with counts that add up.
func TestJUnit(t *testing.T) {
	attributes := map[string]string{
		"testsuites": "name tests failures errors skipped", "testsuite": "name tests failures errors skipped time timestamp",
		"testcase": "name classname time", "failure": "type message", "error": "type message", "skipped": "message", "system-out": "",
	}
	for name, v := range verdicts(t) {
		data := report(t, gate.JUnit, v)
		count := map[string]int{}
		var totals map[string]string
		decoder := xml.NewDecoder(bytes.NewReader(data))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			start, ok := token.(xml.StartElement)
			if !ok {
				continue
			}
			known, ok := attributes[start.Name.Local]
			if !ok {
				t.Errorf("%s: unknown element %s", name, start.Name.Local)
			}
			count[start.Name.Local]++
			for _, a := range start.Attr {
				if !slices.Contains(strings.Fields(known), a.Name.Local) {
					t.Errorf("%s: unknown attribute %s of %s", name, a.Name.Local, start.Name.Local)
				}
				if start.Name.Local == "testsuites" {
					if totals == nil {
						totals = map[string]string{}
					}
					totals[a.Name.Local] = a.Value
				}
			}
		}
		for attribute, element := range map[string]string{"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"} {
			if totals[attribute] != itoa(count[element]) {
				t.Errorf("%s: %s=%s but %d %s elements", name, attribute, totals[attribute], count[element], element)
			}
		}
		want := map[string]string{"pass": "testcase", "fail": "failure", "inconclusive": "skipped", "error": "error"}[name]
		if want != "" && count[want] == 0 {
			t.Errorf("%s: no %s element", name, want)
		}
	}
	if text := string(report(t, gate.JUnit, verdicts(t)["fail"])); !strings.Contains(text, "rehearsed") || !strings.Contains(text, "waived by @ann") {
		t.Error("a failure shows its worst samples, a waiver its author")
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// TestNothingIsInjected looks for hostile text in every report that is shown.
func TestNothingIsInjected(t *testing.T) {
	for name, v := range verdicts(t) {
		for _, kind := range gate.ReportKinds() {
			data := report(t, kind, v)
			if kind == gate.JSON {
				continue // exact by design; json.Marshal escapes control characters and angle brackets
			}
			for _, r := range string(data) {
				if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
					t.Errorf("%s %s holds the control character %U", name, kind, r)
				}
			}
			if kind != gate.SARIF && bytes.Contains(data, []byte("<script")) {
				t.Errorf("%s %s holds a script element", name, kind)
			}
		}
		if line := v.Line; strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("%s: the line %q holds control characters", name, line)
		}
		page := string(report(t, gate.HTML, v))
		if regexp.MustCompile(`(?i)(src|href|url|import)\s*[=(]`).MatchString(strings.ReplaceAll(page, "www.evil", "")) || !strings.Contains(page, "default-src 'none'") {
			t.Errorf("%s: the page loads something", name)
		}
		if err := xml.Unmarshal(report(t, gate.Badge, v), new(any)); err != nil && !strings.Contains(err.Error(), "unknown type") {
			t.Errorf("%s: the badge is no XML: %v", name, err)
		}
	}
}

func TestMarkdown(t *testing.T) {
	v := verdicts(t)["fail"]
	text := string(report(t, gate.Markdown, v))
	for _, want := range []string{gate.Sticky, "## ❌ FAIL", "waived by", "Gravest differences", "n_eff", "critical"} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q", want)
		}
	}
	for _, bad := range []string{"@all", "@ann", "](http", "http://", "www.evil", "*b*", "`", "<b>", "\n## @"} {
		if strings.Contains(text, bad) {
			t.Errorf("the summary holds %q", bad)
		}
	}
	rows := 0
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "|") {
			rows++
			if n := strings.Count(line, "|"); n != 10 {
				t.Errorf("a row has %d bars, want 10: %s", n, line)
			}
		}
	}
	if rows != len(v.Checks)+2*strings.Count(text, "|-|-|-|") { // each table has a head and a rule
		t.Errorf("%d rows for %d checks", rows, len(v.Checks))
	}
	many := []audit.ToolCounts{}
	for i := range 300 {
		many = append(many, tool("t"+itoa(i)+strings.Repeat("x", 90), audit.FigureFSR, 3, 1, 1))
	}
	if size := len(report(t, gate.Markdown, decide(load(t, "defaults: {fsr: {max: 0.05}}"), evidence(many...)))); size > 65000 {
		t.Errorf("a summary of %d bytes does not fit a comment (65,536)", size)
	}
}

func TestReportNamesAreClosed(t *testing.T) {
	if _, err := gate.Report("pdf", verdicts(t)["pass"]); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("report pdf: %v", err)
	}
}
