package audit

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Slices computes the figures of every slice of a run that a page may ask for:
// each version and all of them, each mode and all, each split and all, and in
// each slice every tool, all tools together (AllTools) and whole episodes
// (tool ""). What is pooled has an empty name.
func (t *Tally) Slices(seed uint64) []Figures {
	sources := make(map[Cell][]Cell)
	for cell := range t.cells {
		for _, version := range []string{cell.Version, ""} {
			for _, mode := range []Mode{cell.Mode, ""} {
				for _, split := range []Split{cell.Split, AllTasks} {
					for _, place := range poolsOf(cell) {
						to := Cell{Environment: place.Environment, Version: version, Tool: place.Tool, Mode: mode, Split: split}
						sources[to] = append(sources[to], cell)
					}
				}
			}
		}
	}
	done := make(map[string]Figures) // slices of the same cells have the same figures
	var all []Figures
	for _, to := range slices.SortedFunc(maps.Keys(sources), compareCells) {
		from := sources[to]
		slices.SortFunc(from, compareCells)
		key := sourceKey(to, from)
		figures, ok := done[key]
		if !ok {
			figures = figuresOf(to, t.pool(from), seed)
			done[key] = figures
		}
		figures.Cell = to
		all = append(all, figures)
	}
	return all
}

// poolsOf are the tools that a cell counts in.
func poolsOf(cell Cell) []Cell {
	if cell.Tool == "" {
		return []Cell{{}}
	}
	return []Cell{{Environment: cell.Environment, Tool: cell.Tool}, {Tool: AllTools}}
}

func compareCells(a, b Cell) int {
	return cmp.Or(
		cmp.Compare(a.Version, b.Version), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Split, b.Split),
		cmp.Compare(a.Environment, b.Environment), cmp.Compare(a.Tool, b.Tool))
}

func sourceKey(to Cell, from []Cell) string {
	var b strings.Builder
	b.WriteString(strconv.FormatBool(to.Tool == ""))
	for _, c := range from {
		b.WriteString("\x00" + c.Environment + "\x00" + c.Version + "\x00" + c.Tool + "\x00" + string(c.Mode) + "\x00" + string(c.Split))
	}
	return b.String()
}

// pool merges the prompt groups of several cells: a group stays one cluster,
// however many cells it is in.
func (t *Tally) pool(from []Cell) map[string]Counters {
	if len(from) == 1 {
		return t.cells[from[0]]
	}
	sum := make(map[string]Counters)
	for _, cell := range from {
		for group, c := range t.cells[cell] {
			if sum[group] == nil {
				sum[group] = make(Counters, len(c))
			}
			sum[group].Merge(c)
		}
	}
	return sum
}

// maxResampled is how many clusters are resampled: with more of them a bootstrap
// costs minutes and tells nothing new.
const maxResampled = 512

// coarsen merges prompt groups at random into at most maxResampled groups, which
// are as independent as they were (random groups; Wolter 2007, chapter 2).
func coarsen(groups map[string]Counters) map[string]Counters {
	if len(groups) <= maxResampled {
		return groups
	}
	coarse := make(map[string]Counters, maxResampled)
	for _, group := range sortedKeys(groups) {
		name := randomGroup(group, maxResampled)
		if coarse[name] == nil {
			coarse[name] = make(Counters, len(groups[group]))
		}
		coarse[name].Merge(groups[group])
	}
	return coarse
}

// randomGroup is the one of n groups that a prompt group falls into, the same
// every time.
func randomGroup(group string, n uint64) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(group))
	return strconv.FormatUint(h.Sum64()%n, 10)
}
