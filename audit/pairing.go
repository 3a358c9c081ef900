package audit

import (
	"bytes"
	"math"
	"slices"

	"understudy/audit/diff"
)

// pairs makes the pairs of an action, with their keys, before anything of it is
// rehearsed or executed.
func (at *Place) pairs(action *Planned) []Pair {
	if action.replay {
		return nil
	}
	tool := at.tool(action.call.Tool)
	pairs := make([]Pair, len(action.samples))
	for i, sample := range action.samples {
		pairs[i] = at.pair(sample, action.digest, tool.Effect)
		if i == 0 { // all samples together stand for the repeats once
			pairs[i].Repeats = action.repeats
		}
		pairs[i].Verdict.Flags = slices.Clone(action.flags)
		if action.draws != nil && !action.draws[i] {
			pairs[i].Verdict.mask(MaskNotSampled, "")
		}
	}
	return pairs
}

func (at *Place) pair(action Action, call Digest, effect Effect) Pair {
	ep := at.episode
	mode := ep.Mode
	if mode == "" {
		mode = Forced
	}
	prompt := at.prompt
	if len(action.Prompt) > 0 {
		prompt = promptDigest(ep, action.Prompt)
	}
	id := Identity{
		Policy: at.policy, Prompt: prompt, Initial: at.initial, History: at.trail,
		Action: call, Mode: mode, Environment: at.info.Name, Version: at.info.Digest, Rules: at.rules.Digest(),
		Episode: ep.ID, Sample: action.Sample, Probe: action.Probe,
	}
	return Pair{
		Key: id.Key(), Episode: ep.ID, PromptGroup: ep.PromptGroup, Policy: ep.Policy, Checkpoint: ep.Checkpoint,
		Environment: at.info.Name, Version: at.info.Version, EnvDigest: at.info.Digest, Mode: mode,
		Action: action, Effect: effect, Success: ep.Success, Verdict: Verdict{Rules: at.rules.Digest()},
	}
}

// judge fills in what was answered and seen, and the verdicts.
func (at *Place) judge(pairs []Pair, answers []Rehearsal, seen *sighting) {
	before := at.ids
	if len(pairs) > 1 {
		before = at.ids.Clone()
	}
	for i := range pairs {
		p := &pairs[i]
		p.Observation, p.Twin = seen.observation, seen.twin
		if p.Verdict.Masked != "" { // not drawn, beside one that was
			p.Observation, p.Twin = nil, nil
			continue
		}
		answer := answers[i]
		flags := append(slices.Clone(p.Verdict.Flags), seen.flags...)
		flags = append(flags, answer.clean()...)
		p.Action.Rehearsal = &answer
		if seen.mask != "" {
			p.Verdict.mask(seen.mask, seen.detail)
			p.Verdict.Flags = flags
			continue
		}
		ids := &diff.Bijection{} // the history shows real ids: each answer stands alone
		switch {
		case p.Mode != Open:
		case i == 0: // only the first rehearsal goes on
			ids = at.ids
		default:
			ids = before.Clone()
		}
		p.Verdict = at.rules.Judge(&Case{
			Environment: at.info.Name, Version: at.info.Version, Mode: p.Mode,
			Tool: at.tool(p.Action.Call.Tool), Call: p.Action.Call,
			Rehearsal: &answer, Observation: seen.observation, Twin: seen.twin, Recorded: p.Action.Recorded,
			State: seen.state, IDs: ids, probed: seen.claim, reads: seen.reads,
		})
		p.Verdict.Flags = append(flags, p.Verdict.Flags...)
	}
}

// translate replaces the rehearsed ids in a call's arguments by the real ones:
// in an open episode ACT speaks of things by the names that REHEARSE gave them.
func (at *Place) translate(call Call) (Call, bool) {
	if at.ids.Len() == 0 {
		return call, false
	}
	arguments, err := diff.Decode(call.Arguments, at.rules.limits)
	if err != nil {
		return call, false
	}
	replaced := false
	text := appendTranslated(nil, arguments, func(id string) (string, bool) {
		truth, ok := at.ids.Real(id)
		replaced = replaced || ok && truth != id
		return truth, ok
	})
	if replaced {
		call.Arguments = text
	}
	return call, replaced
}

// appendTranslated appends v as JSON with every scalar that stands for another.
func appendTranslated(b []byte, v diff.Value, truth func(string) (string, bool)) []byte {
	switch v.Type() {
	case diff.TypeObject, diff.TypeArray:
		return appendContainer(b, v, func(b []byte, kid diff.Value) []byte { return appendTranslated(b, kid, truth) })
	case diff.TypeString, diff.TypeNumber:
		text := v.String()
		if other, ok := truth(text); ok {
			text = other
		}
		return append(b, text...)
	case diff.TypeAbsent, diff.TypeNull, diff.TypeBool:
	}
	return v.AppendJSON(b)
}

// sameAnswer reports whether two rehearsals say the same, byte for byte or by value.
func sameAnswer(a, b []byte, limits diff.Limits) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := diff.Decode(a, limits)
	if err != nil {
		return false
	}
	y, err := diff.Decode(b, limits)
	return err == nil && diff.Equal(x, y)
}

// clean drops from a rehearsal what is not a finite number, before it is stored.
func (r *Rehearsal) clean() (flags []string) {
	if slices.ContainsFunc(r.LogProbs, func(x float32) bool { return !finite(float64(x)) }) {
		r.LogProbs = nil
		flags = append(flags, FlagNonFiniteLogProb)
	}
	for _, p := range []**float64{&r.Confidence, &r.Agreement} {
		if *p != nil && !(math.Abs(**p) <= math.MaxFloat64) {
			*p = nil
			flags = append(flags, FlagNonFiniteLogProb)
		}
	}
	return slices.Compact(flags)
}
