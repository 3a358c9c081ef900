package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/trace"
)

func reportCommand() command {
	return command{
		name: "report", args: "[RUN]", summary: "print a run's figures, or export its episodes with their verdicts; without RUN, list the runs",
		example: "understudy report monday --format atif --episode retail-task-0",
		setup: func(fs *flag.FlagSet) runFunc {
			format := fs.String("format", "table", "table, json, atif (one episode), or otel (one episode)")
			episode := fs.String("episode", "", "episode to export")
			folder := fs.String("bundle", "", "write the dashboard's pages of the run into this folder: a site that needs no server and no script")
			return func(ctx context.Context, inv *invocation) error {
				if *folder != "" && len(inv.args) != 1 {
					return usageError("--bundle writes the pages of one run", "name it: understudy report RUN --bundle "+*folder)
				}
				if *folder != "" {
					return bundleRun(ctx, inv, *folder, inv.args[0])
				}
				return reportRun(ctx, inv, *format, *episode)
			}
		},
	}
}

func reportRun(ctx context.Context, inv *invocation, format, episode string) error {
	if len(inv.args) > 1 {
		return usageError("report takes one run", "understudy report RUN; without RUN it lists the runs")
	}
	if !slices.Contains([]string{"table", "json", "atif", "otel"}, format) {
		return usageError("--format "+format, suggest(format, []string{"table", "json", "atif", "otel"}))
	}
	if len(inv.args) == 0 {
		return listRuns(ctx, inv, format)
	}
	if slices.Contains([]string{"atif", "otel"}, format) && episode == "" {
		return usageError("--format "+format+" exports one episode", "name it: --episode ID")
	}
	return withLedger(ctx, inv, func(l *ledger.Ledger) error {
		run := inv.args[0]
		switch format {
		case "table":
			return printRun(ctx, inv, l, run)
		case "json":
			tally, err := l.Tally(ctx, run)
			if err != nil {
				return err
			}
			encoder := json.NewEncoder(inv.stdout)
			encoder.SetIndent("", "  ")
			return encoder.Encode(tally.Figures(figureSeed))
		}
		pairs, err := l.EpisodePairs(ctx, run, episode)
		if err != nil {
			return err
		}
		if format == "otel" {
			return trace.WriteOTel(inv.stdout, pairs)
		}
		return trace.WriteATIF(inv.stdout, pairs)
	})
}

// figureSeed is the bootstrap's: the same counts always print the same bounds.
const figureSeed = 1

// printRun prints what a run found, for people.
func printRun(ctx context.Context, inv *invocation, l *ledger.Ledger, name string) error {
	run, err := l.RunByName(ctx, name)
	if err != nil {
		return err
	}
	tally, err := l.Tally(ctx, name)
	if err != nil {
		return err
	}
	figures := tally.Figures(figureSeed)
	if err := printFigures(inv.stdout, figures); err != nil {
		return err
	}
	printEpisodes(inv.stdout, figures)
	printTotals(inv.stdout, run, figures)
	fmt.Fprintf(inv.stdout, "run %s: understudy report %s\n", name, audit.ShellWord(name))
	return nil
}

// printTotals says what became of every action of a run.
func printTotals(w io.Writer, run audit.Run, figures []audit.Figures) {
	scored, cascaded := 0, 0
	masked := map[audit.MaskReason]int{}
	var environments []string
	for i := range figures {
		if f := &figures[i]; f.Tool != "" && f.Split == audit.AllTasks {
			scored, cascaded = scored+f.Scored, cascaded+f.Cascaded
			for reason, n := range f.Masked {
				masked[reason] += n
			}
			environments = append(environments, f.Environment+"@"+f.Version)
		}
	}
	fmt.Fprintf(w, "%d episodes, %d actions, %d results: %d scored", run.Episodes, run.Samples, run.Results, scored)
	for _, extra := range []struct {
		n    int
		what string
	}{
		{cascaded, "after their episode's worlds had forked"},
		{run.Open, "open"},
		{run.Dead, "given up"},
		{run.Undetermined, "without an answer"},
		{run.Conflicts, "in conflict"},
	} {
		if extra.n > 0 {
			fmt.Fprintf(w, ", %d %s", extra.n, extra.what)
		}
	}
	fmt.Fprintln(w)
	if len(masked) > 0 {
		var reasons []string
		for _, reason := range slices.Sorted(maps.Keys(masked)) {
			reasons = append(reasons, fmt.Sprintf("%s %d", reason, masked[reason]))
		}
		fmt.Fprintln(w, "masked:", strings.Join(reasons, ", "))
		if masked[audit.MaskRehearseUnavailable] > 0 {
			fmt.Fprintln(w, "the model gave no answer to those: open one of the calls in the dashboard; of a server, understudy probe URL says why")
		}
	}
	if slices.Sort(environments); len(environments) > 0 {
		fmt.Fprintln(w, "on", strings.Join(slices.Compact(environments), ", "))
	}
}
