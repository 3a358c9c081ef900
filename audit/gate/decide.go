package gate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/audit/stat"
)

// schemaName identifies the form of the JSON report.
const schemaName = "understudy.gate/1"

// Decide applies a policy to evidence. It is a pure function of its arguments.
//
// Each check is two tests, that the limit is kept and that it is broken, whose
// p-values are corrected over the tools that share the figure (Holm 1979). Since
// a PASS of the gate needs every check to pass, its error rate is at most that
// of a single check (Berger 1982), however many there are.
func Decide(p *Policy, e *Evidence, o Options) *Verdict {
	digest := sha256.Sum256(p.Text)
	v := &Verdict{
		Schema: schemaName, Decided: o.Now.UTC(), Options: o,
		Policy: PolicyText{Digest: hex.EncodeToString(digest[:]), Text: string(p.Text)}, Evidence: e,
		Notes: slices.Clone(e.Notes),
	}
	d := &decision{policy: p, evidence: e, verdict: v, now: v.Decided}
	d.build()
	d.correct()
	for i := range d.pending {
		d.settle(&d.pending[i])
		v.Checks = append(v.Checks, d.pending[i].Check)
	}
	d.countFindings()
	d.waive()
	d.conclude(o)
	return v
}

// pending is a check on its way to a status.
type pending struct {
	Check

	test         test
	keeps        stat.Side // where the mean must lie for the limit to be kept
	minSamples   int
	maskedMax    float64
	unobservable int    // writes whose effect cannot be seen, of effect figures
	broken       string // why the counts cannot be used
}

// opposite is the side on which the limit is broken.
func (p *pending) opposite() stat.Side {
	if p.keeps == stat.Above {
		return stat.Below
	}
	return stat.Above
}

// build makes a check of every condition on every tool: those that the run
// called, and those that the policy names and the run did not call.
func (d *decision) build() {
	subjects := d.subjects()
	for _, s := range subjects {
		rule := d.policy.ruleFor(s.environment, s.tool)
		for _, figure := range rule.figures() {
			d.checks(s, &rule, figure, rule.Conditions[figure])
		}
	}
}

// subject is one tool of one environment version.
type subject struct{ environment, version, tool string }

