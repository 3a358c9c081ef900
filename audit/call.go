package audit

import "time"

// CallLine is one audited call in a list.
type CallLine struct {
	Key          Digest
	Episode      Digest // of the ledger: one rollout in one mode on one version
	Name         string // of the episode, which several of them may share
	Step         int
	Probe        int
	Sample       int
	Tool         string
	Mode         Mode
	Version      string
	PromptGroup  string
	Real         string // ok, ok_empty, error:FAMILY
	Rehearsed    string
	Severity     Severity
	FalseSuccess bool
	Masked       MaskReason
	Cascaded     bool
	Fork         bool
	Cells        *int   // state cells that really changed
	Arguments    []byte // the beginning of them
	Committed    time.Time
}

// CallFilter narrows a list of calls; empty fields do not.
type CallFilter struct {
	Tool        string
	Slice       Slice
	MinSeverity Severity
	Real        string // outcome label, as lines have it
	Rehearsed   string
	Masked      *bool
}

// Field is one kind of difference of a tool, counted.
type Field struct {
	Part     string // answer, effect or outcome
	Pattern  string // JSON Pointer with "*"; "" = the outcome itself
	Kind     string
	Class    string
	Pairs    int
	Severity Severity // the gravest
	Samples  []Sample // at most five, worst first
}

// CallRecord is one audited call of a run with what surrounds it.
type CallRecord struct {
	Pair     Pair             // as it was judged, whatever people said since
	Episode  Digest           // of the ledger
	Whole    map[Digest]int64 // sizes of bodies that were too large to keep, by digest
	Masked   MaskReason       // why it counts in no figure now
	Marks    []Mark           // that concern it, newest first
	Answers  []AnswerGroup    // the k rehearsals of this action, the same ones together
	Previous Digest           // the call before it in its episode; zero = it is the first
	Next     Digest
}

// AnswerGroup are rehearsals of one action that say the same, byte for byte.
type AnswerGroup struct {
	Times    int
	Key      Digest // one of them
	Severity Severity
	Masked   MaskReason
	Preview  []byte
}

// EpisodeRecord is one rollout with its place among those of its prompt.
type EpisodeRecord struct {
	ID          Digest
	Name        string
	PromptGroup string
	Policy      string
	Checkpoint  int64
	Environment string
	Mode        Mode
	State       string
	Executed    *bool // terminal success in the sandbox
	Reported    *bool // as its source saw it
	Results     int
	Finished    time.Time
	Lines       []CallLine // of a branch: its first calls, for a strip
}

// MarkKind is what somebody said about a call.
type MarkKind string

// The kinds of marks.
const (
	MarkNoise          MarkKind = "noise"           // it differs only where nothing is promised
	MarkKnownIssue     MarkKind = "known_issue"     // counted no more until it expires
	MarkReferenceWrong MarkKind = "reference_wrong" // the real answer of this one call is wrong
)

// MarkKinds lists every kind.
func MarkKinds() []MarkKind { return []MarkKind{MarkNoise, MarkKnownIssue, MarkReferenceWrong} }

// Reason is why calls under such a mark count in no figure.
func (k MarkKind) Reason() MaskReason {
	switch k {
	case MarkNoise:
		return MaskNoise
	case MarkKnownIssue:
		return MaskKnownDefect
	case MarkReferenceWrong:
		return MaskReferenceInvalid
	}
	return MaskReferenceInvalid
}

// Mark takes calls out of the figures, for a reason that somebody gave.
type Mark struct {
	ID          int
	Run         string // where it was made, on which call
	Key         Digest
	Kind        MarkKind
	Environment string
	Tool        string
	Pattern     string // of the difference; "" = the outcome itself
	Difference  string // its kind; "" = any
	Reason      string
	Author      string
	Created     time.Time
	Expires     time.Time // zero = never
	Revoked     time.Time
	Calls       int // that it has taken out of figures, over all runs
}

// Excuses reports whether the mark takes a scored pair out of the figures.
func (m *Mark) Excuses(p *Pair) bool {
	if !p.Verdict.Scored() || m.Environment != p.Environment || m.Tool != p.Action.Call.Tool {
		return false
	}
	switch m.Kind {
	case MarkReferenceWrong:
		return m.Key == p.Key
	case MarkKnownIssue:
		return m.meets(p)
	case MarkNoise:
		return m.allNoise(p)
	}
	return false
}

// meets reports whether the pair shows the marked difference.
func (m *Mark) meets(p *Pair) bool {
	if m.Pattern == "" {
		return outcomeFault(p) == m.Difference
	}
	for i := range p.Verdict.Differences {
		d := &p.Verdict.Differences[i]
		if d.Pattern == m.Pattern && (m.Difference == "" || string(d.Kind) == m.Difference) {
			return true
		}
	}
	return false
}

// allNoise reports whether nothing but the marked path is wrong with the pair.
func (m *Mark) allNoise(p *Pair) bool {
	v := &p.Verdict
	if v.Real != v.Rehearsed || v.Scores.PhantomWrite || v.Scores.SilentWrite || v.Scores.EffectF1 != nil && *v.Scores.EffectF1 < 1 {
		return false
	}
	found := false
	for i := range v.Differences {
		d := &v.Differences[i]
		if d.Cosmetic {
			continue
		}
		if d.Pattern != m.Pattern {
			return false
		}
		found = true
	}
	return found
}

// outcomeFault names what is wrong with an answer as a whole; "" = nothing.
func outcomeFault(p *Pair) string {
	v := &p.Verdict
	switch {
	case v.FalseSuccess:
		return "false_success"
	case !v.Real.IsError() && v.Rehearsed.IsError():
		return "false_error"
	case v.Real.IsError() && v.Real != v.Rehearsed:
		return "wrong_family"
	}
	return ""
}
