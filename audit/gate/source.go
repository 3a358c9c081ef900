package gate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"understudy/audit"
	"understudy/audit/stat"
)

// Memory is a FigureSource over pairs at hand: for gating recorded trajectories
// without a ledger. It is safe for concurrent use.
type Memory struct {
	mu   sync.Mutex
	runs []memoryRun // oldest first
}

var _ audit.FigureSource = (*Memory)(nil)

type memoryRun struct {
	facts    audit.RunFacts
	counts   []audit.ToolCounts
	findings []audit.Finding
}

// Add adds a run with all its pairs. The facts need an ID; environments, policy
// and checkpoint are taken from the pairs where the facts lack them.
func (m *Memory) Add(facts audit.RunFacts, pairs []audit.Pair) {
	c := newCollector()
	for i := range pairs {
		c.add(&pairs[i])
	}
	if facts.Environments == nil {
		facts.Rules = c.rules
		facts.Environments = slices.SortedFunc(maps.Values(c.environments), func(a, b audit.EnvironmentInfo) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
		})
	}
	if len(pairs) > 0 {
		facts.Policy = cmp.Or(facts.Policy, pairs[0].Policy)
		facts.Checkpoint = cmp.Or(facts.Checkpoint, pairs[0].Checkpoint)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs = append(m.runs, memoryRun{facts, c.toolCounts(), c.findingList()})
}

// Run implements audit.FigureSource. Memory keeps no verdicts, so "auto:RUN"
// finds nothing.
func (m *Memory) Run(_ context.Context, ref string) (audit.RunFacts, error) {
	tag, tagged := strings.CutPrefix(ref, "tag:")
	r, err := m.find(func(r *memoryRun) bool {
		return r.facts.ID == ref || (tagged && slices.Contains(r.facts.Tags, tag))
	}, ref)
	return r.facts, err
}

// Counts implements audit.FigureSource.
func (m *Memory) Counts(_ context.Context, run string) ([]audit.ToolCounts, error) {
	r, err := m.find(func(r *memoryRun) bool { return r.facts.ID == run }, run)
	return r.counts, err
}

// Findings implements audit.FigureSource.
func (m *Memory) Findings(_ context.Context, run string, limit int) ([]audit.Finding, error) {
	r, err := m.find(func(r *memoryRun) bool { return r.facts.ID == run }, run)
	if limit > 0 && len(r.findings) > limit {
		return r.findings[:limit], err
	}
	return r.findings, err
}

func (m *Memory) find(is func(*memoryRun) bool, ref string) (memoryRun, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range slices.Backward(m.runs) {
		if is(&m.runs[i]) {
			return m.runs[i], nil
		}
	}
	return memoryRun{}, &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("no run %q", ref), Hint: "list the runs that there are"}
}

// collector adds up pairs as the ledger's rollups do.
type collector struct {
	environments map[string]audit.EnvironmentInfo
	rules        map[string][]audit.Digest // as RunFacts has them
	tools        map[toolKey]*toolSums
	findings     map[string]*audit.Finding
}

type toolKey struct {
	environment, version, tool string
	mode                       audit.Mode
}

type toolSums struct {
	counts audit.ToolCounts
	groups map[audit.Figure]map[string]*stat.Cluster
}

func newCollector() *collector {
	return &collector{map[string]audit.EnvironmentInfo{}, map[string][]audit.Digest{}, map[toolKey]*toolSums{}, map[string]*audit.Finding{}}
}

