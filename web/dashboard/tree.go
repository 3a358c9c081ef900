package dashboard

import (
	"slices"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/audit/diff"
)

const (
	// maxRows bounds the comparison that a page shows; the raw bytes have the rest.
	maxRows = 300
	// maxValue is how much of one value a row shows.
	maxValue = 160
)

// treeRow is one leaf of the two or three answers.
type treeRow struct {
	Pointer                    string
	Rehearsed, Executed, Again string // "" = absent there
	Differs                    bool
	Noise                      bool   // the two executions disagree
	within                     bool   // what holds it differs as a whole
	Says                       string // what the verdict says about it; "" = nothing
	Class                      string
	Severity                   string
}

// treeGroup is a run of rows that all differ, or all agree.
type treeGroup struct {
	Same bool
	Rows []treeRow
}

// comparison sets answers side by side, leaf by leaf.
type comparison struct {
	Groups  []treeGroup
	Cut     bool // there are more rows
	Faults  []faultLink
	HasTwin bool
}

// faultLink leads to a row that differs.
type faultLink struct{ Pointer, Says string }

// leaves are a body's scalars and empty containers by pointer, in its order.
type leaves struct {
	order  []string
	values map[string]string
}

func leavesOf(raw []byte) leaves {
	l := leaves{values: map[string]string{}}
	n, err := diff.Normalise(raw, diff.DefaultLimits())
	if err != nil {
		if len(raw) > 0 {
			l.add("", string(raw))
		}
		return l
	}
	l.walk("", n.Value)
	return l
}

func (l *leaves) add(pointer, text string) {
	if _, known := l.values[pointer]; known || len(l.order) > 4*maxRows {
		return
	}
	l.order = append(l.order, pointer)
	l.values[pointer] = text
}

