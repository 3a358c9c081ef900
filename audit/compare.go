package audit

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"understudy/audit/stat"
)

// AuditedCall is what comparing runs needs to know of one pair.
type AuditedCall struct {
	Key          Digest     `json:"key"`
	EpisodeID    Digest     `json:"episode_id"`
	Episode      string     `json:"episode"`
	PromptGroup  string     `json:"prompt_group"`
	GroupOrder   string     `json:"-"` // place of the group in the order of samples
	Environment  string     `json:"environment"`
	Version      string     `json:"version"`
	EnvDigest    Digest     `json:"-"`
	Mode         Mode       `json:"mode"`
	Split        Split      `json:"split"` // of its task
	Tool         string     `json:"tool"`
	Arguments    Digest     `json:"-"` // of the raw bytes
	Before       Digest     `json:"-"` // state; zero = not known
	Step         int        `json:"step"`
	Probe        int        `json:"probe,omitempty"`
	Sample       int        `json:"sample,omitempty"`
	Attempt      int        `json:"attempt,omitempty"`
	Real         string     `json:"real"`
	Rehearsed    string     `json:"rehearsed"`
	Severity     Severity   `json:"severity"`
	FalseSuccess bool       `json:"false_success"`
	Masked       MaskReason `json:"masked,omitempty"`
	Cascaded     bool       `json:"cascaded,omitempty"`
	Weight       float64    `json:"weight"` // min(1/π, 10)
}

// wrong is what a later step would trip over: S3 or worse.
func (c *AuditedCall) wrong() bool { return c.Severity >= S3 }

// GroupSample is every call of some prompt groups of a run. Groups are taken in
// an order that is random but the same for all runs, so that the samples of two
// runs hold the same groups: a bounded read that favours no tool.
type GroupSample struct {
	Run   string        `json:"run"`
	Calls []AuditedCall `json:"calls"` // in the order of groups, episodes and steps
	// Through is the GroupOrder from which on groups are missing; "" = the
	// sample is the whole run.
	Through string `json:"through,omitempty"`
}

// Change says what became of one call between two runs.
type Change string

// The changes of a matched call. Wrong means S3 or worse.
const (
	Regressed Change = "regressed"  // was right, is wrong
	Improved  Change = "improved"   // was wrong, is right
	BothWrong Change = "both_wrong" // still wrong
	BothRight Change = "both_right"
)

// Changes lists the changes, gravest first.
func Changes() []Change { return []Change{Regressed, Improved, BothWrong, BothRight} }

// Mismatch is why a call of one run has no counterpart in the other.
type Mismatch string

// The mismatches.
const (
	NoSuchGroup    Mismatch = "group_missing"   // the other run never saw the prompt
	OtherWorld     Mismatch = "other_version"   // the other run audited it on another environment version
	OtherArguments Mismatch = "other_arguments" // the policy called the tool with other arguments
	OtherState     Mismatch = "other_state"     // the same call, made from another state
	NotCalled      Mismatch = "not_called"      // the policy did not call the tool there, or not as often
	MaskedCall     Mismatch = "masked"          // one side has no number
	CascadedCall   Mismatch = "cascaded"        // one side's world had forked before
)

// MatchedCall is one call that both runs audited: the same arguments from the
// same state under the same prompt.
type MatchedCall struct {
	A, B   AuditedCall
	Change Change
}

// Jump is by how many rungs of the ladder the call got worse.
func (m *MatchedCall) Jump() int { return int(m.B.Severity) - int(m.A.Severity) }

// weight of a call that two independent draws had to include.
func (m *MatchedCall) weight() float64 {
	return min(m.A.Weight*m.B.Weight, MaxInclusionWeight)
}

// UnmatchedCall is a call of one run without a counterpart.
type UnmatchedCall struct {
	AuditedCall
	Second bool // of the second run
	Reason Mismatch
	Masked MaskReason // with MaskedCall: why
}

// ToolDelta compares two runs on the calls of one tool that both have; Tool ""
// is all of them.
type ToolDelta struct {
	Tool   string
	Counts map[Change]int
	WrongA stat.Estimate // share of S3+
	WrongB stat.Estimate
	Delta  stat.Estimate // WrongB − WrongA: above zero is worse
	FSRA   stat.Estimate // of calls that the sandbox refuses
	FSRB   stat.Estimate
	FSR    stat.Estimate // FSRB − FSRA
}

