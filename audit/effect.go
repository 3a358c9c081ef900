package audit

import (
	"encoding/json"
	"errors"
	"strings"

	"understudy/audit/diff"
)

// StateFunc gives the state's value at a JSON Pointer before the call; known is
// false when the environment does not show its state. A cell that does not
// exist is known and absent.
type StateFunc func(pointer string) (value diff.Value, known bool)

// cells are changed leaf cells of the state: pointer to the value after the
// change, absent for a removed cell. A container that was added or replaced
// counts by its leaves, a removed one as one cell.
type cells map[string]diff.Value

// claim is the effect that a rehearsal says its call had.
type claim struct {
	source EffectSource // "" = it says nothing that can be seen
	cells  cells
	scope  func(pointer string) bool // the real cells that the claim could have named; nil = all
	flags  []string

	unreadable bool // a block that is no patch: it scores as a claim that is wrong
}

// bookkeeping is where an environment keeps its clock and counters: no answer
// speaks of it, so it is no part of any effect.
const bookkeeping = "/$sys"

// cellsOf expands a patch into leaf cells.
func cellsOf(p diff.Patch, limits diff.Limits) (cells, error) {
	out := make(cells, len(p))
	for _, op := range p {
		if op.Path == bookkeeping || strings.HasPrefix(op.Path, bookkeeping+"/") {
			continue
		}
		if op.Op == diff.OpRemove {
			out[op.Path] = diff.Value{}
			continue
		}
		v, err := diff.Decode(op.Value, limits)
		if err != nil {
			return nil, err
		}
		leaves(v, op.Path, func(pointer string, leaf diff.Value) { out[pointer] = leaf })
	}
	return out, nil
}

// claimByBlock reads a <state_delta> block: a JSON Patch of the state.
func claimByBlock(block json.RawMessage, limits diff.Limits) (claim, error) {
	if len(block) > limits.Bytes {
		return claim{}, errors.New("state delta is too long")
	}
	var patch diff.Patch
	if err := json.Unmarshal(block, &patch); err != nil {
		return claim{}, err
	}
	claimed, err := cellsOf(patch, limits)
	if err != nil {
		return claim{}, err
	}
	return claim{source: EffectByBlock, cells: claimed}, nil
}

// claimByEcho makes a claim of the cells that an ok answer repeats: a cell claims
// a change only where its value is not the one before the call. What the real
// answer shows says which cells the map can see and what unchanged ones hold.
func claimByEcho(said, shown cells, delta diff.Patch, state StateFunc) claim {
	c := claim{source: EffectByEcho, cells: make(cells)}
	for pointer, value := range said {
		before, known := valueBefore(delta, pointer)
		if !known {
			if before, known = shown[pointer], shown[pointer].Type() != diff.TypeAbsent; !known && state != nil {
				before, known = state(pointer)
			}
		}
		if known && !diff.Equal(before, value) {
			c.cells[pointer] = value
		}
	}
	c.scope = func(pointer string) bool {
		_, seen := shown[pointer]
		return seen
	}
	return c
}

// valueBefore looks a cell up in what a patch replaced; known is false when the
// patch does not touch it.
func valueBefore(delta diff.Patch, pointer string) (diff.Value, bool) {
	for _, op := range delta {
		rest, below := strings.CutPrefix(pointer, op.Path)
		if !below || rest != "" && rest[0] != '/' {
			continue
		}
		if op.Old == nil {
			return diff.Value{}, true
		}
		old, err := diff.Decode(op.Old, diff.Limits{})
		if err != nil {
			return diff.Value{}, false
		}
		at, _ := old.Lookup(rest)
		return at, true
	}
	return diff.Value{}, false
}

// effectScore compares claimed and real cells.
type effectScore struct {
	real, claimed     int
	precision, recall float64
	f1                float64
	phantom, silent   bool
}

// scoreEffect is precision, recall and F1 of claimed cells. Two empty effects
// agree. A claim without a real change is phantom, a real change without a
// claim silent; both score 0.
func scoreEffect(truth cells, c claim) effectScore {
	visible := 0
	matched := 0
	for pointer, value := range truth {
		claimed, named := c.cells[pointer]
		if !named && c.scope != nil && !c.scope(pointer) {
			continue
		}
		visible++
		if named && diff.Equal(claimed, value) {
			matched++
		}
	}
	s := effectScore{real: len(truth), claimed: len(c.cells), precision: 1, recall: 1}
	if len(c.cells) > 0 {
		s.precision = float64(matched) / float64(len(c.cells))
	}
	if visible > 0 {
		s.recall = float64(matched) / float64(visible)
	}
	s.phantom = len(truth) == 0 && len(c.cells) > 0
	s.silent = visible > 0 && len(c.cells) == 0
	if c.unreadable {
		s.precision, s.recall = 0, 0
		return s
	}
	if s.phantom || s.silent {
		s.precision, s.recall = indicator(s.silent), indicator(s.phantom)
		return s
	}
	if s.precision+s.recall > 0 {
		s.f1 = 2 * s.precision * s.recall / (s.precision + s.recall)
	}
	return s
}

// patchOf writes claimed cells as a patch, for people and for the ledger.
func (c cells) patchOf() diff.Patch {
	patch := make(diff.Patch, 0, len(c))
	for _, pointer := range sortedKeys(c) {
		op := diff.Op{Op: diff.OpReplace, Path: pointer, Value: c[pointer].JSON()}
		if op.Value == nil {
			op.Op = diff.OpRemove
		}
		patch = append(patch, op)
	}
	return patch
}
