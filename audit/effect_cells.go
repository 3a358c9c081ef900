package audit

import "understudy/audit/diff"

// EffectCell is one cell of the state on which claim and truth of a write disagree.
type EffectCell struct {
	Path          string
	Kind          EffectDifference
	Claimed, Made []byte // nil: not claimed or made, or removed
}

// EffectDifference says how claim and truth of a cell disagree.
type EffectDifference string

// The kinds of an effect's disagreement.
const (
	PhantomCell EffectDifference = "phantom" // claimed, not made
	SilentCell  EffectDifference = "silent"  // made, not claimed
	WrongCell   EffectDifference = "wrong"   // both, with another value
)

// EffectCells lists where a pair's claimed and real effect disagree, as the verdict
// compared them: leaf by leaf, phantom and wrong cells before silent ones, by path. An
// effect that was not compared, or by probes whose cells are not the state's, has
// none. A claim by echo is silent of nothing: an answer shows a part of the state.
func (p *Pair) EffectCells() []EffectCell {
	source := p.Verdict.Scores.EffectSource
	if source == "" || source == EffectByProbe || p.Observation == nil || p.Observation.Delta == nil {
		return nil
	}
	claimed, err := cellsOf(p.Verdict.Claimed, diff.Limits{})
	if err != nil {
		return nil
	}
	made, err := cellsOf(p.Observation.Delta, diff.Limits{})
	if err != nil {
		return nil
	}
	var all []EffectCell
	for _, path := range sortedKeys(claimed) {
		was, ok := made[path]
		switch {
		case !ok:
			all = append(all, EffectCell{path, PhantomCell, claimed[path].JSON(), nil})
		case !diff.Equal(claimed[path], was):
			all = append(all, EffectCell{path, WrongCell, claimed[path].JSON(), was.JSON()})
		}
	}
	if source == EffectByEcho {
		return all
	}
	for _, path := range sortedKeys(made) {
		if _, named := claimed[path]; !named {
			all = append(all, EffectCell{path, SilentCell, nil, made[path].JSON()})
		}
	}
	return all
}

// LeafCells writes a change of the state as its verdict compares it: by leaf cells,
// without the environment's bookkeeping.
func LeafCells(p diff.Patch) diff.Patch {
	all, err := cellsOf(p, diff.Limits{})
	if err != nil {
		return p
	}
	patch := all.patchOf()
	for i := range patch {
		if before, known := valueBefore(p, patch[i].Path); known {
			patch[i].Old = before.JSON()
		}
	}
	return patch
}