// N is how many calls were matched.
func (d *ToolDelta) N() int {
	n := 0
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// RunComparison is two runs, call by call. A is the baseline.
type RunComparison struct {
	A, B      string
	Sampled   bool // not the whole of both runs
	Groups    int  // prompt groups that both hold
	Total     ToolDelta
	Tools     []ToolDelta     // largest regression first
	Matched   []MatchedCall   // biggest regression first
	Unmatched []UnmatchedCall // in the order of the samples
}

// CompareRuns matches the calls of two samples. Groups that only one sample is
// deep enough to hold are left out of both.
func CompareRuns(a, b *GroupSample) *RunComparison {
	out := &RunComparison{A: a.Run, B: b.Run, Sampled: a.Through != "" || b.Through != ""}
	callsA, callsB := within(a.Calls, a.Through, b.Through), within(b.Calls, a.Through, b.Through)
	places := make(map[callPlace][]int, len(callsB))
	for i := range callsB {
		if at, ok := placeOf(&callsB[i]); ok {
			places[at] = append(places[at], i)
		}
	}
	taken := make([]bool, len(callsB))
	var restA []AuditedCall
	for i := range callsA {
		at, ok := placeOf(&callsA[i])
		if queue := places[at]; ok && len(queue) > 0 {
			out.Matched = append(out.Matched, matched(&callsA[i], &callsB[queue[0]]))
			taken[queue[0]], places[at] = true, queue[1:]
			continue
		}
		restA = append(restA, callsA[i])
	}
	var restB []AuditedCall
	for i := range callsB {
		if !taken[i] {
			restB = append(restB, callsB[i])
		}
	}
	out.Unmatched = append(unmatched(restA, callsB, false), unmatched(restB, callsA, true)...)
	slices.SortStableFunc(out.Matched, func(x, y MatchedCall) int {
		return cmp.Or(cmp.Compare(y.Jump(), x.Jump()), cmp.Compare(y.B.Severity, x.B.Severity),
			cmp.Compare(x.B.Tool, y.B.Tool), strings.Compare(x.B.Key.String(), y.B.Key.String()))
	})
	out.deltas()
	return out
}

// within keeps the calls of groups that both samples hold whole.
func within(calls []AuditedCall, limits ...string) []AuditedCall {
	kept := slices.Clone(calls)
	for _, limit := range limits {
		if limit != "" {
			kept = slices.DeleteFunc(kept, func(c AuditedCall) bool { return c.GroupOrder >= limit })
		}
	}
	return kept
}

// callPlace is what two calls must share to be the same call.
type callPlace struct {
	group, environment, tool  string
	mode                      Mode
	digest, arguments, before Digest
	probe, sample             int
}

// placeOf is the place of a call that has a number of its own.
func placeOf(c *AuditedCall) (callPlace, bool) {
	return callPlace{
		group: c.PromptGroup, environment: c.Environment, tool: c.Tool, mode: c.Mode, digest: c.EnvDigest,
		arguments: c.Arguments, before: c.Before, probe: c.Probe, sample: c.Sample,
	}, c.Masked == "" && !c.Cascaded
}

func matched(a, b *AuditedCall) MatchedCall {
	m := MatchedCall{A: *a, B: *b, Change: BothRight}
	switch {
	case a.wrong() && b.wrong():
		m.Change = BothWrong
	case b.wrong():
		m.Change = Regressed
	case a.wrong():
		m.Change = Improved
	}
	return m
}

// unmatched says of each call why the other run has no counterpart.
func unmatched(rest, other []AuditedCall, second bool) []UnmatchedCall {
	near := make(map[callPlace]*AuditedCall, 4*len(other))
	for i := range other {
		c := &other[i]
		at, _ := placeOf(c)
		for _, key := range nearPlaces(at) {
			if near[key] == nil {
				near[key] = c
			}
		}
	}
	out := make([]UnmatchedCall, 0, len(rest))
	for i := range rest {
		out = append(out, explain(&rest[i], near, second))
	}
	return out
}

// nearPlaces are a place with less and less of it, down to its group.
func nearPlaces(at callPlace) [5]callPlace {
	var near [5]callPlace
	near[0] = at
	at.before = Digest{}
	near[1] = at
	at.digest = Digest{}
	near[2] = at
	near[3] = callPlace{group: at.group, environment: at.environment, tool: at.tool}
	near[4] = callPlace{group: at.group}
	return near
}

func explain(c *AuditedCall, near map[callPlace]*AuditedCall, second bool) UnmatchedCall {
	u := UnmatchedCall{AuditedCall: *c, Second: second}
	at, counts := placeOf(c)
	places := nearPlaces(at)
	twin := near[places[0]]
	switch {
	case c.Masked != "":
		u.Reason, u.Masked = MaskedCall, c.Masked
	case !counts:
		u.Reason = CascadedCall
	case twin != nil && twin.Masked != "":
		u.Reason, u.Masked = MaskedCall, twin.Masked
	case twin != nil && twin.Cascaded:
		u.Reason = CascadedCall
	case twin != nil: // as often as the other run made the call, it is matched
		u.Reason = NotCalled
	case near[places[1]] != nil:
		u.Reason = OtherState
	case near[places[2]] != nil:
		u.Reason = OtherWorld
	case near[places[3]] != nil:
		u.Reason = OtherArguments
	case near[places[4]] != nil:
		u.Reason = NotCalled
	default:
		u.Reason = NoSuchGroup
	}
	return u
}

// deltas adds the matched calls up, by tool and over all.
func (r *RunComparison) deltas() {
	sums := map[string]*deltaSum{"": newDeltaSum("")}
	groups := map[string]bool{}
	for i := range r.Matched {
		m := &r.Matched[i]
		groups[m.B.PromptGroup] = true
		if sums[m.B.Tool] == nil {
			sums[m.B.Tool] = newDeltaSum(m.B.Tool)
		}
		sums[""].add(m)
		if m.B.Tool != "" {
			sums[m.B.Tool].add(m)
		}
	}
	r.Groups = len(groups)
	r.Total = sums[""].finish()
	delete(sums, "")
	for _, tool := range sortedKeys(sums) {
		r.Tools = append(r.Tools, sums[tool].finish())
	}
	slices.SortStableFunc(r.Tools, func(x, y ToolDelta) int {
		return cmp.Or(cmp.Compare(y.Delta.Value, x.Delta.Value), cmp.Compare(y.N(), x.N()))
	})
}

// deltaSum adds one tool's matched calls up by prompt group.
type deltaSum struct {
	out    ToolDelta
	wrongA map[string]*stat.Cluster
	wrongB map[string]*stat.Cluster
	falseA map[string]*stat.Cluster
	falseB map[string]*stat.Cluster
}

func newDeltaSum(tool string) *deltaSum {
	return &deltaSum{
		out:    ToolDelta{Tool: tool, Counts: make(map[Change]int, 4)},
		wrongA: map[string]*stat.Cluster{}, wrongB: map[string]*stat.Cluster{},
		falseA: map[string]*stat.Cluster{}, falseB: map[string]*stat.Cluster{},
	}
}

func (s *deltaSum) add(m *MatchedCall) {
	s.out.Counts[m.Change]++
	group, w := m.B.PromptGroup, m.weight()
	into := func(sums map[string]*stat.Cluster, holds bool) {
		if sums[group] == nil {
			sums[group] = &stat.Cluster{Group: group}
		}
		sums[group].Add(indicator(holds), w)
	}
	into(s.wrongA, m.A.wrong())
	into(s.wrongB, m.B.wrong())
	if strings.HasPrefix(m.A.Real, string(Failed)) && strings.HasPrefix(m.B.Real, string(Failed)) {
		into(s.falseA, m.A.FalseSuccess)
		into(s.falseB, m.B.FalseSuccess)
	}
}

func (s *deltaSum) finish() ToolDelta {
	const confidence = .95
	list := func(sums map[string]*stat.Cluster) []stat.Cluster {
		var out []stat.Cluster
		for _, group := range sortedKeys(sums) {
			out = append(out, *sums[group])
		}
		return out
	}
	wrongA, wrongB, falseA, falseB := list(s.wrongA), list(s.wrongB), list(s.falseA), list(s.falseB)
	s.out.WrongA, s.out.WrongB = stat.ClusteredWilson(wrongA, confidence), stat.ClusteredWilson(wrongB, confidence)
	s.out.Delta = unchanged(stat.PairedDifference(wrongB, wrongA, confidence), wrongB)
	s.out.FSRA, s.out.FSRB = stat.ClusteredWilson(falseA, confidence), stat.ClusteredWilson(falseB, confidence)
	s.out.FSR = unchanged(stat.PairedDifference(falseB, falseA, confidence), falseB)
	return s.out
}

// unchanged widens a difference that is zero in every prompt group: its variance
// is unknown, not zero. Changes that were not seen in n/deff calls are bounded
// as in the rule of three.
func unchanged(d stat.Estimate, clusters []stat.Cluster) stat.Estimate {
	if !d.Defined() || d.Value != 0 || d.Lo != d.Hi {
		if !math.IsInf(d.Lo, 0) && !math.IsInf(d.Hi, 0) { // a difference of shares
			d.Lo, d.Hi = max(d.Lo, -1), min(d.Hi, 1)
		}
		return d
	}
	effective := float64(len(clusters))
	bound := stat.ClopperPearson(0, effective, d.Confidence).Hi
	d.Lo, d.Hi, d.NEff = -bound, bound, effective
	d.Method = "no prompt group changed: Clopper-Pearson bound of a change"
	return d
}
