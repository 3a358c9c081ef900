package gate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/audit/stat"
)

// maxFindings is how many kinds of difference a gate looks at. GitHub shows
// 5000 results of a SARIF file.
const maxFindings = 5000

// Evidence is everything that a decision rests on. It is part of the JSON
// report, so that the decision can be repeated without a store.
type Evidence struct {
	Run              audit.RunFacts     `json:"run"`
	Counts           []audit.ToolCounts `json:"counts"`
	Findings         []audit.Finding    `json:"findings,omitempty"`
	Baseline         *audit.RunFacts    `json:"baseline,omitempty"`
	BaselineCounts   []audit.ToolCounts `json:"baseline_counts,omitempty"`
	BaselineFindings []string           `json:"baseline_findings,omitempty"` // fingerprints
	Notes            []string           `json:"notes,omitempty"`
}

// Collect reads what the policy needs of a run and of its baseline. baseline
// overrides the policy's ("" = as the policy says, "none" = no comparison). A
// run that does not exist is an *audit.Error with CodeNotFound; a baseline of
// another environment version or wire API, or judged by other rules, is refused with CodeConflict; a store
// that does not answer is CodeInfrastructure. "auto" without any earlier run
// that passed compares with nothing and says so in a note.
func Collect(ctx context.Context, source audit.FigureSource, p *Policy, run, baseline string) (*Evidence, error) {
	e := &Evidence{}
	var err error
	if e.Run, err = source.Run(ctx, run); err != nil {
		return nil, fmt.Errorf("find run %q: %w", run, err)
	}
	if e.Counts, err = counts(ctx, source, p, e.Run.ID); err != nil {
		return nil, err
	}
	if e.Findings, err = source.Findings(ctx, e.Run.ID, maxFindings); err != nil {
		return nil, fmt.Errorf("read findings of run %q: %w", e.Run.ID, err)
	}
	if baseline == "" {
		baseline = p.Baseline
	}
	if baseline == "" || baseline == "none" {
		return e, nil
	}
	return e, e.collectBaseline(ctx, source, p, baseline)
}

func (e *Evidence) collectBaseline(ctx context.Context, source audit.FigureSource, p *Policy, ref string) error {
	automatic := ref == "auto"
	if automatic {
		ref = "auto:" + e.Run.ID
	}
	facts, err := source.Run(ctx, ref)
	if automatic && audit.ErrorCode(err) == audit.CodeNotFound {
		e.Notes = append(e.Notes, "no earlier run passed its gate on the same environments and by the same rules: nothing to compare with yet")
		return nil
	}
	if err != nil {
		return fmt.Errorf("find baseline %q: %w", ref, err)
	}
	if err := sameConditions(&e.Run, &facts); err != nil {
		return err
	}
	if e.BaselineCounts, err = counts(ctx, source, p, facts.ID); err != nil {
		return err
	}
	findings, err := source.Findings(ctx, facts.ID, maxFindings)
	if err != nil {
		return fmt.Errorf("read findings of baseline %q: %w", facts.ID, err)
	}
	for _, f := range findings {
		e.BaselineFindings = append(e.BaselineFindings, f.Fingerprint)
	}
	slices.Sort(e.BaselineFindings)
	e.Baseline = &facts
	return nil
}

// sameConditions refuses a baseline that measured something else.
func sameConditions(run, baseline *audit.RunFacts) error {
	refuse := func(format string, args ...any) error {
		return &audit.Error{
			Code: audit.CodeConflict, Message: fmt.Sprintf("baseline %q cannot be compared with run %q: ", baseline.ID, run.ID) + fmt.Sprintf(format, args...),
			Hint: "audit the baseline's policy again under the same conditions, or name another baseline",
		}
	}
	shared := false
	for _, env := range run.Environments {
		for _, other := range baseline.Environments {
			if env.Name != other.Name {
				continue
			}
			shared = true
			if !slices.ContainsFunc(baseline.Environments, func(o audit.EnvironmentInfo) bool {
				return o.Name == env.Name && o.Version == env.Version && o.Digest == env.Digest
			}) {
				return refuse("it audited %s@%s (%.12s), the run audits %s@%s (%.12s)",
					other.Name, other.Version, other.Digest, env.Name, env.Version, env.Digest)
			}
		}
	}
	if !shared && len(run.Environments) > 0 {
		return refuse("they share no environment")
	}
	if !slices.Equal(run.WireAPIs, baseline.WireAPIs) {
		return refuse("it used the wire API %s, the run %s", strings.Join(baseline.WireAPIs, ", "), strings.Join(run.WireAPIs, ", "))
	}
	if environment := run.OtherRules(baseline); environment != "" {
		return refuse("its answers of %s were judged by the rules %s, the run's by %s (--rules, --path-policy, or what was marked as noise)",
			environment, shortly(baseline.Rules[environment]), shortly(run.Rules[environment]))
	}
	return nil
}

// shortly names digests.
func shortly(digests []audit.Digest) string {
	names := make([]string, len(digests))
	for i, d := range digests {
		names[i] = fmt.Sprintf("%.12s", d)
	}
	return strings.Join(names, " and ")
}

// counts reads a run's counts and keeps the figures that the policy asks for.
func counts(ctx context.Context, source audit.FigureSource, p *Policy, run string) ([]audit.ToolCounts, error) {
	all, err := source.Counts(ctx, run)
	if err != nil {
		return nil, fmt.Errorf("read counts of run %q: %w", run, err)
	}
	kept := make([]audit.ToolCounts, 0, len(all))
	for _, t := range all {
		fold(&t)
		groups := map[audit.Figure][]stat.Cluster{}
		rule := p.ruleFor(t.Environment, t.Tool)
		for _, figure := range rule.figures() {
			if !slices.ContainsFunc(t.Groups[figure], invalid) {
				if len(t.Groups[figure]) > 0 {
					groups[figure] = t.Groups[figure]
				}
				continue
			}
			return nil, &audit.Error{
				Code: audit.CodeInternal, Message: fmt.Sprintf("run %q: %s of %s holds a number that is no count", run, figure, t.Tool),
				Hint: "recount the ledger with understudy verify",
			}
		}
		t.Groups = groups
		kept = append(kept, t)
	}
	return kept, nil
}

// UnknownTools stands for all calls of tools that the environment does not have:
// names that the policy made up cannot each ask for calls of their own.
const UnknownTools = "(unknown)"

// fold renames a tool whose every scored call was refused as unknown.
func fold(t *audit.ToolCounts) {
	scored := t.Pairs
	for _, n := range t.Masked {
		scored -= n
	}
	if t.Unknown > 0 && t.Unknown >= scored {
		t.Tool = UnknownTools
	}
}

// invalid reports a cluster that no audit can have produced.
func invalid(c stat.Cluster) bool {
	for _, x := range []float64{c.Weight, c.Sum, c.SumSq} {
		if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return true
		}
	}
	return c.N < 0 || c.Sum > c.Weight*(1+1e-9)
}
