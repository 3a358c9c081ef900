package gate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"understudy/audit"
	"understudy/audit/gate"
)

func TestLoadRefuses(t *testing.T) {
	for _, row := range []struct {
		name, yaml string
		says       []string
		reason     string
	}{
		{"unknown key", "version: 1\nmin_sample: 5\ndefaults: {fsr: {max: .1}}", []string{"line 2", `"min_sample"`, `did you mean "min_samples"`}, "the nearest word"},
		{"unknown figure", "version: 1\ndefaults:\n  fsr: {max: .1}\n  leaf_f: {min: .9}", []string{"line 4", `did you mean "leaf_f1"`}, "the nearest figure"},
		{"their word", "version: 1\ndefaults: {optimism: {max: 0.1}}", []string{`did you mean "fsr"`}, "what other tools call optimism"},
		{"unknown bound", "version: 1\ndefaults: {fsr: {maximum: 0.1}}", []string{`did you mean "max"`}, "inside a condition"},
		{"above 1", "version: 1\ndefaults: {fsr: {max: 1.5}}", []string{"fsr.max", `"1.5"`, "between 0 and 1"}, "a share"},
		{"percent above 100", "version: 1\nmasked_max: 101%\ndefaults: {fsr: {max: .1}}", []string{"masked_max", "101%"}, "a share"},
		{"NaN", "version: 1\ndefaults: {fsr: {max: .nan}}", []string{"fsr.max"}, "not a number"},
		{"infinite", "version: 1\ndefaults: {leaf_f1: {min: -.inf}}", []string{"leaf_f1.min"}, "not a number either"},
		{"text", "version: 1\ndefaults: {fsr: {max: low}}", []string{`"low"`}, "not a number"},
		{"negative", "version: 1\nmin_samples: -3\ndefaults: {fsr: {max: .1}}", []string{"min_samples"}, "a count"},
		{"zero rate", "version: 1\ndefaults: {fsr: {max: 0}}", []string{"max_count: 0"}, "no sample shows it"},
		{"rate one", "version: 1\ndefaults: {leaf_f1: {min: 1}}", []string{"below 1"}, "no sample shows it"},
		{"empty bound", "version: 1\ndefaults: {fsr: {max: 1}}", []string{"holds always"}, "asks nothing"},
		{"wrong way", "version: 1\ndefaults: {fsr: {min: .9}}", []string{"counts a fault"}, "direction"},
		{"wrong way round", "version: 1\ndefaults: {leaf_f1: {max: .9}}", []string{"more leaf_f1 is better"}, "direction"},
		{"pass on no data", "version: 1\non_no_data: pass\ndefaults: {fsr: {max: .1}}", []string{"cannot be pass"}, "never"},
		{"confidence", "version: 1\nconfidence: 1\ndefaults: {fsr: {max: .1}}", []string{"0.9999"}, "certainty is not for sale"},
		{"twice", "version: 1\ndefaults: {fsr: {max: .1}, fsr: {max: .2}}", []string{"fsr"}, "which one?"},
		{"no baseline", "version: 1\ndefaults: {leaf_f1: {allowed_decrease: .1}}", []string{"baseline: auto"}, "compare with what?"},
		{"waiver without reason", "version: 1\ndefaults: {fsr: {max: .1}}\nwaivers: [{figure: fsr, by: ann, expires: 2026-12-01}]", []string{"line 3", "reason"}, "who and why"},
		{"issue without end", "version: 1\ndefaults: {fsr: {max: .1}}\nknown_issues: [{fingerprint: ab, reason: x}]", []string{"expires"}, "issues expire"},
		{"bad day", "version: 1\ndefaults: {fsr: {max: .1}}\nknown_issues: [{fingerprint: ab, reason: x, expires: 2026-02-31}]", []string{"2026-02-31"}, "no such day"},
		{"bad pattern", "version: 1\ntools: {\"a[\": {fsr: {max: .1}}}", []string{`"a["`}, "not a glob"},
		{"no version", "defaults: {fsr: {max: .1}}", []string{"version: 1"}, "which grammar?"},
		{"later version", "version: 2\ndefaults: {fsr: {max: .1}}", []string{"version"}, "not ours"},
		{"asks nothing", "version: 1", []string{"asks for nothing"}, "a gate without conditions would always pass"},
		{"empty", "", []string{"empty"}, "no document"},
		{"list", "[1, 2]", []string{"mapping"}, "not a policy"},
		{"not YAML", "version: 1\n  a: : b", []string{"line"}, "syntax"},
		{"wrong mode", "version: 1\nmodes: [forcd]\ndefaults: {fsr: {max: .1}}", []string{`did you mean "forced"`}, "the nearest mode"},
		{"all at once", "version: 1\nlooks: often\nmin_samples: x\ndefaults: {fsr: {max: 7}}", []string{"3 faults", "line 2", "line 3", "line 4"}, "every fault is told"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := gate.Load([]byte(row.yaml))
			if err == nil {
				t.Fatalf("accepted: %s", row.reason)
			}
			if audit.ErrorCode(err) != audit.CodeInvalid {
				t.Errorf("code %s, want invalid", audit.ErrorCode(err))
			}
			for _, word := range row.says {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q: %s", err, word, row.reason)
				}
			}
		})
	}
	if _, err := gate.Load(bytes.Repeat([]byte("#"), 2<<20)); audit.ErrorCode(err) != audit.CodeLimit {
		t.Errorf("2 MiB of policy: %v, want a limit", err)
	}
}

