package proof

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"understudy/audit"
)

// Faults lists everything that makes the tasks unfit, with the task's id.
func (r *TaskReport) Faults() []string {
	var faults []string
	for _, result := range r.Results {
		for _, text := range result.Faults {
			faults = append(faults, result.Task+": "+text)
		}
		if result.Destroys {
			faults = append(faults, result.Task+": an agent that destroys whatever it can succeeds")
		}
	}
	return faults
}

// Survivors lists the mutants that no check noticed, with the task's id.
func (r *TaskReport) Survivors() []string {
	var found []string
	for _, result := range r.Results {
		for _, m := range result.Mutants {
			if !m.Killed && !m.Equivalent {
				found = append(found, fmt.Sprintf("%s: %s: %s", result.Task, m.Kind, m.Text))
			}
		}
	}
	return found
}

// Print writes the report as a table that a person can read.
func (r *TaskReport) Print(out io.Writer) {
	solvable, idle, destroyers := 0, 0, 0
	for _, result := range r.Results {
		if len(result.Faults) == 0 {
			solvable++
		}
		if result.Idle {
			idle++
		}
		if result.Destroys {
			destroyers++
		}
	}
	fmt.Fprintf(out, "tasks      %d, of which %d are solved by their reference and fail untouched\n", len(r.Results), solvable)
	fmt.Fprintf(out, "agents     idle succeeds on %d, destroyer on %d\n", idle, destroyers)
	if len(r.Results) == 0 {
		fmt.Fprintln(out, "kill rate  none: without tasks nothing is checked")
		return
	}
	if len(r.Killed)+len(r.Survived) == 0 {
		fmt.Fprintln(out, "kill rate  none: no solution could be spoiled")
		return
	}
	fmt.Fprintf(out, "kill rate  %.1f %%\n", 100*r.KillRate())
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "  mutation\tkilled\tsurvived\tsame end\t")
	for _, m := range Mutations() {
		fmt.Fprintf(table, "  %s\t%d\t%d\t%d\t\n", m, r.Killed[m], r.Survived[m], r.Equivalent[m])
	}
	table.Flush()
}

// Families lists the families that the domain's rules refused with, in the order
// of the confusion matrix.
func (r *SoakReport) Families() []audit.Family {
	var found []audit.Family
	for _, f := range audit.Families() {
		for _, tally := range r.Tools {
			if tally.Families[f] > 0 {
				found = append(found, f)
				break
			}
		}
	}
	return found
}

// Unreached lists the tools that never answered ok, and the writing tools that
// never wrote: what the soak says nothing about.
func (r *SoakReport) Unreached(tools []audit.Tool) []string {
	var found []string
	for _, t := range tools {
		tally := r.Tools[t.Name]
		switch {
		case tally == nil || tally.OK == 0:
			found = append(found, t.Name+" never succeeded")
		case t.Effect == audit.Write && tally.Wrote == 0:
			found = append(found, t.Name+" never wrote")
		}
	}
	return found
}

// Print writes the report as a table that a person can read.
func (r *SoakReport) Print(out io.Writer) {
	rate := float64(r.Calls) / max(r.Elapsed.Seconds(), 1e-9)
	fmt.Fprintf(out, "soak       %d calls in %.1f s (%.0f calls/s), %d findings\n", r.Calls, r.Elapsed.Seconds(), rate, len(r.Findings))
	names := make([]string, 0, len(r.Tools))
	for name := range r.Tools {
		names = append(names, name)
	}
	slices.Sort(names)
	families := r.Families()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := []string{"  tool", "ok", "empty", "wrote"}
	for _, f := range families {
		head = append(head, string(f))
	}
	fmt.Fprintln(table, strings.Join(head, "\t")+"\t")
	for _, name := range names {
		tally := r.Tools[name]
		fmt.Fprintf(table, "  %s\t%d\t%d\t%d\t", name, tally.OK, tally.Empty, tally.Wrote)
		for _, f := range families {
			fmt.Fprintf(table, "%d\t", tally.Families[f])
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	for _, f := range r.Findings {
		fmt.Fprintf(out, "finding    session %d, call %d: %s %s: %s\n", f.Session, f.Number, f.Call.Tool, f.Call.Arguments, f.Text)
	}
}
