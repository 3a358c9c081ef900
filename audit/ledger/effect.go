package ledger

import (
	"bytes"
	"strings"

	"understudy/audit"
	"understudy/audit/diff"
)

// effectCell is one state cell on which claim and truth of a write disagree.
type effectCell struct {
	path, pattern, kind string
	claimed, made       []byte
}

// The kinds of an effect's disagreement.
const (
	phantomCell = "phantom" // claimed, not made
	silentCell  = "silent"  // made, not claimed
	wrongCell   = "wrong"   // both, with another value
)

// effectCells compares the claimed with the real state delta, cell by cell.
// Either of them unknown means no statement.
func effectCells(p *audit.Pair) []effectCell {
	if p.Observation == nil || p.Observation.Delta == nil || p.Verdict.Claimed == nil {
		return nil
	}
	made := make(map[string]diff.Op, len(p.Observation.Delta))
	for _, op := range p.Observation.Delta {
		made[op.Path] = op
	}
	var cells []effectCell
	for _, op := range p.Verdict.Claimed {
		was, ok := made[op.Path]
		delete(made, op.Path)
		switch {
		case !ok:
			cells = append(cells, effectCell{op.Path, pathPattern(op.Path), phantomCell, op.Value, nil})
		case was.Op != op.Op || !bytes.Equal(was.Value, op.Value):
			cells = append(cells, effectCell{op.Path, pathPattern(op.Path), wrongCell, op.Value, was.Value})
		}
	}
	for _, op := range p.Observation.Delta {
		if _, unclaimed := made[op.Path]; unclaimed {
			cells = append(cells, effectCell{op.Path, pathPattern(op.Path), silentCell, nil, op.Value})
		}
	}
	return cells
}

// pathPattern puts * for the tokens of a state path that look like keys of
// records rather than names of fields: anything with a digit or a special
// character in it.
func pathPattern(path string) string {
	tokens := strings.Split(path, "/")
	for i, t := range tokens[1:] {
		if strings.ContainsFunc(t, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' }) {
			tokens[i+1] = "*"
		}
	}
	return strings.Join(tokens, "/")
}
