package ledger

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"

	"understudy/audit"
	"understudy/audit/diff"
)

// body is one raw content of a pair, kept once per run.
type body struct {
	digest  audit.Digest
	content []byte // the whole content; cut when it is stored
}

// bodies are a pair's raw contents, each in the column of its name; a zero
// digest means that there was none. They lie outside the document because they
// may hold anything: malformed JSON, NUL, cut emoji, megabytes.
type bodies struct {
	arguments, prompt, rehearsal, stateBlock, recorded, observation, twin body
}

func (b *bodies) all() []*body {
	return []*body{&b.arguments, &b.prompt, &b.rehearsal, &b.stateBlock, &b.recorded, &b.observation, &b.twin}
}

// document is a pair in the form in which it is stored.
type document struct {
	bodies
	doc    []byte       // the result, JSON: neither bodies nor anything of one run or one attempt
	extra  []byte       // what may differ between equal results
	result audit.Digest // of doc and bodies
}

// extra is what one attempt measured, and another will measure otherwise.
type extra struct {
	Confidence *float64    `json:"confidence,omitempty"`
	Agreement  *float64    `json:"agreement,omitempty"`
	Tokens     []int32     `json:"tokens,omitempty"`
	LogProbs   []float32   `json:"log_probs,omitempty"`
	Cost       audit.Cost  `json:"cost,omitzero"`
	TwinCost   *audit.Cost `json:"twin_cost,omitempty"`
	Flags      []string    `json:"flags,omitempty"` // what storing had to change: non_finite, invalid_json
}

// newDocument takes a pair apart. It never fails: what JSON cannot say is
// dropped with a flag, so that one odd pair does not cost its neighbours.
func newDocument(p *audit.Pair) (document, error) {
	var d document
	r := *p
	r.Episode, r.PromptGroup, r.Success, r.Executed, r.Repeats = "", "", nil, nil, 0
	r.Action.Step, r.Action.CallID, r.Action.Message = 0, "", 0
	r.Action.Attempt, r.Action.Inclusion, r.Action.Probe = 0, 0, 0
	var x extra
	d.arguments, r.Action.Call.Arguments = take(r.Action.Call.Arguments), nil
	d.prompt, r.Action.Prompt = take(r.Action.Prompt), nil
	if r.Action.Rehearsal != nil {
		a := *r.Action.Rehearsal
		d.rehearsal, a.Raw = take(a.Raw), nil
		d.stateBlock, a.StateDelta = take(a.StateDelta), nil
		x.Confidence, x.Agreement, x.Tokens, x.LogProbs = a.Confidence, a.Agreement, a.Tokens, a.LogProbs
		a.Confidence, a.Agreement, a.Tokens, a.LogProbs = nil, nil, nil, nil
		r.Action.Rehearsal = &a
	}
	if r.Action.Recorded != nil {
		a := *r.Action.Recorded
		d.recorded, a.Raw = take(a.Raw), nil
		r.Action.Recorded = &a
	}
	if r.Observation != nil {
		o := *r.Observation
		d.observation, o.Raw = take(o.Raw), nil
		x.Cost, o.Cost = o.Cost, audit.Cost{}
		r.Observation = &o
	}
	if r.Twin != nil {
		o := *r.Twin
		d.twin, o.Raw = take(o.Raw), nil
		cost := o.Cost
		x.TwinCost, o.Cost = &cost, audit.Cost{}
		r.Twin = &o
	}
	var err error
	if d.doc, err = json.Marshal(&r); err != nil {
		repair(&r)
		x.Flags = append(x.Flags, "invalid_json")
		if d.doc, err = json.Marshal(&r); err != nil {
			return d, &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("pair %s of episode %q cannot be stored", p.Key, p.Episode), Err: err}
		}
	}
	if d.extra, err = json.Marshal(finite(&x)); err != nil {
		return d, fmt.Errorf("encode measurements of pair %s: %w", p.Key, err)
	}
	d.result = d.digest()
	return d, nil
}

// digest is the identity of the result: SHA-256 of the document and of the
// bodies' digests.
func (d *document) digest() audit.Digest {
	h := sha256.New()
	for _, b := range d.all() {
		h.Write(b.digest[:])
	}
	h.Write(d.doc)
	return audit.Digest(h.Sum(nil))
}

