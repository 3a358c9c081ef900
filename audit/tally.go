package audit

import (
	"cmp"
	"maps"
	"slices"

	"understudy/audit/stat"
)

// Split separates pairs by the terminal success of their task.
type Split string

// The splits.
const (
	AllTasks    Split = "all"
	Succeeded   Split = "succeeded"
	NotReached  Split = "failed"
	NoSuccessOf Split = "unknown" // no terminal check, and the source does not say
)

// Cell is what figures are kept apart by. A cell without a tool holds what
// belongs to whole episodes.
type Cell struct {
	Environment string `json:"environment"`
	Version     string `json:"version"`
	Tool        string `json:"tool,omitempty"`
	Mode        Mode   `json:"mode"`
	Split       Split  `json:"split"`
}

// Tally adds up pairs by cell and prompt group. It is a pure accumulator: two
// tallies of disjoint pairs merge to the tally of all. Not safe for concurrent use.
type Tally struct {
	cells map[Cell]map[string]Counters
}

// NewTally returns an empty tally.
func NewTally() *Tally { return &Tally{cells: make(map[Cell]map[string]Counters)} }

// CellOf is the cell of one pair; its split is never AllTasks.
func CellOf(p *Pair) Cell {
	return Cell{p.Environment, p.Version, p.Action.Call.Tool, p.Mode, splitOf(p)}
}

func splitOf(p *Pair) Split {
	switch success := p.TaskSuccess(); {
	case success == nil:
		return NoSuccessOf
	case *success:
		return Succeeded
	default:
		return NotReached
	}
}

// Add counts the pairs of one episode.
func (t *Tally) Add(pairs []Pair) {
	for i := range pairs {
		t.Count(CellOf(&pairs[i]), pairs[i].PromptGroup, PairCounters(&pairs[i]))
	}
	if len(pairs) > 0 {
		cell := CellOf(&pairs[0])
		cell.Tool = ""
		t.Count(cell, pairs[0].PromptGroup, EpisodeCounters(pairs))
	}
}

// Count adds counters to one cell and prompt group, as a store keeps them.
func (t *Tally) Count(cell Cell, group string, c Counters) {
	groups := t.cells[cell]
	if groups == nil {
		groups = make(map[string]Counters)
		t.cells[cell] = groups
	}
	if groups[group] == nil {
		groups[group] = make(Counters, len(c))
	}
	groups[group].Merge(c)
}

// Merge adds another tally.
func (t *Tally) Merge(other *Tally) {
	for cell, groups := range other.cells {
		for group, c := range groups {
			t.Count(cell, group, c)
		}
	}
}

// Cells lists the cells, sorted; those of AllTasks, which sum up the splits,
// stand before them.
func (t *Tally) Cells() []Cell {
	seen := make(map[Cell]bool, 2*len(t.cells))
	for cell := range t.cells {
		seen[cell] = true
		cell.Split = AllTasks
		seen[cell] = true
	}
	return slices.SortedFunc(maps.Keys(seen), func(a, b Cell) int {
		return cmp.Or(
			cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Mode, b.Mode),
			cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Split, b.Split),
		)
	})
}

// Groups returns a cell's counters by prompt group.
func (t *Tally) Groups(cell Cell) map[string]Counters {
	if cell.Split != AllTasks {
		return t.cells[cell]
	}
	sum := make(map[string]Counters)
	for _, split := range []Split{Succeeded, NotReached, NoSuccessOf} {
		cell.Split = split
		for group, c := range t.cells[cell] {
			if sum[group] == nil {
				sum[group] = make(Counters, len(c))
			}
			sum[group].Merge(c)
		}
	}
	return sum
}

// clusters collects one counter over prompt groups, sorted by group.
func clusters(groups map[string]Counters, name Counter) []stat.Cluster {
	var out []stat.Cluster
	for _, group := range sortedKeys(groups) {
		if c, ok := groups[group][name]; ok {
			c.Group = group
			out = append(out, c)
		}
	}
	return out
}