func TestLoadReads(t *testing.T) {
	p, err := gate.Load([]byte(fullPolicy))
	if err != nil {
		t.Fatal(err)
	}
	if p.Confidence != .9 || p.Looks != gate.Once || *p.Defaults.MaskedMax != .07 || p.Baseline != "tag:last-release" || p.WaiverDays != 7 {
		t.Errorf("read %+v", p)
	}
	if c := p.Tools[0].Conditions[audit.FigureFSR]; p.Tools[0].Pattern != "admin_*" || *c.Max != .02 || *c.MinSamples != 200 || c.Modes[0] != audit.Canary {
		t.Errorf("read %+v", p.Tools[0])
	}
	if p.Reports[gate.SARIF] != "out/gate.sarif" || p.Findings.Severity != audit.S3 || p.Known[0].Reason != "JIRA-12" || p.Waivers[0].By != "ann" {
		t.Errorf("read %+v %+v", p.Reports, p.Findings)
	}
}

// fullPolicy uses every key.
const fullPolicy = `version: 1
confidence: 0.9
looks: once
multiple_testing: none
baseline: tag:last-release
min_samples: 10
on_no_data: fail
masked_max: 7%
modes: [forced, open, probe]
defaults:
  fsr: {max: 5%, critical: true, allowed_increase: 0.01}
  leaf_f1: {min: 0.9, allowed_decrease: 0.02}
  phantom_write: {max_count: 0}
tools:
  "admin_*": {masked_max: 0.01, fsr: {max: 0.02, min_samples: 200, modes: [canary]}}
  get_weather: {informational: true, min_samples: 5, modes: [open], leaf_f1: {informational: true}}
findings: {max_new: 2, severity: S3, critical: false}
known_issues: [{fingerprint: 9f31, reason: JIRA-12, expires: 2026-12-31}]
waivers: [{tool: get_weather, figure: leaf_f1, reason: flaky, by: ann, expires: 2026-12-01}]
waiver_max_days: 7
report: {junit: out/junit.xml, sarif: out/gate.sarif, markdown: out/gate.md, json: out/gate.json, badge: out/badge.svg, html: out/gate.html}
`

// schema compiles one of the package's schemas.
func schema(tb testing.TB, text []byte) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		tb.Fatal(err)
	}
	s, err := compiler.Compile("schema.json")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestPolicySchemaAgrees: what Load accepts the schema accepts, and the schema