func (c *collector) add(p *audit.Pair) {
	c.environments[p.Environment+"@"+p.Version] = audit.EnvironmentInfo{Name: p.Environment, Version: p.Version, Digest: p.EnvDigest}
	known := c.rules[p.Environment]
	if at, found := slices.BinarySearchFunc(known, p.Verdict.Rules, audit.Digest.Compare); !found && !p.Verdict.Rules.IsZero() {
		c.rules[p.Environment] = slices.Insert(known, at, p.Verdict.Rules)
	}
	if p.Verdict.Cascaded {
		return
	}
	k := toolKey{p.Environment, p.Version, p.Action.Call.Tool, p.Mode}
	t := c.tools[k]
	if t == nil {
		t = &toolSums{
			counts: audit.ToolCounts{
				Environment: k.environment, Version: k.version, Tool: k.tool, Mode: k.mode, Masked: map[audit.MaskReason]int{},
			},
			groups: map[audit.Figure]map[string]*stat.Cluster{},
		}
		c.tools[k] = t
	}
	t.counts.Pairs++
	if p.Verdict.Masked != "" {
		t.counts.Masked[p.Verdict.Masked]++
		return
	}
	if slices.Contains(p.Verdict.Flags, audit.FlagUnobservable) {
		t.counts.Unobservable++
	}
	if p.Verdict.Real.Family == audit.UnknownTool {
		t.counts.Unknown++
	}
	weight := audit.InclusionWeight(p.Action.Inclusion)
	for figure, x := range audit.FigureValues(*p) {
		groups := t.groups[figure]
		if groups == nil {
			groups = map[string]*stat.Cluster{}
			t.groups[figure] = groups
		}
		if groups[p.PromptGroup] == nil {
			groups[p.PromptGroup] = &stat.Cluster{Group: p.PromptGroup}
		}
		groups[p.PromptGroup].Add(x, weight)
	}
	c.addFindings(p)
}

// addFindings counts each kind of difference once per pair.
func (c *collector) addFindings(p *audit.Pair) {
	seen := map[string]bool{}
	add := func(pattern, kind string, sample audit.Sample) {
		id := audit.Fingerprint(p.Action.Call.Tool, pattern, kind)
		if seen[id] {
			return
		}
		seen[id] = true
		f := c.findings[p.Environment+"\x00"+id]
		if f == nil {
			f = &audit.Finding{Fingerprint: id, Environment: p.Environment, Tool: p.Action.Call.Tool, Pattern: pattern, Kind: kind}
			c.findings[p.Environment+"\x00"+id] = f
		}
		f.Count++
		f.Severity = max(f.Severity, p.Verdict.Severity)
		if len(f.Samples) < 5 {
			sample.Pair = p.Key
			f.Samples = append(f.Samples, sample)
		}
	}
	v := &p.Verdict
	realError, rehearsedError := v.Real.Class == audit.Failed, v.Rehearsed.Class == audit.Failed
	for kind, holds := range map[string]bool{
		"false_success": v.FalseSuccess,
		"false_error":   !realError && rehearsedError,
		"wrong_family":  realError && rehearsedError && v.Real.Family != v.Rehearsed.Family,
		"phantom_write": v.Scores.PhantomWrite,
		"silent_write":  v.Scores.SilentWrite,
		"invalid":       !v.Scores.Valid,
	} {
		if holds {
			add("", kind, audit.Sample{Rehearsed: v.Rehearsed.Label(), Real: v.Real.Label()})
		}
	}
	for _, d := range v.Differences {
		add(d.Pattern, string(d.Kind), audit.Sample{Pointer: d.Pointer, Rehearsed: cut(string(d.Rehearsed)), Real: cut(string(d.Real))})
	}
}

// cut shortens a sample to a length that reports can show.
func cut(s string) string {
	const limit = 300
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

func (c *collector) toolCounts() []audit.ToolCounts {
	out := make([]audit.ToolCounts, 0, len(c.tools))
	for _, t := range c.tools {
		t.counts.Groups = make(map[audit.Figure][]stat.Cluster, len(t.groups))
		for figure, groups := range t.groups {
			for _, name := range slices.Sorted(maps.Keys(groups)) {
				t.counts.Groups[figure] = append(t.counts.Groups[figure], *groups[name])
			}
		}
		out = append(out, t.counts)
	}
	slices.SortFunc(out, func(a, b audit.ToolCounts) int {
		return cmp.Or(cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Mode, b.Mode))
	})
	return out
}

func (c *collector) findingList() []audit.Finding {
	out := make([]audit.Finding, 0, len(c.findings))
	for _, f := range c.findings {
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b audit.Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Fingerprint, b.Fingerprint))
	})
	return out
}
