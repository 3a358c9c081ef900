package gate_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/audit/stat"
)

// today is the clock of every test.
func today() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

func load(tb testing.TB, yaml string) *gate.Policy {
	tb.Helper()
	p, err := gate.Load([]byte("version: 1\n" + yaml))
	if err != nil {
		tb.Fatalf("load policy: %v", err)
	}
	return p
}

// source is a fake store of runs: the ledger has tests of its own.
type source struct {
	runs     map[string]audit.RunFacts
	counts   map[string][]audit.ToolCounts
	findings map[string][]audit.Finding
	err      error
}

func (s source) Run(_ context.Context, ref string) (audit.RunFacts, error) {
	if s.err != nil {
		return audit.RunFacts{}, s.err
	}
	facts, ok := s.runs[ref]
	if !ok {
		return facts, &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("no run %q", ref)}
	}
	return facts, nil
}

func (s source) Counts(_ context.Context, run string) ([]audit.ToolCounts, error) {
	return s.counts[run], s.err
}

func (s source) Findings(_ context.Context, run string, _ int) ([]audit.Finding, error) {
	return s.findings[run], s.err
}

// facts describe a run on retail.
func facts(id string) audit.RunFacts {
	return audit.RunFacts{
		ID: id, Policy: "ckpt-" + id, WireAPIs: []string{"chat"},
		Environments: []audit.EnvironmentInfo{{Name: "retail", Version: "1", Digest: audit.Digest{1}}},
	}
}

// tool makes the counts of one tool in forced mode: groups of size calls each,
// the given number of hits in each group, cycling.
func tool(name string, figure audit.Figure, groups, size int, hits ...int) audit.ToolCounts {
	c := audit.ToolCounts{
		Environment: "retail", Version: "1", Tool: name, Mode: audit.Forced, Pairs: groups * size,
		Masked: map[audit.MaskReason]int{}, Groups: map[audit.Figure][]stat.Cluster{},
	}
	for g := range groups {
		h := float64(hits[g%len(hits)])
		c.Groups[figure] = append(c.Groups[figure], stat.Cluster{Group: fmt.Sprintf("g%03d", g), N: size, Weight: float64(size), Sum: h, SumSq: h})
	}
	return c
}

func evidence(counts ...audit.ToolCounts) *gate.Evidence {
	return &gate.Evidence{Run: facts("r1"), Counts: counts}
}

func decide(p *gate.Policy, e *gate.Evidence) *gate.Verdict {
	return gate.Decide(p, e, gate.Options{Now: today()})
}

