package gate

import (
	"path"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"understudy/audit"
)

// Load reads a gate policy (version 1):
//
//	version: 1
//	confidence: 0.95                 # of each one-sided bound
//	looks: anytime                   # or once
//	multiple_testing: holm           # across the tools, per figure; or none
//	baseline: auto                   # a run, tag:NAME, or auto = the last one that passed
//	min_samples: 60                  # calls that count in a figure before it may pass
//	on_no_data: inconclusive         # or fail, ignore
//	masked_max: 5%
//	modes: [forced, open]
//	defaults:
//	  fsr: {max: 0.05, critical: true, modes: [canary]}
//	  leaf_f1: {min: 0.90, allowed_decrease: 0.02}
//	  phantom_write: {max_count: 0}
//	tools:
//	  "admin_*": {fsr: {max: 0.02}, min_samples: 200}
//	  get_weather: {informational: true}
//	findings: {max_new: 0, severity: S4}
//	known_issues: [{fingerprint: 9f31…, reason: JIRA-12, expires: 2026-12-31}]
//	waivers: [{tool: get_weather, figure: leaf_f1, reason: flaky upstream, by: ann, expires: 2026-12-01}]
//	waiver_max_days: 14
//	report: {junit: out/junit.xml, sarif: out/gate.sarif, markdown: out/gate.md, json: out/gate.json}
//
// Every fault is reported with its line, an unknown word with the nearest valid
// one; the error is an *audit.Error with CodeInvalid.
func Load(text []byte) (*Policy, error) {
	root, err := parseYAML(text)
	if err != nil {
		return nil, err
	}
	p := &Policy{
		Text: slices.Clone(text), Confidence: .95, Looks: Anytime, Multiple: Holm, OnNoData: NoDataInconclusive, WaiverDays: 14,
		Defaults: Rule{
			MinSamples: new(60), // SonarQube's small-sample rule, made explicit
			MaskedMax:  new(.05),
			Modes:      []audit.Mode{audit.Forced, audit.Open},
			Conditions: map[audit.Figure]Condition{},
		},
		Reports: map[ReportKind]string{}, lines: map[string]int{},
	}
	r := &reader{}
	version := 0
	r.object(root, "the policy",
		field{"version", func(n ast.Node) { version = r.whole(n, "version", 1, 1) }},
		field{"confidence", func(n ast.Node) { p.Confidence = r.confidence(n) }},
		field{"looks", func(n ast.Node) { p.Looks = word(r, n, "looks", Anytime, Once) }},
		field{"multiple_testing", func(n ast.Node) { p.Multiple = word(r, n, "multiple_testing", Holm, NoCorrection) }},
		field{"baseline", func(n ast.Node) { p.Baseline = r.text(n, "baseline") }},
		field{"min_samples", func(n ast.Node) { p.Defaults.MinSamples = new(r.whole(n, "min_samples", 1, 1e9)) }},
		field{"on_no_data", func(n ast.Node) { p.OnNoData = r.noData(n) }},
		field{"masked_max", func(n ast.Node) { p.Defaults.MaskedMax = new(r.share(n, "masked_max")) }},
		field{"modes", func(n ast.Node) { p.Defaults.Modes = r.modes(n) }},
		field{"defaults", func(n ast.Node) { r.rule(n, "defaults", &p.Defaults) }},
		field{"tools", func(n ast.Node) { r.tools(n, p) }},
		field{"findings", func(n ast.Node) { p.Findings = r.findings(n) }},
		field{"known_issues", func(n ast.Node) {
			r.list(n, "known_issues", func(n ast.Node) { p.Known = append(p.Known, r.known(n)) })
		}},
		field{"waivers", func(n ast.Node) {
			r.list(n, "waivers", func(n ast.Node) { p.Waivers = append(p.Waivers, r.waiver(n)) })
		}},
		field{"waiver_max_days", func(n ast.Node) { p.WaiverDays = r.whole(n, "waiver_max_days", 0, 366) }},
		field{"report", func(n ast.Node) { r.reports(n, p.Reports) }},
	)
	if version == 0 {
		r.fault(root, "the policy does not say its version; write version: 1")
	}
	if len(p.Defaults.Conditions) == 0 && !slices.ContainsFunc(p.Tools, func(r Rule) bool { return len(r.Conditions) > 0 }) && p.Findings == nil {
		r.fault(root, "the policy asks for nothing; write a condition such as fsr: {max: 0.05} under defaults")
	}
	if p.Baseline == "" && p.compares() {
		r.fault(root, "allowed_decrease and allowed_increase compare with a baseline; write baseline: auto")
	}
	return p, r.err()
}

