package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/envace/eval"
)

// printPlayed prints one line a benchmark, then what the numbers mean.
func printPlayed(w io.Writer, played []eval.Played, overall *eval.Overall) error {
	table := columns{left: 3}
	most, tools := 0, false
	for _, p := range played {
		most, tools = max(most, len(p.Figures.PassHat)), tools || p.Figures.Tools != nil
	}
	head := []string{"benchmark", "column", "policy", "tasks", "samples", "unknown", "Avg@n [95 %]", "n_eff"}
	for k := 2; k <= most; k++ {
		head = append(head, fmt.Sprintf("pass^%d", k))
	}
	head = append(head, "score")
	if tools {
		head = append(head, "TR", "TP", "TF1 [95 %]")
	}
	table.add(append(head, "tokens", "calls", "idle")...)
	for i := range played {
		table.add(playedCells(&played[i], most, tools)...)
	}
	if err := table.print(w); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("\nIn %. Avg@n: the share of samples that did the task, Wilson on n_eff = n/deff, clustered by task. " + eval.PassHatFormula +
		".\nscore: mean share of a task that was done, beyond what holds at the start. idle: tasks that hold before anything is done.\n" +
		"tokens and calls: means a sample. unknown: samples that a server or a world failed; they count in no figure, and the next run plays them again.\n")
	if tools {
		b.WriteString(eval.ToolFormula + "; intervals by bootstrap over tasks.\n")
	}
	for _, p := range played {
		var ends []string
		for _, c := range p.Figures.Stops {
			ends = append(ends, c.String())
		}
		fmt.Fprintf(&b, "%s ended: %s\n", p.Run.Benchmark, strings.Join(ends, ", "))
		for _, c := range p.Figures.Why {
			why, _, _ := strings.Cut(c.What, "\n")
			fmt.Fprintf(&b, "%s: unknown, %d times: %s\n", p.Run.Benchmark, c.Times, why)
		}
		if !p.Run.Rules.IsZero() {
			fmt.Fprintf(&b, "%s: answers are read by %s\n", p.Run.Benchmark, audit.RulesName(p.Run.Rules))
		}
		if p.Run.Notes != "" {
			fmt.Fprintf(&b, "%s: %s\n", p.Run.Benchmark, p.Run.Notes)
		}
	}
	if overall != nil {
		writeOverall(&b, *overall)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func playedCells(p *eval.Played, most int, tools bool) []string {
	f := &p.Figures
	column := string(p.Run.Column)
	if column == "" {
		column = "-"
	}
	samples := strconv.Itoa(f.Samples)
	if !p.Run.Complete(*f) {
		samples += fmt.Sprintf("/%d", p.Run.TaskCount*p.Run.Samples)
	}
	cells := []string{p.Run.Benchmark, column, p.Run.Policy, strconv.Itoa(f.Tasks), samples, count(f.Unknown), bounded(f.Average), effective(f.Average)}
	for k := 2; k <= most; k++ {
		cell := "-"
		if k <= len(f.PassHat) {
			cell = percent(f.PassHat[k-1])
		}
		cells = append(cells, cell)
	}
	cells = append(cells, percent(f.Score))
	switch {
	case tools && f.Tools != nil:
		cells = append(cells, percent(f.Tools.Recall), percent(f.Tools.Precision), bounded(f.Tools.F1))
	case tools:
		cells = append(cells, "-", "-", "-")
	}
	return append(cells, fmt.Sprintf("%.0f", f.Tokens), fmt.Sprintf("%.1f", f.Calls), count(f.Initial))
}

func writeOverall(b *strings.Builder, o eval.Overall) {
	b.WriteString("\n")
	for _, c := range o.Columns {
		fmt.Fprintf(b, "%-5s %s  (%s)\n", c.Column, bounded(c.Average), strings.Join(c.Benchmarks, ", "))
	}
	fmt.Fprintf(b, "Overall %s of %s: %s.\n", bounded(o.Average), o.Policy, eval.OverallFormula)
	b.WriteString("The paper's columns are BFCL v4, τ² and VitaBench whole; ours are what stands in brackets, and compare with the paper's only where they are the same.\n")
}
