package gate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"understudy/audit"
)

// The part of SARIF 2.1.0 that the gate writes.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool      `json:"tool"`
		Results     []sarifResult  `json:"results"`
		Invocations []sarifInvoked `json:"invocations"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		InformationURI string      `json:"informationUri,omitempty"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string      `json:"id"`
		ShortDescription sarifText   `json:"shortDescription"`
		Default          sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID       string             `json:"ruleId"`
		RuleIndex    int                `json:"ruleIndex"`
		Level        string             `json:"level"`
		Message      sarifText          `json:"message"`
		Locations    []sarifLocation    `json:"locations"`
		Partial      map[string]string  `json:"partialFingerprints"`
		Occurrences  int                `json:"occurrenceCount,omitempty"`
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
		Baseline     string             `json:"baselineState,omitempty"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Status        string `json:"status"`
		Justification string `json:"justification"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
	}
	sarifInvoked struct {
		Successful bool   `json:"executionSuccessful"`
		ExitCode   int    `json:"exitCode"`
		EndTime    string `json:"endTimeUtc,omitempty"`
	}
)

// ReportSARIF is the verdict as SARIF 2.1.0 for code scanning: one result per
// fingerprint (tool, path pattern, kind of difference), never one per call, and
// one per check that failed. Known issues are suppressed results. Results point
// at the policy file, at the line that names the tool.
func ReportSARIF(v *Verdict) ([]byte, error) {
	policy, err := Load([]byte(v.Policy.Text))
	if err != nil {
		return nil, fmt.Errorf("read the policy of the verdict: %w", err)
	}
	w := &sarifWriter{verdict: v, policy: policy, index: map[string]int{}, rules: []sarifRule{}, results: []sarifResult{}}
	for i := range v.Checks {
		w.check(&v.Checks[i])
	}
	for _, f := range v.Evidence.Findings {
		if len(w.results) < maxFindings {
			w.finding(f)
		}
	}
	log := sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{{
			Tool:        sarifTool{sarifDriver{Name: "understudy", Rules: w.rules}},
			Results:     w.results,
			Invocations: []sarifInvoked{{Successful: v.Status != Error, ExitCode: v.ExitCode, EndTime: v.Decided.Format("2006-01-02T15:04:05Z")}},
		}},
	}
	data, err := json.MarshalIndent(log, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the verdict as SARIF: %w", err)
	}
	return append(data, '\n'), nil
}

type sarifWriter struct {
	verdict *Verdict
	policy  *Policy
	index   map[string]int
	rules   []sarifRule
	results []sarifResult
}

// rule returns the index of a rule, adding it at first use.
func (w *sarifWriter) rule(id, text, level string) int {
	if i, ok := w.index[id]; ok {
		return i
	}
	w.index[id] = len(w.rules)
	w.rules = append(w.rules, sarifRule{ID: id, ShortDescription: sarifText{text}, Default: sarifConfig{level}})
	return w.index[id]
}

func (w *sarifWriter) location(tool string, line int) []sarifLocation {
	return []sarifLocation{{
		Physical: sarifPhysical{
			Artifact: sarifArtifact{cmp.Or(w.verdict.Options.PolicyFile, "gate.yaml")}, Region: sarifRegion{max(line, 1)},
		},
		Logical: []sarifLogical{{Name: plain(cmp.Or(tool, "run")), Kind: "function"}},
	}}
}

func (w *sarifWriter) check(c *Check) {
	if c.Status != Fail || c.Informational {
		return
	}
	id := "gate/" + cmp.Or(string(c.Figure), string(c.Kind))
	result := sarifResult{
		RuleID: id, RuleIndex: w.rule(id, "The gate's limit on "+cmp.Or(string(c.Figure), string(c.Kind))+" is broken", "error"),
		Level: "error", Message: sarifText{c.Sentence()}, Locations: w.location(c.Tool, c.Line),
		Partial: map[string]string{"understudy/v1": audit.Fingerprint(c.Environment+"/"+c.Tool, string(c.Figure)+"/"+c.Bound, string(c.Kind))},
	}
	if c.Waived != nil {
		result.Suppressions = []sarifSuppression{{"external", "accepted", plain(c.Waived.By + ": " + c.Waived.Reason)}}
	}
	w.results = append(w.results, result)
}

func (w *sarifWriter) finding(f audit.Finding) {
	level := "note"
	switch f.Severity {
	case audit.S0, audit.S1, audit.S2:
	case audit.S3:
		level = "warning"
	case audit.S4, audit.S5:
		level = "error"
	}
	id := plain("difference/" + f.Kind)
	line := w.policy.lines[w.ruleNaming(f)]
	result := sarifResult{
		RuleID: id, RuleIndex: w.rule(id, "A rehearsed answer differs from the executed one: "+plain(f.Kind), level), Level: level,
		Message: sarifText{findingText(f)}, Locations: w.location(f.Tool, line),
		Partial: map[string]string{"understudy/v1": f.Fingerprint}, Occurrences: max(f.Count, 0),
	}
	if w.verdict.Evidence.Baseline != nil {
		result.Baseline = "new"
		if _, old := slices.BinarySearch(w.verdict.Evidence.BaselineFindings, f.Fingerprint); old {
			result.Baseline = "unchanged"
		}
	}
	for _, k := range w.policy.Known {
		if k.Fingerprint == f.Fingerprint && k.Expires.After(w.verdict.Decided) {
			result.Suppressions = []sarifSuppression{{"external", "accepted", plain(k.Reason)}}
		}
	}
	w.results = append(w.results, result)
}

func (w *sarifWriter) ruleNaming(f audit.Finding) string {
	rule := w.policy.ruleFor(f.Environment, f.Tool)
	return rule.Pattern
}

// findingText says a finding in one line.
func findingText(f audit.Finding) string {
	text := fmt.Sprintf("%s %s at %s on %s, %d times", f.Severity, f.Kind, cmp.Or(f.Pattern, "the outcome"), f.Tool, f.Count)
	if len(f.Samples) > 0 {
		text += fmt.Sprintf("; for instance rehearsed %s, real %s", f.Samples[0].Rehearsed, f.Samples[0].Real)
	}
	return plain(text)
}