// take digests one raw content; nil stays "not there".
func take(content []byte) body {
	if content == nil {
		return body{}
	}
	return body{digest: sha256.Sum256(content), content: content}
}

// pair puts a stored pair together again. Bodies that were not loaded stay nil.
func (d *document) pair() (audit.Pair, error) {
	var p audit.Pair
	if err := json.Unmarshal(d.doc, &p); err != nil {
		return p, fmt.Errorf("decode stored pair: %w", err)
	}
	var x extra
	if err := json.Unmarshal(d.extra, &x); err != nil {
		return p, fmt.Errorf("decode measurements of stored pair: %w", err)
	}
	p.Action.Call.Arguments, p.Action.Prompt = d.arguments.content, d.prompt.content
	if a := p.Action.Rehearsal; a != nil {
		a.Raw, a.StateDelta = d.rehearsal.content, d.stateBlock.content
		a.Confidence, a.Agreement, a.Tokens, a.LogProbs = x.Confidence, x.Agreement, x.Tokens, x.LogProbs
	}
	if a := p.Action.Recorded; a != nil {
		a.Raw = d.recorded.content
	}
	if o := p.Observation; o != nil {
		o.Raw, o.Cost = d.observation.content, x.Cost
	}
	if o := p.Twin; o != nil {
		o.Raw = d.twin.content
		if x.TwinCost != nil {
			o.Cost = *x.TwinCost
		}
	}
	return p, nil
}

// finite drops numbers that JSON cannot say.
func finite(x *extra) *extra {
	bad := false
	for _, f := range []**float64{&x.Confidence, &x.Agreement} {
		if *f != nil && (math.IsNaN(**f) || math.IsInf(**f, 0)) {
			*f, bad = nil, true
		}
	}
	for _, v := range x.LogProbs {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			x.LogProbs, bad = nil, true
			break
		}
	}
	if bad {
		x.Flags = append(x.Flags, "non_finite")
	}
	return x
}

// repair replaces what keeps a pair from being JSON: raw values that are not,
// and scores that are not finite. It copies what it changes.
func repair(p *audit.Pair) {
	differences := make([]diff.Difference, len(p.Verdict.Differences))
	for i, d := range p.Verdict.Differences {
		d.Rehearsed, d.Real = quoted(d.Rehearsed), quoted(d.Real)
		d.Weight = orZero(d.Weight)
		differences[i] = d
	}
	p.Verdict.Differences = differences
	p.Verdict.Claimed = repairPatch(p.Verdict.Claimed)
	p.Verdict.Scores = repairScores(p.Verdict.Scores)
	for _, o := range []*audit.Observation{p.Observation, p.Twin} {
		if o == nil {
			continue
		}
		o.Delta = repairPatch(o.Delta)
		if o.Error != nil {
			e := *o.Error
			e.Details = quoted(e.Details)
			o.Error = &e
		}
	}
}

func repairPatch(patch diff.Patch) diff.Patch {
	if patch == nil {
		return nil
	}
	out := make(diff.Patch, len(patch))
	for i, op := range patch {
		op.Value, op.Old = quoted(op.Value), quoted(op.Old)
		out[i] = op
	}
	return out
}

func repairScores(s audit.Scores) audit.Scores {
	for _, f := range []**float64{
		&s.Shape, &s.Hallucinated, &s.Omitted, &s.LeafF1, &s.Exact, &s.IDIntegrity,
		&s.EffectPrecision, &s.EffectRecall, &s.EffectF1, &s.Phi,
	} {
		if *f != nil && (math.IsNaN(**f) || math.IsInf(**f, 0)) {
			*f = nil
		}
	}
	s.MaskedWeight = orZero(s.MaskedWeight)
	return s
}

func orZero(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// quoted is raw itself when it is JSON, else the JSON string of its bytes.
func quoted(raw json.RawMessage) json.RawMessage {
	if raw == nil || json.Valid(raw) {
		return raw
	}
	text, err := json.Marshal(string(raw))
	if err != nil {
		return nil
	}
	return text
}