func TestDecide(t *testing.T) {
	masked := tool("pay", audit.FigureFSR, 120, 1, 0)
	masked.Masked[audit.MaskSandboxFault], masked.Pairs = 30, 150
	unsampled := tool("pay", audit.FigureFSR, 120, 1, 0)
	unsampled.Masked[audit.MaskNotSampled], unsampled.Pairs = 5000, 5120
	outage := tool("refund", audit.FigureFSR, 0, 0)
	outage.Masked[audit.MaskSandboxUnavailable], outage.Pairs = 9, 9
	unseen := audit.ToolCounts{Environment: "retail", Version: "1", Tool: "pay", Mode: audit.Forced, Pairs: 9, Unobservable: 9}
	for _, row := range []struct {
		name   string
		policy string
		counts []audit.ToolCounts
		want   gate.Status
		line   string
		reason string
	}{
		{"clears", "defaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 120, 1, 0)}, gate.Pass, "1 checks decide", "no fault in 120 groups bounds the rate below 5 %"},
		{"clears at once", "looks: once\ndefaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 60, 1, 0)}, gate.Pass, "", "59 are enough at a single look"},
		{"not yet", "looks: once\nmin_samples: 1\ndefaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 58, 1, 0)}, gate.Inconclusive, "needs 1 more calls on pay", "58 are not"},
		{"breaks", "defaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 40, 4, 1, 2)}, gate.Fail, "pay fsr 0.375", "the lower bound is above the limit"},
		{"open", "defaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 80, 4, 0, 0, 0, 0, 1)}, gate.Inconclusive, "", "the value is at its limit: neither bound clears"},
		{"min", "defaults: {leaf_f1: {min: 0.9}}", []audit.ToolCounts{tool("pay", audit.FigureLeafF1, 100, 2, 2)}, gate.Pass, "", "more is better"},
		{"min broken", "defaults: {leaf_f1: {min: 0.9}}", []audit.ToolCounts{tool("pay", audit.FigureLeafF1, 100, 2, 1)}, gate.Fail, "min 0.9", "more is better"},
		{"too few", "min_samples: 500\ndefaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 120, 1, 0)}, gate.Inconclusive, "needs 380 more calls on pay", "min_samples holds a pass back"},
		{"few but broken", "min_samples: 500\ndefaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 40, 4, 2)}, gate.Fail, "", "a fault that is shown needs no more calls"},
		{"masked", "defaults: {fsr: {max: 0.05}}", []audit.ToolCounts{masked}, gate.Inconclusive, "20.0 % of its pairs are masked", "too many infrastructure failures are no pass"},
		{"not sampled", "defaults: {fsr: {max: 0.05}}", []audit.ToolCounts{unsampled}, gate.Pass, "", "what π left out is not masked"},
		{"no data", "defaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureLeafF1, 100, 1, 1)}, gate.Inconclusive, "needs 89 more calls on pay", "no refusal was seen: never a pass"},
		{"nothing at all", "defaults: {fsr: {max: 0.05}}", nil, gate.Inconclusive, "", "an empty run is never a pass"},
		{"no data fails", "on_no_data: fail\ndefaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureLeafF1, 9, 1, 1)}, gate.Fail, "", "as asked"},
		{"no data ignored", "on_no_data: ignore\ndefaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureLeafF1, 9, 1, 1)}, gate.Inconclusive, "", "a gate that saw nothing stays inconclusive"},
		{"named and absent", "tools: {refund: {fsr: {max: 0.05}}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 99, 1, 0)}, gate.Inconclusive, "refund", "a tool that the policy names must be seen"},
		{"count", "defaults: {phantom_write: {max_count: 0}}", []audit.ToolCounts{tool("pay", audit.FigurePhantomWrite, 99, 1, 0)}, gate.Pass, "", "none seen"},
		{"count broken", "defaults: {phantom_write: {max_count: 0}}", []audit.ToolCounts{tool("pay", audit.FigurePhantomWrite, 5, 2, 0, 1)}, gate.Fail, "2, max_count 0", "one is too many"},
		{"reads only", "defaults: {fsr: {max: 0.05}, silent_write: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 120, 1, 0)}, gate.Pass, "", "a tool that writes nothing is not asked about writes"},
		{"unseen writes", "defaults: {silent_write: {max: 0.05}}", []audit.ToolCounts{unseen}, gate.Inconclusive, "", "an effect that cannot be seen is no match"},
		{"write behind an outage", "defaults: {silent_write: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureSilentWrite, 120, 1, 0), outage}, gate.Inconclusive, "refund", "of a tool without a single verdict nobody knows that it writes nothing"},
		{"write by its whole name", "defaults: {fsr: {max: 0.05}}\ntools: {retail/pay: {silent_write: {max: 0.05}}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 120, 1, 0)}, gate.Inconclusive, "silent_write", "the policy says that it writes"},
		{"no findings", "findings: {max_new: 0}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 120, 1, 0)}, gate.Pass, "", "nothing new in 120 calls"},
		{"no findings in nothing", "findings: {max_new: 0}", []audit.ToolCounts{outage}, gate.Inconclusive, "no call has a verdict", "an outage finds nothing"},
		{"no findings but an outage", "findings: {max_new: 0}", []audit.ToolCounts{masked}, gate.Inconclusive, "20.0 % of the pairs are masked", "what was not seen may differ"},
		{"informational", "defaults: {fsr: {max: 0.05}}\ntools: {w*: {informational: true}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 120, 1, 0), tool("weather", audit.FigureFSR, 50, 1, 1)}, gate.Pass, "", "shown, never decisive"},
		{"only informational", "defaults: {informational: true, fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 120, 1, 0)}, gate.Inconclusive, "", "nothing decides"},
		{"glob", "tools: {\"pa*\": {fsr: {max: 0.01}}, pay: {fsr: {max: 0.05}}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 120, 1, 0)}, gate.Pass, "", "an exact name beats a glob"},
		{"environment glob", "tools: {\"retail/p*\": {fsr: {max: 0.05}}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 120, 1, 0)}, gate.Pass, "", "a slash matches environment/tool"},
		{"other mode", "modes: [canary]\ndefaults: {fsr: {max: 0.05}}", []audit.ToolCounts{tool("pay", audit.FigureFSR, 120, 1, 0)}, gate.Inconclusive, "", "forced calls are no canaries"},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := decide(load(t, row.policy), evidence(row.counts...))
			if v.Status != row.want {
				t.Errorf("%s, want %s: %s\n%s", v.Status, row.want, row.reason, v.Line)
			}
			if !strings.Contains(v.Line, row.line) {
				t.Errorf("line %q does not say %q: %s", v.Line, row.line, row.reason)
			}
			if want := map[gate.Status]int{gate.Pass: 0, gate.Fail: 1, gate.Inconclusive: 2, gate.Error: 4}[v.Status]; v.ExitCode != want {
				t.Errorf("exit code %d of %s, want %d", v.ExitCode, v.Status, want)
			}
			if !strings.HasPrefix(v.Line, string(v.Status)+": ") {
				t.Errorf("line %q does not begin with the verdict %s", v.Line, v.Status)
			}
		})
	}
}

// TestNeedsAreEnough buys what the verdict asks for, of the same kind, and looks
// again: the check must be decided, and must not have been one call before.
func TestNeedsAreEnough(t *testing.T) {
	for _, looks := range []string{"anytime", "once"} {
		for _, hits := range [][]int{{0}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, {1}} {
			p := load(t, "looks: "+looks+"\nmin_samples: 1\ndefaults: {fsr: {max: 0.3}}")
			const groups = 10
			v := decide(p, evidence(tool("pay", audit.FigureFSR, groups, 1, hits...)))
			if v.Status != gate.Inconclusive {
				p = load(t, "looks: "+looks+"\nmin_samples: 1\ndefaults: {fsr: {max: 0.6}}")
				if v = decide(p, evidence(tool("pay", audit.FigureFSR, groups/2, 1, hits...))); v.Status != gate.Inconclusive {
					continue
				}
			}
			if len(v.Needs) != 1 {
				t.Fatalf("%s %v: needs %v, want one order", looks, hits, v.Needs)
			}
			seen, more := v.Checks[0].Estimate.N, v.Needs[0].Calls
			// Up to a whole period of the pattern, so that the rate stays the same.
			enough := (seen + more + len(hits) - 1) / len(hits) * len(hits)
			if got := decide(p, evidence(tool("pay", audit.FigureFSR, enough, 1, hits...))); got.Status == gate.Inconclusive {
				t.Errorf("%s %v: still %s after %d more calls", looks, hits, got.Line, more)
			}
			if short := (seen + more - 2) / len(hits) * len(hits); short > seen && len(hits) == 1 {
				if got := decide(p, evidence(tool("pay", audit.FigureFSR, short, 1, hits...))); got.Status != gate.Inconclusive {
					t.Errorf("%s %v: decided two calls earlier than it asked for: %s", looks, hits, got.Line)
				}
			}
		}
	}
}

// buyer records orders.
type buyer struct {
	orders []audit.Order
	err    error
}

func (b *buyer) Schedule(_ context.Context, _ string, orders []audit.Order) (int, error) {
	b.orders = append(b.orders, orders...)
	total := 0
	for _, o := range orders {
		total += o.Calls
	}
	return total, b.err
}

func TestBuyOrdersExactlyWhatIsMissing(t *testing.T) {
	p := load(t, "defaults: {fsr: {max: 0.05}}\ntools: {weather: {informational: true}}")
	v := decide(p, evidence(tool("pay", audit.FigureFSR, 40, 1, 0), tool("ship", audit.FigureFSR, 200, 1, 0), tool("weather", audit.FigureFSR, 2, 1, 0)))
	shop := &buyer{}
	queued, err := gate.Buy(t.Context(), shop, v)
	if err != nil {
		t.Fatal(err)
	}
	if len(shop.orders) != 1 || shop.orders[0].Tool != "pay" || shop.orders[0].Figure != audit.FigureFSR || shop.orders[0].Mode != audit.Forced {
		t.Fatalf("orders %+v, want only pay: ship is decided and weather does not decide", shop.orders)
	}
	if queued != shop.orders[0].Calls || !strings.Contains(v.Line, fmt.Sprintf("needs %d more calls on pay", queued)) {
		t.Errorf("queued %d, the line says %q", queued, v.Line)
	}
	if n, err := gate.Buy(t.Context(), shop, decide(p, evidence(tool("ship", audit.FigureFSR, 200, 1, 0)))); n != 0 || err != nil || len(shop.orders) != 1 {
		t.Errorf("a decided gate bought %d (%v)", n, err)
	}
}

func TestBaseline(t *testing.T) {
	p := load(t, "baseline: auto\ndefaults: {leaf_f1: {allowed_decrease: 0.05}, fsr: {allowed_increase: 0.05}}")
	pair := func(figure audit.Figure, now, before []int) *gate.Verdict {
		e := evidence(tool("pay", figure, 200, 10, now...))
		e.Baseline, e.BaselineCounts = new(facts("r0")), []audit.ToolCounts{tool("pay", figure, 200, 10, before...)}
		policy := *p
		policy.OnNoData = gate.NoDataIgnore
		return decide(&policy, e)
	}
	for _, row := range []struct {
		name        string
		figure      audit.Figure
		now, before []int
		want        gate.Status
		reason      string
	}{
		{"same", audit.FigureLeafF1, []int{9, 2, 10}, []int{9, 2, 10}, gate.Pass, "paired: the spread between tasks does not matter"},
		{"better", audit.FigureLeafF1, []int{10}, []int{8}, gate.Pass, "an increase is allowed"},
		{"worse", audit.FigureLeafF1, []int{7}, []int{9}, gate.Fail, "20 points are more than 5"},
		{"fewer faults", audit.FigureFSR, []int{0}, []int{3}, gate.Pass, "fewer faults are better"},
		{"more faults", audit.FigureFSR, []int{3}, []int{0}, gate.Fail, "more faults are worse"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if v := pair(row.figure, row.now, row.before); v.Status != row.want {
				t.Errorf("%s, want %s: %s", v.Line, row.want, row.reason)
			}
		})
	}
	few := evidence(tool("pay", audit.FigureLeafF1, 2, 50, 50))
	few.Baseline, few.BaselineCounts = new(facts("r0")), []audit.ToolCounts{tool("pay", audit.FigureLeafF1, 2, 50, 50)}
	once := load(t, "looks: once\nbaseline: auto\ndefaults: {leaf_f1: {allowed_decrease: 0.05}}")
	if v := decide(once, few); v.Status != gate.Inconclusive {
		t.Errorf("%s: two groups that agree prove nothing", v.Line)
	}
	unmatched := evidence(tool("pay", audit.FigureLeafF1, 200, 10, 9))
	other := tool("pay", audit.FigureLeafF1, 200, 10, 9)
	for i := range other.Groups[audit.FigureLeafF1] {
		other.Groups[audit.FigureLeafF1][i].Group = "elsewhere" + strconv.Itoa(i)
	}
	unmatched.Baseline, unmatched.BaselineCounts = new(facts("r0")), []audit.ToolCounts{other}
	if v := decide(p, unmatched); v.Status != gate.Inconclusive {
		t.Errorf("%s: groups that do not match compare nothing", v.Line)
	}
}

func TestHolmHoldsAcrossTools(t *testing.T) {
	// Forty prompt groups without a fault show a rate below 10 % for one tool, not
	// for thirty tools at once.
	counts := func(n int) (all []audit.ToolCounts) {
		for i := range n {
			all = append(all, tool(fmt.Sprintf("t%02d", i), audit.FigureFSR, 48, 2, 0))
		}
		return all
	}
	const conditions = "defaults: {fsr: {max: 0.10}}"
	if v := decide(load(t, conditions), evidence(counts(1)...)); v.Status != gate.Pass {
		t.Errorf("one tool: %s", v.Line)
	}
	if v := decide(load(t, conditions), evidence(counts(30)...)); v.Status != gate.Inconclusive {
		t.Errorf("thirty tools under Holm: %s", v.Line)
	}
	if v := decide(load(t, "multiple_testing: none\n"+conditions), evidence(counts(30)...)); v.Status != gate.Pass {
		t.Errorf("thirty tools, each alone: %s", v.Line)
	}
	for _, c := range decide(load(t, conditions), evidence(counts(30)...)).Checks {
		if (c.Estimate.Hi <= c.Limit) != (c.PassP <= .05) {
			t.Errorf("%s: the bound %v and the p-value %v disagree about the limit %v", c.Tool, c.Estimate.Hi, c.PassP, c.Limit)
		}
	}
}

func TestWaiversAndKnownIssues(t *testing.T) {
	broken := evidence(tool("pay", audit.FigureFSR, 40, 4, 2), tool("ship", audit.FigureFSR, 200, 1, 0))
	waiver := func(figure, expires string) string {
		return fmt.Sprintf("waivers: [{tool: pay, figure: %s, reason: flaky upstream, by: ann, expires: %s}]\n", figure, expires)
	}
	for _, row := range []struct {
		name, policy string
		want         gate.Status
		note         string
		reason       string
	}{
		{"waived", waiver("fsr", "2026-12-05") + "defaults: {fsr: {max: 0.05}}", gate.Pass, "", "ann took it upon herself"},
		{"expired", waiver("fsr", "2026-11-28") + "defaults: {fsr: {max: 0.05}}", gate.Fail, "expired", "yesterday's waiver"},
		{"last day", waiver("fsr", "2026-11-29") + "defaults: {fsr: {max: 0.05}}", gate.Pass, "", "a waiver holds through its day"},
		{"too long", waiver("fsr", "2027-11-29") + "defaults: {fsr: {max: 0.05}}", gate.Fail, "waiver_max_days", "a waiver for a year is a change of policy"},
		{"critical", waiver("fsr", "2026-12-05") + "defaults: {fsr: {max: 0.05, critical: true}}", gate.Fail, "cannot be waived", "critical"},
		{"other figure", waiver("leaf_f1", "2026-12-05") + "defaults: {fsr: {max: 0.05}}", gate.Fail, "", "it waives something else"},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := decide(load(t, row.policy), broken)
			if v.Status != row.want || !strings.Contains(strings.Join(v.Notes, "\n"), row.note) {
				t.Errorf("%s, notes %q, want %s with %q: %s", v.Line, v.Notes, row.want, row.note, row.reason)
			}
		})
	}
	e := evidence(tool("pay", audit.FigureFSR, 200, 1, 0))
	e.Findings = []audit.Finding{
		{Fingerprint: "old", Tool: "pay", Kind: "changed", Severity: audit.S4, Count: 3},
		{Fingerprint: "known", Tool: "pay", Kind: "missing", Severity: audit.S5, Count: 1},
		{Fingerprint: "minor", Tool: "pay", Kind: "changed", Severity: audit.S1, Count: 9},
	}
	e.Baseline, e.BaselineFindings = new(facts("r0")), []string{"old"}
	const rule = "defaults: {fsr: {max: 0.05}}\nfindings: {max_new: 0, severity: S4}\n"
	if v := decide(load(t, rule), e); v.Status != gate.Fail || !slices.Equal(v.New, []string{"known"}) {
		t.Errorf("%s with new %v: one S5 is new", v.Line, v.New)
	}
	exempt := rule + "known_issues: [{fingerprint: known, reason: JIRA-12, expires: %s}]\n"
	if v := decide(load(t, fmt.Sprintf(exempt, "2026-12-31")), e); v.Status != gate.Pass {
		t.Errorf("%s: the issue is known", v.Line)
	}
	if v := decide(load(t, fmt.Sprintf(exempt, "2026-10-31")), e); v.Status != gate.Fail || len(v.Notes) != 1 {
		t.Errorf("%s, notes %q: known issues expire", v.Line, v.Notes)
	}
}

func TestOptions(t *testing.T) {
	open, empty := evidence(tool("pay", audit.FigureFSR, 20, 1, 0)), evidence()
	plain, critical := load(t, "defaults: {fsr: {max: 0.05}}"), load(t, "defaults: {fsr: {max: 0.05, critical: true}}")
	for _, row := range []struct {
		policy   *gate.Policy
		evidence *gate.Evidence
		as       gate.Status
		want     gate.Status
		reason   string
	}{
		{plain, open, gate.Pass, gate.Pass, "as asked"},
		{plain, open, gate.Fail, gate.Fail, "as asked"},
		{critical, open, gate.Pass, gate.Inconclusive, "a critical check is never waved through"},
		{plain, empty, gate.Pass, gate.Inconclusive, "no data at all is never a pass"},
	} {
		v := gate.Decide(row.policy, row.evidence, gate.Options{Now: today(), InconclusiveAs: row.as, FailExit: 100})
		if v.Status != row.want {
			t.Errorf("inconclusive as %s: %s, want %s: %s", row.as, v.Line, row.want, row.reason)
		}
		if v.Status == gate.Fail && v.ExitCode != 100 {
			t.Errorf("exit code %d, want the 100 that was asked for", v.ExitCode)
		}
	}
}