func (r *reader) confidence(n ast.Node) float64 {
	c := r.share(n, "confidence")
	if c < .5 || c > .9999 {
		r.fault(n, "confidence must lie between 0.5 and 0.9999")
		return .95
	}
	return c
}

func (r *reader) noData(n ast.Node) NoData {
	if s, _ := scalar(n); s == "pass" {
		r.fault(n, "on_no_data cannot be pass: what was not seen has not passed (valid: inconclusive, fail, ignore)")
		return NoDataInconclusive
	}
	return word(r, n, "on_no_data", NoDataInconclusive, NoDataFail, NoDataIgnore)
}

func (r *reader) modes(n ast.Node) []audit.Mode {
	var modes []audit.Mode
	r.list(n, "modes", func(n ast.Node) {
		if m := word(r, n, "mode", audit.Forced, audit.Open, audit.Probe, audit.Canary); !slices.Contains(modes, m) {
			modes = append(modes, m)
		}
	})
	if len(modes) == 0 {
		r.fault(n, "modes must name at least one mode")
		return []audit.Mode{audit.Forced}
	}
	return modes
}

// rule reads the conditions and settings of one tool pattern.
func (r *reader) rule(n ast.Node, what string, rule *Rule) {
	fields := []field{
		{"informational", func(n ast.Node) { rule.Informational = new(r.flag(n, "informational")) }},
		{"min_samples", func(n ast.Node) { rule.MinSamples = new(r.whole(n, "min_samples", 1, 1e9)) }},
		{"masked_max", func(n ast.Node) { rule.MaskedMax = new(r.share(n, "masked_max")) }},
		{"modes", func(n ast.Node) { rule.Modes = r.modes(n) }},
	}
	for _, figure := range audit.FigureNames() {
		fields = append(fields, field{string(figure), func(n ast.Node) { rule.Conditions[figure] = r.condition(n, figure) }})
	}
	r.object(n, what, fields...)
}

// condition reads the bounds of one figure.
func (r *reader) condition(n ast.Node, figure audit.Figure) Condition {
	var c Condition
	what := string(figure)
	r.object(n, what,
		field{"min", func(n ast.Node) { c.Min = new(r.share(n, what+".min")) }},
		field{"max", func(n ast.Node) { c.Max = new(r.share(n, what+".max")) }},
		field{"max_count", func(n ast.Node) { c.MaxCount = new(r.whole(n, what+".max_count", 0, 1e9)) }},
		field{"allowed_decrease", func(n ast.Node) { c.AllowedDecrease = new(r.share(n, what+".allowed_decrease")) }},
		field{"allowed_increase", func(n ast.Node) { c.AllowedIncrease = new(r.share(n, what+".allowed_increase")) }},
		field{"critical", func(n ast.Node) { c.Critical = new(r.flag(n, what+".critical")) }},
		field{"informational", func(n ast.Node) { c.Informational = new(r.flag(n, what+".informational")) }},
		field{"min_samples", func(n ast.Node) { c.MinSamples = new(r.whole(n, what+".min_samples", 1, 1e9)) }},
		field{"modes", func(n ast.Node) { c.Modes = r.modes(n) }},
	)
	r.direction(n, figure, c)
	return c
}