func (l *leaves) walk(pointer string, v diff.Value) {
	if len(l.order) > 4*maxRows {
		return
	}
	switch v.Type() {
	case diff.TypeObject:
		if v.Len() > 0 {
			for name, kid := range v.Members() {
				l.walk(pointer+"/"+escapePointer(name), kid)
			}
			return
		}
	case diff.TypeArray:
		if v.Len() > 0 {
			for i, kid := range v.Elements() {
				l.walk(pointer+"/"+strconv.Itoa(i), kid)
			}
			return
		}
	case diff.TypeAbsent:
		return
	case diff.TypeNull, diff.TypeBool, diff.TypeNumber, diff.TypeString:
	}
	l.add(pointer, string(v.AppendJSON(nil)))
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// compare lays the answers of a pair side by side.
func compare(p *audit.Pair) comparison {
	var c comparison
	var rehearsed, executed, again leaves
	if p.Action.Rehearsal != nil {
		rehearsed = leavesOf(p.Action.Rehearsal.Raw)
	}
	if p.Observation != nil {
		executed = leavesOf(p.Observation.Raw)
	}
	if p.Twin != nil {
		again, c.HasTwin = leavesOf(p.Twin.Raw), true
	}
	judged := make(map[string]*diff.Difference, len(p.Verdict.Differences))
	for i := range p.Verdict.Differences {
		judged[p.Verdict.Differences[i].Pointer] = &p.Verdict.Differences[i]
	}
	seen := 0
	for _, pointer := range union(&executed, &rehearsed, &again) {
		if seen++; seen > maxRows {
			c.Cut = true
			break
		}
		row := treeRow{Pointer: pointer, Rehearsed: rehearsed.at(pointer), Executed: executed.at(pointer), Again: again.at(pointer)}
		row.Noise = c.HasTwin && row.Again != row.Executed
		row.within = judged[pointer] == nil && insideDifference(judged, pointer)
		row.judge(judged[pointer], p)
		c.add(row)
	}
	return c
}

// judge says what a row's disagreement means: the verdict's own word where it
// has one.
func (r *treeRow) judge(d *diff.Difference, p *audit.Pair) {
	both := p.Action.Rehearsal != nil && p.Observation != nil
	r.Differs = both && r.Rehearsed != r.Executed
	switch {
	case d != nil:
		r.Differs, r.Says, r.Class = !d.Cosmetic, words(string(d.Kind)), string(d.Class)
		if d.Cosmetic {
			r.Says = "cosmetic"
		}
	case !r.Differs:
	case p.Verdict.Real.IsError() != p.Verdict.Rehearsed.IsError():
		r.Says = r.oneSided("another outcome")
	case r.within:
		r.Says = r.oneSided("differs as a whole")
	case p.Verdict.Real.IsError():
		r.Says, r.Differs = "error text", p.Verdict.Real != p.Verdict.Rehearsed
	default: // the policy of its path lets it pass
		r.Says, r.Differs = "allowed by its path's rule", false
	}
}

// oneSided says which side alone has the value, or else what otherwise is.
func (r *treeRow) oneSided(otherwise string) string {
	switch {
	case r.Rehearsed == "":
		return "not imagined"
	case r.Executed == "":
		return "imagined"
	}
	return otherwise
}

// insideDifference reports whether something that holds the pointer was judged to
// differ as a whole: its type, or that it is there at all.
func insideDifference(judged map[string]*diff.Difference, pointer string) bool {
	for pointer != "" {
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
		if d := judged[pointer]; d != nil && !d.Cosmetic {
			return true
		}
	}
	return false
}

func (l *leaves) at(pointer string) string {
	text := l.values[pointer]
	if len(text) > maxValue {
		return brief(maxValue, text)
	}
	return audit.Plain(text)
}

// union lists every pointer, the executed answer's order first.
func union(all ...*leaves) []string {
	seen := map[string]bool{}
	var order []string
	for _, l := range all {
		for _, pointer := range l.order {
			if !seen[pointer] {
				seen[pointer] = true
				order = append(order, pointer)
			}
		}
	}
	return order
}

func (c *comparison) add(row treeRow) {
	if row.Differs && !row.within { // what holds it is named already
		c.Faults = append(c.Faults, faultLink{row.Pointer, row.Says})
	}
	if n := len(c.Groups); n == 0 || c.Groups[n-1].Same == row.Differs {
		c.Groups = append(c.Groups, treeGroup{Same: !row.Differs})
	}
	at := &c.Groups[len(c.Groups)-1]
	at.Rows = append(at.Rows, row)
}

// cellRow is one state cell that the call changed, or that the rehearsal says it
// changed.
type cellRow struct {
	Path                   string
	Before, After, Claimed string
	Made, IsClaimed        bool
}

// Says is what became of a claim.
func (c cellRow) Says() string {
	switch {
	case c.Made && c.IsClaimed && c.After == c.Claimed:
		return "as rehearsed"
	case c.Made && c.IsClaimed:
		return "rehearsed to another value"
	case c.Made:
		return "silent: not rehearsed"
	}
	return "phantom: never made"
}

// Right reports whether rehearsal and state agree.
func (c cellRow) Right() bool { return c.Made && c.IsClaimed && c.After == c.Claimed }

// cellsOf merges the executed and the claimed delta by leaf cell, as the verdict does.
func cellsOf(p *audit.Pair) []cellRow {
	rows := map[string]*cellRow{}
	var order []string
	at := func(path string) *cellRow {
		if rows[path] == nil {
			rows[path] = &cellRow{Path: path}
			order = append(order, path)
		}
		return rows[path]
	}
	if p.Observation != nil {
		for _, op := range audit.LeafCells(p.Observation.Delta) {
			r := at(op.Path)
			r.Made, r.Before, r.After = true, brief(maxValue, string(op.Old)), brief(maxValue, string(op.Value))
		}
	}
	for _, op := range p.Verdict.Claimed {
		r := at(op.Path)
		r.IsClaimed, r.Claimed = true, brief(maxValue, string(op.Value))
		if !r.Made {
			r.Before = brief(maxValue, string(op.Old))
		}
	}
	slices.Sort(order)
	const most = 100
	out := make([]cellRow, 0, min(len(order), most))
	for _, path := range order[:min(len(order), most)] {
		out = append(out, *rows[path])
	}
	return out
}
