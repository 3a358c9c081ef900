package audit

import (
	"maps"
	"slices"
	"strings"

	"understudy/audit/diff"
)

// A surrogate is an id that a call makes up: no rehearsal can know it, so it may
// be another as long as it is used consistently. It shows in the truth: the call
// added an object under that name, the answer repeats the name, and the
// arguments do not. Policies that name their ids need none of this.

// minSurrogate is the shortest name of digits alone that is taken for an id:
// shorter ones are indices and amounts.
const minSurrogate = 4

// maxSurrogates bounds the compiled rules that are kept; tools have far fewer shapes.
const maxSurrogates = 1024

// surrogates are the pointers of the real answer's leaves that name what the call
// created, or what an earlier call of an open episode did.
func (j *judgement) surrogates() []string {
	var created []string
	for _, op := range j.at.Observation.Delta {
		if op.Op != diff.OpAdd || len(op.Value) == 0 || op.Value[0] != '{' || strings.HasPrefix(op.Path, bookkeeping) {
			continue
		}
		tokens := pointerTokens(op.Path)
		name := tokens[max(len(tokens)-1, 0)]
		if name != "" && (len(name) >= minSurrogate || strings.Trim(name, "0123456789") != "") && !strings.Contains(string(j.at.Call.Arguments), name) {
			created = append(created, name)
		}
	}
	if len(created) == 0 && j.ids.Len() == 0 {
		return nil
	}
	var patterns []string
	leaves(j.real.Body, "", func(pointer string, leaf diff.Value) {
		_, renamed := j.ids.Rehearsed(leaf.String())
		if renamed || slices.Contains(created, leaf.Text()) {
			patterns = append(patterns, pointer)
		}
	})
	return patterns
}

// withSurrogates are a tool's path rules with some pointers under the rule id.
func (r *Rules) withSurrogates(tool string, pointers []string) *diff.Rules {
	paths := r.pathsOf(tool)
	if len(pointers) == 0 {
		return paths
	}
	key := tool + "\x00" + strings.Join(pointers, "\x00")
	if known, ok := r.surrogates.Load(key); ok {
		return known.(*diff.Rules)
	}
	rules := make([]diff.PathRule, 0, len(pointers))
	for _, pointer := range pointers {
		if !strings.Contains(pointer, "*") { // a member called * is no pattern
			rules = append(rules, diff.PathRule{Pattern: pointer, Rule: diff.Rule{Class: diff.ID}})
		}
	}
	with, err := paths.With(rules...)
	if err != nil {
		return paths // a rule of the policy says otherwise there
	}
	if r.surrogateCount.Add(1) <= maxSurrogates {
		r.surrogates.Store(key, with)
	}
	return with
}

// renamed replaces rehearsed ids by the real ones that they stand for, in the
// pointers and in the values of claimed cells. Of several that fall on one cell the last
// in the order of their pointers is its claim.
func renamed(claimed cells, ids *diff.Bijection) cells {
	if ids.Len() == 0 {
		return claimed
	}
	out := make(cells, len(claimed))
	for _, pointer := range slices.Sorted(maps.Keys(claimed)) {
		value, tokens := claimed[pointer], pointerTokens(pointer)
		for i, token := range tokens {
			if name, ok := ids.Real(string(appendJSONString(nil, token))); ok {
				token = strings.Trim(name, `"`)
			}
			tokens[i] = escapeToken(token)
		}
		if name, ok := ids.Real(value.String()); ok {
			if id, err := diff.Decode([]byte(name), diff.Limits{}); err == nil {
				value = id
			}
		}
		out[pointerOf(tokens)] = value
	}
	return out
}