// refuses what an editor can see to be wrong.
func TestPolicySchemaAgrees(t *testing.T) {
	s := schema(t, gate.PolicySchema())
	valid := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(doc)
	}
	for _, text := range []string{fullPolicy, string(gate.Starting()), "version: 1\ndefaults: {fsr: {max: 0.05}}"} {
		if _, err := gate.Load([]byte(text)); err != nil {
			t.Errorf("Load refuses %s: %v", text, err)
		}
		if err := valid(text); err != nil {
			t.Errorf("the schema refuses what Load accepts: %v", err)
		}
	}
	for _, text := range []string{
		"version: 1\nmin_sample: 5", "version: 2", "version: 1\ndefaults: {fsr: {max: 1.5}}", "version: 1\ndefaults: {fsr: {min: .9}}",
		"version: 1\non_no_data: pass", "version: 1\ndefaults: {leaf_f1: {min: 1}}", "version: 1\nwaivers: [{figure: fsr}]", "defaults: {fsr: {max: .1}}",
	} {
		if valid(text) == nil {
			t.Errorf("the schema accepts %q", text)
		}
		if _, err := gate.Load([]byte(text)); err == nil {
			t.Errorf("Load accepts %q", text)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(fullPolicy))
	f.Add(gate.Starting())
	f.Add([]byte("version: 1\ndefaults: {fsr: {max: .1}}\n? [a]\n: b"))
	f.Add([]byte("&a [*a, *a]"))
	f.Add([]byte("version: 1\n<<: {a: b}\ntools: {\"\": {}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := gate.Load(text)
		if err != nil {
			if code := audit.ErrorCode(err); code != audit.CodeInvalid && code != audit.CodeLimit {
				t.Fatalf("code %s for %q", code, text)
			}
			return
		}
		if v := decide(p, evidence(tool("pay", audit.FigureFSR, 3, 1, 0))); v.Status == gate.Pass && p.OnNoData == gate.NoDataInconclusive && *p.Defaults.MinSamples > 3 && p.Findings == nil && len(p.Waivers) == 0 && !strings.Contains(string(text), "min_samples") {
			t.Fatalf("three calls pass %q: %s", text, v.Line)
		}
	})
}

var update = flag.Bool("update", false, "rewrite testdata")

func TestInit(t *testing.T) {
	canary := tool("pay", audit.FigureFSR, 40, 2, 1)
	canary.Mode = audit.Canary
	hostile := tool("x\"\n: [*\u202e", audit.FigureLeafF1, 40, 2, 1)
	s := source{
		runs:   map[string]audit.RunFacts{"r1": facts("r1")},
		counts: map[string][]audit.ToolCounts{"r1": {tool("pay", audit.FigureLeafF1, 40, 10, 10), canary, tool("ship", audit.FigureLeafF1, 40, 10, 7), hostile}},
	}
	text, err := gate.Init(t.Context(), s, "r1")
	if err != nil {
		t.Fatal(err)
	}
	p, err := gate.Load(text)
	if err != nil {
		t.Fatalf("the starting policy does not load: %v\n%s", err, text)
	}
	if *update {
		if err := os.WriteFile("testdata/init.yaml", text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if golden, err := os.ReadFile("testdata/init.yaml"); err != nil || !bytes.Equal(golden, text) {
		t.Errorf("the starting policy is not testdata/init.yaml (%v):\n%s", err, text)
	}
	if v := decide(p, evidence(tool("ship", audit.FigureLeafF1, 400, 10, 7))); v.Status == gate.Fail {
		t.Errorf("the policy made from a run fails a run like it: %s", v.Line)
	}
	if _, err := gate.Init(t.Context(), s, "r7"); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("init from no run: %v", err)
	}
}

// A figure that a schema forgets is one that an editor underlines in a right policy.
func TestSchemasKnowEveryFigure(t *testing.T) {
	t.Parallel()
	for _, figure := range audit.FigureNames() {
		word := []byte(`"` + string(figure) + `"`)
		if n := bytes.Count(gate.PolicySchema(), word); n < 2 {
			t.Errorf("%s stands %d times in policy.json, want an enum and a property", figure, n)
		}
		if n := bytes.Count(gate.VerdictSchema(), word); n < 3 {
			t.Errorf("%s stands %d times in verdict.json, want three enums", figure, n)
		}
	}
}
