package gate

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"understudy/audit"
)

// Policy is a gate policy: what must hold of a run before it is released.
type Policy struct {
	Text       []byte  // the YAML it was read from
	Confidence float64 // of every one-sided bound
	Looks      Looks
	Multiple   Multiple
	Baseline   string // run id, tag:NAME or auto; "" = none
	OnNoData   NoData
	Defaults   Rule   // for every tool of the run
	Tools      []Rule // in the file's order
	Findings   *FindingRule
	Known      []KnownIssue
	Waivers    []Waiver
	WaiverDays int // longest time that a waiver may run
	Reports    map[ReportKind]string

	lines map[string]int // of tools, for code scanning
}

// Looks says how often a run may be judged.
type Looks string

// The looks.
const (
	Anytime Looks = "anytime" // as often as one likes, while calls come in
	Once    Looks = "once"    // exactly once, at a size fixed beforehand
)

// Multiple says how the checks of one figure share their error rate.
type Multiple string

// The corrections.
const (
	Holm         Multiple = "holm" // no tool at all is wrongly passed or failed on a figure, at the confidence
	NoCorrection Multiple = "none" // each check alone; a PASS of the whole gate still needs all of them
)

// NoData says what becomes of a check without data.
type NoData string

// The answers to missing data. There is deliberately no "pass".
const (
	NoDataInconclusive NoData = "inconclusive"
	NoDataFail         NoData = "fail"
	NoDataIgnore       NoData = "ignore" // the check is left out; a gate without any other check stays inconclusive
)

// Rule is what is asked of the tools that a pattern names.
type Rule struct {
	Pattern       string // tool name or glob; with a slash it is matched against environment/tool; "" = every tool
	Informational *bool  // shown, never decisive
	MinSamples    *int
	MaskedMax     *float64
	Modes         []audit.Mode
	Conditions    map[audit.Figure]Condition
}

// Condition bounds one figure. Nil fields ask nothing.
type Condition struct {
	Min             *float64 // the lower bound must reach it
	Max             *float64 // the upper bound must stay within it
	MaxCount        *int     // no more faults than this, whatever the rate
	AllowedDecrease *float64 // against the baseline, for figures where more is better
	AllowedIncrease *float64 // against the baseline, for figures that count faults
	Critical        *bool    // cannot be waived
	Informational   *bool
	MinSamples      *int
	Modes           []audit.Mode
}

// FindingRule limits kinds of difference that are neither known issues nor in
// the baseline.
type FindingRule struct {
	MaxNew   int
	Severity audit.Severity // and graver ones
	Critical bool
}

// KnownIssue exempts one fingerprint until it expires.
type KnownIssue struct {
	Fingerprint string    `json:"fingerprint"`
	Reason      string    `json:"reason"`
	Expires     time.Time `json:"expires"`
}

// Waiver lets checks pass that do not, for a time, with a name under it.
type Waiver struct {
	Tool    string       `json:"tool"` // pattern, as in Rule
	Figure  audit.Figure `json:"figure"`
	Reason  string       `json:"reason"`
	By      string       `json:"by"`
	Expires time.Time    `json:"expires"`
}

// ReportKind names a report.
type ReportKind string

// The reports.
const (
	JUnit    ReportKind = "junit"
	SARIF    ReportKind = "sarif"
	Markdown ReportKind = "markdown"
	JSON     ReportKind = "json"
	Badge    ReportKind = "badge"
	HTML     ReportKind = "html"
)

// ReportKinds lists every report.
func ReportKinds() []ReportKind { return []ReportKind{JUnit, SARIF, Markdown, JSON, Badge, HTML} }

// ruleFor merges what the policy asks of one tool: the defaults, then the rules
// that name it, the more specific over the less.
func (p *Policy) ruleFor(environment, tool string) Rule {
	merged := Rule{Conditions: map[audit.Figure]Condition{}}
	merged.overlay(p.Defaults)
	var matching []Rule
	for _, r := range p.Tools {
		if matches(r.Pattern, environment, tool) {
			matching = append(matching, r)
		}
	}
	slices.SortStableFunc(matching, func(a, b Rule) int { return cmp.Compare(specificity(a.Pattern), specificity(b.Pattern)) })
	for _, r := range matching {
		merged.overlay(r)
		merged.Pattern = r.Pattern
	}
	return merged
}

func (r *Rule) overlay(over Rule) {
	r.Informational = cmp.Or(over.Informational, r.Informational)
	r.MinSamples = cmp.Or(over.MinSamples, r.MinSamples)
	r.MaskedMax = cmp.Or(over.MaskedMax, r.MaskedMax)
	if over.Modes != nil {
		r.Modes = over.Modes
	}
	for figure, c := range over.Conditions {
		base := r.Conditions[figure]
		base.overlay(c)
		r.Conditions[figure] = base
	}
}

func (c *Condition) overlay(over Condition) {
	c.Min = cmp.Or(over.Min, c.Min)
	c.Max = cmp.Or(over.Max, c.Max)
	c.MaxCount = cmp.Or(over.MaxCount, c.MaxCount)
	c.AllowedDecrease = cmp.Or(over.AllowedDecrease, c.AllowedDecrease)
	c.AllowedIncrease = cmp.Or(over.AllowedIncrease, c.AllowedIncrease)
	c.Critical = cmp.Or(over.Critical, c.Critical)
	c.Informational = cmp.Or(over.Informational, c.Informational)
	c.MinSamples = cmp.Or(over.MinSamples, c.MinSamples)
	if over.Modes != nil {
		c.Modes = over.Modes
	}
}

// figures lists the conditions of a rule in the order of reports.
func (r *Rule) figures() []audit.Figure {
	names := audit.FigureNames()
	return slices.SortedFunc(maps.Keys(r.Conditions), func(a, b audit.Figure) int {
		return cmp.Compare(slices.Index(names, a), slices.Index(names, b))
	})
}

// matches reports whether a pattern names a tool. Load has checked its syntax.
func matches(pattern, environment, tool string) bool {
	subject := tool
	if strings.Contains(pattern, "/") {
		subject = environment + "/" + tool
	}
	ok, err := path.Match(pattern, subject)
	return err == nil && ok
}

// specificity orders patterns: exact names last, longer globs after shorter.
func specificity(pattern string) int {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return 1 << 20
	}
	return len(pattern)
}

// compares reports whether any condition needs the baseline.
func (p *Policy) compares() bool {
	needs := func(r Rule) bool {
		for _, c := range r.Conditions {
			if c.AllowedDecrease != nil || c.AllowedIncrease != nil {
				return true
			}
		}
		return false
	}
	return needs(p.Defaults) || slices.ContainsFunc(p.Tools, needs)
}
