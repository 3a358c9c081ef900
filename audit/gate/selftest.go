package gate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"understudy/audit"
	"understudy/audit/stat"
)

// World is where a selftest rehearses: an environment and episodes whose calls
// it answers, successes and refusals, reads and writes. A policy that the world
// cannot exercise (another tool, another mode) is not judged on it.
type World struct {
	Environment audit.Environment
	Episodes    []audit.Episode // without rehearsals; their mode is audited as it is
}

// Trial is what one injected rehearser came to.
type Trial struct {
	Rehearser string // faithful, always_ok, wrong_field, silent_write
	Want      Status
	Verdict   *Verdict
}

// Passed reports whether the gate said what it must.
func (t *Trial) Passed() bool { return t.Verdict.Status == t.Want }

// selftestCopies is how often each prompt group is counted: a selftest asks
// whether the policy sees a fault, not whether the sample is large.
const selftestCopies = 64

// Selftest shows that a gate policy can block: it audits rehearsers that always
// say ok, get one field wrong, or keep silent about their writes, which must
// FAIL, and a faithful one, which must PASS. A gate that was never seen to block
// is decoration. It returns every trial; the error is an *audit.Error with
// CodeConflict that names the trials that went wrong, or why none could be made.
//
// Baseline, waivers and known issues take no part, and every prompt group is
// counted many times, so that only the conditions are on trial.
func Selftest(ctx context.Context, p *Policy, w World, now time.Time) ([]Trial, error) {
	policy := *p
	policy.Baseline, policy.Waivers, policy.Known, policy.Findings, policy.OnNoData = "", nil, nil, nil, NoDataIgnore
	trials := []Trial{
		{Rehearser: string(audit.Faithful), Want: Pass},
		{Rehearser: string(audit.AlwaysOK), Want: Fail},
		{Rehearser: string(audit.WrongField), Want: Fail},
		{Rehearser: string(audit.SilentClaim), Want: Fail},
	}
	var wrong []string
	for i := range trials {
		t := &trials[i]
		source, err := rehearse(ctx, w, audit.Perturbation(t.Rehearser))
		if err != nil {
			return nil, fmt.Errorf("selftest with %s: %w", t.Rehearser, err)
		}
		evidence, err := Collect(ctx, source, &policy, t.Rehearser, "none")
		if err != nil {
			return nil, fmt.Errorf("selftest with %s: %w", t.Rehearser, err)
		}
		multiply(evidence.Counts)
		t.Verdict = Decide(&policy, evidence, Options{Now: now})
		if !t.Passed() {
			wrong = append(wrong, fmt.Sprintf("%s must %s, but: %s", t.Rehearser, t.Want, t.Verdict.Line))
		}
	}
	if len(wrong) > 0 {
		return trials, &audit.Error{
			Code: audit.CodeConflict, Message: "the gate policy does not tell good from bad: " + strings.Join(wrong, "; "),
			Hint: "ask for fsr (always_ok), leaf_f1 or material (wrong_field) and silent_write (silent_write), and name modes that the world has",
		}
	}
	return trials, nil
}

// rehearse audits the world's episodes with an injected rehearser.
func rehearse(ctx context.Context, w World, how audit.Perturbation) (*Memory, error) {
	auditor, err := audit.New(audit.Config{Opener: only{w.Environment}})
	if err != nil {
		return nil, fmt.Errorf("make an auditor: %w", err)
	}
	defer auditor.Close()
	var pairs []audit.Pair
	for _, ep := range w.Episodes {
		ep.Actions = slices.Clone(ep.Actions)
		ep.Policy = string(how)
		demo := audit.NewDemoRehearser(w.Environment, ep.Start, 1, audit.Share{Perturbation: how, Weight: 1})
		if err := demo.Fill(ctx, &ep); err != nil {
			return nil, fmt.Errorf("rehearse episode %s: %w", ep.ID, err)
		}
		more, err := auditor.Episode(ctx, &ep)
		if err != nil {
			return nil, fmt.Errorf("audit episode %s: %w", ep.ID, err)
		}
		pairs = append(pairs, more...)
	}
	source := &Memory{}
	source.Add(audit.RunFacts{ID: string(how), WireAPIs: []string{}}, pairs)
	return source, nil
}

// only opens one environment by any name.
type only struct{ env audit.Environment }

func (o only) Environment(context.Context, string) (audit.Environment, error) { return o.env, nil }

// multiply counts each prompt group selftestCopies times, under names of their own.
func multiply(counts []audit.ToolCounts) {
	for i := range counts {
		t := &counts[i]
		t.Pairs *= selftestCopies
		t.Unobservable *= selftestCopies
		for reason := range t.Masked {
			t.Masked[reason] *= selftestCopies
		}
		for figure, groups := range t.Groups {
			copies := make([]stat.Cluster, 0, selftestCopies*len(groups))
			for _, g := range groups {
				name := g.Group
				for n := range selftestCopies {
					g.Group = name + "#" + strconv.Itoa(n)
					copies = append(copies, g)
				}
			}
			t.Groups[figure] = copies
		}
	}
}