// direction refuses bounds that point the wrong way or that no data can show.
func (r *reader) direction(n ast.Node, figure audit.Figure, c Condition) {
	switch fault := figure.LowerIsBetter(); {
	case fault && c.Min != nil:
		r.fault(n, "%s counts a fault: it has a max, not a min", figure)
	case fault && c.AllowedDecrease != nil:
		r.fault(n, "%s counts a fault: it has an allowed_increase, not an allowed_decrease", figure)
	case !fault && c.Max != nil:
		r.fault(n, "more %s is better: it has a min, not a max", figure)
	case !fault && c.AllowedIncrease != nil:
		r.fault(n, "more %s is better: it has an allowed_decrease, not an allowed_increase", figure)
	case !fault && c.MaxCount != nil:
		r.fault(n, "max_count limits faults; %s is not one", figure)
	}
	if c.Max != nil && *c.Max == 0 {
		r.fault(n, "no number of calls shows a rate of exactly 0; write max_count: 0, or a max above 0")
	}
	if c.Max != nil && *c.Max == 1 || c.Min != nil && *c.Min == 0 {
		r.fault(n, "this bound of %s holds always; leave it out", figure)
	}
	if c.Min != nil && *c.Min == 1 {
		r.fault(n, "no number of calls shows a rate of exactly 1; write a min below 1")
	}
}

func (r *reader) tools(n ast.Node, p *Policy) {
	r.each(n, "tools", func(pattern string, k, v ast.Node) {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			r.fault(k, "%q is no tool pattern; escape [ as \\[, or leave it out", pattern)
			return
		}
		rule := Rule{Pattern: pattern, Conditions: map[audit.Figure]Condition{}}
		r.rule(v, "tools."+pattern, &rule)
		p.Tools = append(p.Tools, rule)
		p.lines[pattern] = lineOf(k)
	})
}

func (r *reader) findings(n ast.Node) *FindingRule {
	rule := &FindingRule{Severity: audit.S4}
	r.object(n, "findings",
		field{"max_new", func(n ast.Node) { rule.MaxNew = r.whole(n, "findings.max_new", 0, 1e9) }},
		field{"critical", func(n ast.Node) { rule.Critical = r.flag(n, "findings.critical") }},
		field{"severity", func(n ast.Node) {
			s := word(r, n, "findings.severity", "S1", "S2", "S3", "S4", "S5")
			rule.Severity = audit.Severity(s[1] - '0')
		}},
	)
	return rule
}

func (r *reader) known(n ast.Node) (k KnownIssue) {
	r.object(n, "known_issues",
		field{"fingerprint", func(n ast.Node) { k.Fingerprint = r.text(n, "fingerprint") }},
		field{"reason", func(n ast.Node) { k.Reason = r.text(n, "reason") }},
		field{"expires", func(n ast.Node) { k.Expires = r.date(n, "expires") }},
	)
	if k.Fingerprint == "" || k.Reason == "" || k.Expires.IsZero() {
		r.fault(n, "a known issue needs a fingerprint, a reason and a day on which it expires")
	}
	return k
}

func (r *reader) waiver(n ast.Node) Waiver {
	w := Waiver{Tool: "*"}
	r.object(n, "waivers",
		field{"tool", func(n ast.Node) { w.Tool = r.text(n, "tool") }},
		field{"figure", func(n ast.Node) { w.Figure = word(r, n, "figure", audit.FigureNames()...) }},
		field{"reason", func(n ast.Node) { w.Reason = r.text(n, "reason") }},
		field{"by", func(n ast.Node) { w.By = r.text(n, "by") }},
		field{"expires", func(n ast.Node) { w.Expires = r.date(n, "expires") }},
	)
	if w.Figure == "" || w.Reason == "" || w.By == "" || w.Expires.IsZero() {
		r.fault(n, "a waiver needs a figure, a reason, who gave it (by) and a day on which it expires")
	}
	if _, err := path.Match(w.Tool, ""); err != nil {
		r.fault(n, "%q is no tool pattern", w.Tool)
	}
	return w
}

func (r *reader) reports(n ast.Node, into map[ReportKind]string) {
	var fields []field
	for _, kind := range ReportKinds() {
		fields = append(fields, field{string(kind), func(n ast.Node) { into[kind] = r.text(n, "report."+string(kind)) }})
	}
	r.object(n, "report", fields...)
}