func (d *decision) subjects() []subject {
	seen := map[subject]bool{}
	var out []subject
	add := func(s subject) {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	for _, t := range d.evidence.Counts {
		add(subject{t.Environment, t.Version, t.Tool})
	}
	for _, rule := range d.policy.Tools {
		if strings.ContainsAny(rule.Pattern, `*?[\`) {
			continue
		}
		environment, tool := path.Split(rule.Pattern)
		environment = strings.TrimSuffix(environment, "/")
		if !slices.ContainsFunc(out, func(s subject) bool { return matches(rule.Pattern, s.environment, s.tool) }) {
			add(subject{environment: environment, tool: tool})
		}
	}
	slices.SortFunc(out, func(a, b subject) int {
		return cmp.Or(cmp.Compare(a.environment, b.environment), cmp.Compare(a.version, b.version), cmp.Compare(a.tool, b.tool))
	})
	return out
}

// checks makes the pending checks of one condition on one tool.
func (d *decision) checks(s subject, rule *Rule, figure audit.Figure, c Condition) {
	modes := rule.Modes
	if c.Modes != nil {
		modes = c.Modes
	}
	found := pool(d.evidence.Counts, s, figure, modes)
	run := found.clusters
	named := rule.Pattern == s.tool || rule.Pattern == s.environment+"/"+s.tool
	if len(run) == 0 && found.unobservable == 0 && isEffect(figure) && !named && !found.blind() {
		return // it writes nothing, and nobody said it should
	}
	base := pending{
		Check: Check{
			Environment: s.environment, Version: s.version, Tool: s.tool, Figure: figure, Modes: modes, Masked: found.masked(),
			Critical: value(c.Critical), Informational: value(cmp.Or(c.Informational, rule.Informational)),
			Line: d.policy.lines[rule.Pattern],
		},
		minSamples: value(cmp.Or(c.MinSamples, rule.MinSamples)), maskedMax: value(rule.MaskedMax),
	}
	if isEffect(figure) {
		base.unobservable = found.unobservable
	}
	if slices.ContainsFunc(run, invalid) {
		base.broken = "its counts hold a number that is no count"
		run = nil
	}
	add := func(kind Kind, bound string, limit float64, keeps stat.Side, t test) {
		next := base
		next.Kind, next.Bound, next.Limit, next.keeps, next.test = kind, bound, limit, keeps, t
		next.Estimate = t.estimate()
		d.pending = append(d.pending, next)
	}
	if c.Max != nil {
		add(Limit, "max", *c.Max, stat.Below, d.onLimit(run, *c.Max))
	}
	if c.Min != nil {
		add(Limit, "min", *c.Min, stat.Above, d.onLimit(run, *c.Min))
	}
	if c.MaxCount != nil {
		add(Count, "max_count", float64(*c.MaxCount), stat.Below, counted(run))
	}
	if d.evidence.Baseline == nil {
		return
	}
	before := pool(d.evidence.BaselineCounts, s, figure, modes).clusters
	if c.AllowedDecrease != nil {
		add(Change, "allowed_decrease", *c.AllowedDecrease, stat.Above, d.onChange(run, before, -*c.AllowedDecrease))
	}
	if c.AllowedIncrease != nil {
		add(Change, "allowed_increase", *c.AllowedIncrease, stat.Below, d.onChange(run, before, *c.AllowedIncrease))
	}
}

func (d *decision) onLimit(clusters []stat.Cluster, limit float64) test {
	if d.policy.Looks == Once {
		return onProportion(clusters, limit)
	}
	return onMeans(clusters, limit)
}

func (d *decision) onChange(run, before []stat.Cluster, limit float64) test {
	if d.policy.Looks == Once {
		t := onPairs(run, before, limit)
		// Groups that all differ by the same amount have no spread to estimate an
		// error from, so that t would be sure of two of them.
		if e := t.estimate(); !e.Defined() || e.Hi > e.Lo {
			return t
		}
	}
	return onDifferences(run, before, limit)
}

// pooled is what a tool's counts hold of one figure, over modes.
type pooled struct {
	clusters           []stat.Cluster
	maskedPairs, drawn int
	unobservable       int
}

// masked is the share of the drawn pairs that have no number.
func (p *pooled) masked() float64 { return float64(p.maskedPairs) / float64(max(p.drawn, 1)) }

// blind reports whether none of what was drawn has a number.
func (p *pooled) blind() bool { return p.maskedPairs > 0 && p.maskedPairs >= p.drawn }

// count adds a tool's pairs up.
func (p *pooled) count(t *audit.ToolCounts) {
	p.drawn += t.Pairs - t.Masked[audit.MaskNotSampled]
	p.unobservable += t.Unobservable
	for reason, n := range t.Masked {
		if reason != audit.MaskNotSampled {
			p.maskedPairs += n
		}
	}
}

// pool sums a figure's clusters over modes, by prompt group.
func pool(counts []audit.ToolCounts, s subject, figure audit.Figure, modes []audit.Mode) pooled {
	var p pooled
	index := map[string]int{}
	for i := range counts {
		t := &counts[i]
		if t.Environment != s.environment || t.Version != s.version || t.Tool != s.tool || !slices.Contains(modes, t.Mode) {
			continue
		}
		p.count(t)
		for _, c := range t.Groups[figure] {
			i, ok := index[c.Group]
			if !ok {
				i = len(p.clusters)
				index[c.Group] = i
				p.clusters = append(p.clusters, stat.Cluster{Group: c.Group})
			}
			sum := &p.clusters[i]
			sum.N, sum.Weight, sum.Sum, sum.SumSq = sum.N+c.N, sum.Weight+c.Weight, sum.Sum+c.Sum, sum.SumSq+c.SumSq
		}
	}
	return p
}

// isEffect reports whether a figure judges what a call changes.
func isEffect(f audit.Figure) bool {
	switch f {
	case audit.FigureEffectPrecision, audit.FigureEffectRecall, audit.FigureEffectF1, audit.FigurePhantomWrite, audit.FigureSilentWrite:
		return true
	case audit.FigureValidity, audit.FigureFSR, audit.FigurePhantomSuccess, audit.FigureFalseError, audit.FigureErrorFamily,
		audit.FigureOutcome, audit.FigureShape, audit.FigureLeafF1, audit.FigureExact, audit.FigureIDIntegrity,
		audit.FigureMaterial, audit.FigurePhi:
		return false
	}
	return false
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// countTest is the number of faults seen, weighted by 1/π.
type countTest struct{ e stat.Estimate }

func counted(clusters []stat.Cluster) countTest {
	e := stat.Estimate{Lo: math.Inf(-1), Hi: math.Inf(1), Method: "weighted count"}
	for _, c := range clusters {
		e.Value, e.N = e.Value+c.Sum, e.N+c.N
	}
	e.NEff, e.Clusters = float64(e.N), len(clusters)
	e.Lo, e.Hi = e.Value, e.Value
	return countTest{e}
}

func (countTest) p(stat.Side) float64                { return 1 }
func (t countTest) bound(float64, stat.Side) float64 { return t.e.Value }
func (countTest) more(float64, stat.Side) float64    { return 1 }
func (t countTest) estimate() stat.Estimate          { return t.e }
func formatShare(x float64) string                   { return fmt.Sprintf("%.1f %%", 100*x) }
