package dashboard

import (
	"context"
	"encoding/hex"
	"math"
	"slices"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web/chart"
)

// previewBytes is how much of a raw body a page shows before "load rest": five
// of them, with every quote escaped, must fit a first paint.
const previewBytes = 4 << 10

// callView is one call: what was imagined beside what happened.
type callView struct {
	Summary  audit.Summary
	Record   audit.CallRecord
	Pair     *audit.Pair
	Verdict  *audit.Verdict
	Bodies   []body // rehearsed, executed, executed again
	Call     body   // the arguments
	Prompt   *body
	Tree     comparison
	Cells    []cellRow
	Observed bool // the effect of the call is known
	Tokens   chart.Chart
	Lowest   string // of the token probabilities, in words
	Targets  []markTarget
	Notice   string
	MayMark  bool
}

func (v *callView) summary() *audit.Summary { return &v.Summary }

// body is one raw text with its beginning.
type body struct {
	Name, Part string
	Note       string // of its source
	There      bool
	Preview    string
	Size       int64 // of the whole
	Rest       bool  // there is more than the preview
	Cut        bool  // the ledger kept only its beginning
}

// markTarget is a difference that a mark can be about.
type markTarget struct{ Pattern, Difference, Says string }

// Value is the target in a form.
func (m markTarget) Value() string { return m.Difference + " " + m.Pattern }

func (s *site) callPage() page {
	return page{
		path: "/call", name: "call", title: "Call", under: "/calls",
		view: func(ctx context.Context, r *request) (any, error) { return s.call(ctx, r) },
		actions: map[string]gin.HandlerFunc{
			"/call/mark": s.postMark, "/call/unmark": s.postUnmark,
		},
		parts: map[string]gin.HandlerFunc{"/call/body": s.callBody, "/call/test": s.callTest},
	}
}

func (s *site) call(ctx context.Context, r *request) (*callView, error) {
	record, err := s.readCall(ctx, r.Run, r.Query("key"))
	if err != nil {
		return nil, err
	}
	v := &callView{Record: record, MayMark: r.Identity.Role.May(audit.AuditorRole), Notice: notice(r.Query("said"))}
	v.Pair = &v.Record.Pair
	v.Verdict = &v.Pair.Verdict
	v.Tree, v.Cells = compare(v.Pair), cellsOf(v.Pair)
	v.Observed = v.Pair.Observation != nil && v.Pair.Observation.Delta != nil
	for _, part := range parts() {
		b := s.bodyOf(&record, part)
		switch part {
		case "arguments":
			v.Call = b
		case "prompt":
			if b.There {
				v.Prompt = &b
			}
		default:
			if b.There || part != "again" && part != "recorded" {
				v.Bodies = append(v.Bodies, b)
			}
		}
	}
	v.tokens()
	v.targets()
	return v, nil
}

func (s *site) readCall(ctx context.Context, run, key string) (audit.CallRecord, error) {
	digest, err := hex.DecodeString(key)
	if err != nil || len(digest) != len(audit.Digest{}) {
		return audit.CallRecord{}, &audit.Error{Code: audit.CodeInvalid, Message: "the call's key is not one of ours", Hint: "open the call from a list"}
	}
	return s.Store.Call(ctx, run, audit.Digest(digest))
}

// parts are the raw bodies of a call.
func parts() []string {
	return []string{"rehearsed", "executed", "again", "recorded", "arguments", "prompt"}
}

// rawOf is one of a call's raw bodies; nil = it has none.
func rawOf(p *audit.Pair, part string) []byte {
	switch part {
	case "rehearsed":
		if p.Action.Rehearsal != nil {
			return p.Action.Rehearsal.Raw
		}
	case "executed":
		if p.Observation != nil {
			return p.Observation.Raw
		}
	case "again":
		if p.Twin != nil {
			return p.Twin.Raw
		}
	case "recorded":
		if p.Action.Recorded != nil {
			return p.Action.Recorded.Raw
		}
	case "arguments":
		return p.Action.Call.Arguments
	case "prompt":
		return p.Action.Prompt
	}
	return nil
}

func (s *site) bodyOf(record *audit.CallRecord, part string) body {
	p := &record.Pair
	raw := rawOf(p, part)
	b := body{Part: part, There: raw != nil, Size: int64(len(raw)), Preview: brief(previewBytes, string(raw)), Rest: len(raw) > previewBytes}
	for _, size := range record.Whole {
		if len(raw) >= 1<<20 && size > int64(len(raw)) {
			b.Cut = true
			if len(record.Whole) == 1 { // of several it is not known which is this one's
				b.Size = size
			}
		}
	}
	b.Name = map[string]string{
		"rehearsed": "Rehearsed", "executed": "Executed", "again": "Executed again", "recorded": "Recorded by its source",
		"arguments": "Arguments", "prompt": "What the policy saw",
	}[part]
	switch {
	case part == "rehearsed" && p.Action.Rehearsal != nil && p.Action.Rehearsal.Unavailable != "":
		b.Note = "no answer: " + p.Action.Rehearsal.Unavailable
	case part == "rehearsed" && p.Action.Rehearsal != nil && p.Action.Rehearsal.Truncated:
		b.Note = "cut by the length limit of its server"
	case part == "executed" && p.Observation != nil:
		b.Note = string(p.Observation.Status) + ", evidence: " + string(p.Observation.Evidence)
	}
	return b
}

// tokens draws the probability of each rehearsed token.
func (v *callView) tokens() {
	r := v.Pair.Action.Rehearsal
	if r == nil || len(r.LogProbs) == 0 {
		return
	}
	strip := chart.Strip{Title: "Probability of each rehearsed token, in order"}
	lowest, at := math.Inf(1), 0
	for i, lp := range r.LogProbs {
		p := math.Exp(float64(lp))
		if p < lowest {
			lowest, at = p, i
		}
		strip.Values = append(strip.Values, p)
	}
	v.Tokens, v.Lowest = strip, "least sure: token "+count(at+1)+" of "+count(len(r.LogProbs))+", "+chart.Percent(lowest)
}

// targets are what a mark on this call may be about.
func (v *callView) targets() {
	fault := ""
	switch vd := v.Verdict; {
	case vd.FalseSuccess:
		fault = "false_success"
	case !vd.Real.IsError() && vd.Rehearsed.IsError():
		fault = "false_error"
	case vd.Real.IsError() && vd.Real != vd.Rehearsed:
		fault = "wrong_family"
	}
	if fault != "" {
		v.Targets = append(v.Targets, markTarget{"", fault, "the outcome: " + words(fault)})
	}
	for _, d := range v.Verdict.Differences {
		t := markTarget{d.Pattern, string(d.Kind), audit.Plain(d.Pattern) + " " + words(string(d.Kind))}
		if !slices.Contains(v.Targets, t) && len(v.Targets) < 40 {
			v.Targets = append(v.Targets, t)
		}
	}
}
