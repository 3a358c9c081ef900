package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"understudy/audit"
	"understudy/audit/stat"
)

// printFigures prints one line a tool, worst first: the most material errors,
// then the highest false-success rate. Every number stands with what it rests on.
func printFigures(w io.Writer, all []audit.Figures) error {
	tools := slices.DeleteFunc(slices.Clone(all), func(f audit.Figures) bool {
		return f.Tool == "" || f.Split != audit.AllTasks
	})
	if len(tools) == 0 {
		_, err := fmt.Fprintln(w, "no call has a verdict yet")
		return err
	}
	slices.SortStableFunc(tools, func(a, b audit.Figures) int {
		return cmp.Or(
			-cmp.Compare(badness(a.Value(string(audit.FigureMaterial))), badness(b.Value(string(audit.FigureMaterial)))),
			-cmp.Compare(badness(a.Value(string(audit.FigureFSR))), badness(b.Value(string(audit.FigureFSR)))),
		)
	})
	table := columns{left: 2}
	table.add("tool", "mode", "n", "n_eff", "outcome", "FSR [95 %]", "refused", "F1", "effect", "S0", "S1", "S2", "S3", "S4", "S5", "masked")
	for i := range tools {
		f := &tools[i]
		outcome, fsr := f.Value(string(audit.FigureOutcome)), f.Value(string(audit.FigureFSR))
		cells := []string{
			toolName(tools, f), string(f.Mode), strconv.Itoa(f.Scored), effective(outcome), percent(outcome), bounded(fsr), count(fsr.N),
			percent(f.Value(string(audit.FigureLeafF1))), percent(f.Value(string(audit.FigureEffectF1))),
		}
		for _, n := range f.Ladder {
			cells = append(cells, count(n))
		}
		table.add(append(cells, share(f.MaskedShare()))...)
	}
	if err := table.print(w); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, `
In %, worst tool first: the largest share of S3 to S5. outcome = same outcome class. FSR = P(rehearsed ok | the
sandbox refuses); refused = how often it did. F1 of the fields of ok answers, effect F1 of writes. S0 exact,
S1 cosmetic, S2 minor, S3 material, S4 false error or wrong family, S5 false success. outcome and FSR: Wilson on
n_eff = n/deff, clustered by prompt group; F1: means. Masked calls have no verdict and count in no figure.
`)
	return err
}

// toolName says which environment and version a tool is of, where the run has
// several.
func toolName(all []audit.Figures, f *audit.Figures) string {
	name := f.Tool
	if slices.ContainsFunc(all, func(other audit.Figures) bool { return other.Environment != f.Environment }) {
		name = f.Environment + "/" + name
	}
	if slices.ContainsFunc(all, func(other audit.Figures) bool { return other.Version != f.Version }) {
		name += " @" + f.Version
	}
	return name
}

// badness orders what is not defined after everything that is.
func badness(e stat.Estimate) float64 {
	if !e.Defined() {
		return -1
	}
	return e.Value
}

func percent(e stat.Estimate) string {
	if !e.Defined() {
		return "-"
	}
	return share(e.Value)
}

func bounded(e stat.Estimate) string {
	if !e.Defined() {
		return "-"
	}
	return fmt.Sprintf("%s [%s, %s]", share(e.Value), share(e.Lo), share(e.Hi))
}

func share(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "-"
	}
	text := fmt.Sprintf("%.1f", 100*x)
	switch { // all and none are never rounded to
	case x < 1 && text == "100.0":
		return ">99.9"
	case x > 0 && text == "0.0":
		return "<0.1"
	}
	return text
}

func effective(e stat.Estimate) string {
	switch {
	case !e.Defined():
		return "-"
	case e.NEff < 1: // few prompts that fare differently say little about the next
		return "<1"
	}
	return fmt.Sprintf("%.0f", e.NEff)
}

// count prints nothing as a dot, so that what happened stands out.
func count(n int) string {
	if n == 0 {
		return "·"
	}
	return strconv.Itoa(n)
}

// columns is a table whose first columns are texts and whose others are numbers.
type columns struct {
	left int // how many are aligned to the left
	rows [][]string
}

// add adds a row. Names in it come from models and files: what could move a
// terminal's cursor becomes visible, and a cell stays on its line.
func (c *columns) add(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = strings.NewReplacer("\n", "␊", "\t", "␉").Replace(audit.Plain(cell))
	}
	c.rows = append(c.rows, row)
}

func (c *columns) print(w io.Writer) error {
	var widths []int
	for _, row := range c.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range c.rows {
		var line strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i < c.left {
				line.WriteString(cell + gap + "  ")
			} else {
				line.WriteString(gap + cell + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printEpisodes prints what belongs to whole rollouts, one block a mode.
func printEpisodes(w io.Writer, all []audit.Figures) {
	for _, f := range all {
		if f.Tool != "" || f.Split != audit.AllTasks {
			continue
		}
		var parts []string
		if e := f.Value("survival_5"); e.Defined() {
			parts = append(parts, fmt.Sprintf("%s %% of %d rollouts are without a material difference (S3+) for 5 calls", bounded(e), e.N))
		}
		if e := f.Value("imagination_gap"); e.Defined() {
			parts = append(parts, fmt.Sprintf("imagination gap %+.1f [%+.1f, %+.1f] points of success, rehearsed - executed", 100*e.Value, 100*e.Lo, 100*e.Hi))
		}
		if e := f.Value("consistency_ratio"); e.Defined() {
			parts = append(parts, fmt.Sprintf("consistency ratio %.2f [%.2f, %.2f], executed / rehearsed", e.Value, e.Lo, e.Hi))
		}
		for _, part := range parts {
			fmt.Fprintf(w, "%s %s: %s\n", f.Environment, f.Mode, part)
		}
	}
}
