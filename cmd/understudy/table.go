package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"understudy/audit"
	"understudy/audit/stat"
)

// printFigures prints one line a tool, worst first: the most material errors,
// then the highest false-success rate. Every number stands with what it rests on.
func printFigures(w io.Writer, all []audit.Figures) error {
	tools := slices.DeleteFunc(slices.Clone(all), func(f audit.Figures) bool {
		return f.Tool == "" || f.Split != audit.AllTasks
	})
	slices.SortStableFunc(tools, func(a, b audit.Figures) int {
		return cmp.Or(
			-cmp.Compare(badness(a.Value(string(audit.FigureMaterial))), badness(b.Value(string(audit.FigureMaterial)))),
			-cmp.Compare(badness(a.Value(string(audit.FigureFSR))), badness(b.Value(string(audit.FigureFSR)))),
		)
	})
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "tool\tmode\tn\tn_eff\toutcome\tFSR [95 %]\tF1\teffect F1\tS0 S1 S2 S3 S4 S5\tmasked")
	for _, f := range tools {
		outcome := f.Value(string(audit.FigureOutcome))
		fmt.Fprintf(table, "%s\t%s\t%d\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\n",
			toolName(f), f.Mode, f.Scored, outcome.NEff, percent(outcome), bounded(f.Value(string(audit.FigureFSR))),
			percent(f.Value(string(audit.FigureLeafF1))), percent(f.Value(string(audit.FigureEffectF1))),
			ladder(f), share(f.MaskedShare()))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nFSR = P(rehearsed ok | the sandbox refuses). outcome and FSR: Wilson on n/deff; F1: bootstrap; clustered by prompt group.")
	return err
}

// toolName says which version a tool is of, where that matters.
func toolName(f audit.Figures) string {
	if f.Version == "" || f.Version == "1" {
		return f.Tool
	}
	return f.Tool + " @" + f.Version
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
		return "- (no refusals)"
	}
	return fmt.Sprintf("%s [%s, %s] n=%d", share(e.Value), share(e.Lo), share(e.Hi), e.N)
}

func share(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

func ladder(f audit.Figures) string {
	rungs := make([]string, len(f.Ladder))
	for i, n := range f.Ladder {
		rungs[i] = fmt.Sprintf("%2d", n)
	}
	return strings.Join(rungs, " ")
}

// printEpisodes prints what belongs to whole rollouts, one block a mode.
func printEpisodes(w io.Writer, all []audit.Figures) {
	for _, f := range all {
		if f.Tool != "" || f.Split != audit.AllTasks {
			continue
		}
		var parts []string
		for _, name := range []string{"survival_5", "imagination_gap", "consistency_ratio"} {
			if e := f.Value(name); e.Defined() {
				parts = append(parts, fmt.Sprintf("%s %.2f [%.2f, %.2f]", strings.ReplaceAll(name, "_", " "), e.Value, e.Lo, e.Hi))
			}
		}
		if len(parts) > 0 {
			fmt.Fprintf(w, "%s %s: %s\n", f.Environment, f.Mode, strings.Join(parts, ", "))
		}
	}
}
