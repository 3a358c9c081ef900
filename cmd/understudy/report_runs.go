package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"understudy/audit"
	"understudy/audit/ledger"
)

// listRuns prints the ledger's newest runs, so that one can be named; as JSON,
// what the API lists.
func listRuns(ctx context.Context, inv *invocation, format string) error {
	if format != "table" && format != "json" {
		return usageError("--format "+format+" exports one episode of one run", "name both: understudy report RUN --format "+format+" --episode ID")
	}
	return withLedger(ctx, inv, func(l *ledger.Ledger) error {
		runs, older, err := l.Runs(ctx, audit.Page{})
		if err != nil {
			return err
		}
		if format == "json" {
			encoder := json.NewEncoder(inv.stdout)
			encoder.SetIndent("", "  ")
			return encoder.Encode(runs)
		}
		if len(runs) == 0 {
			fmt.Fprintln(inv.stdout, "no run yet; understudy audit, import and demo make one")
			return nil
		}
		table := tabwriter.NewWriter(inv.stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintln(table, "RUN\tPOLICY\tSTEP\tSTATE\tEPISODES\tACTIONS\tRESULTS\tSTARTED")
		for i := range runs {
			r := &runs[i]
			fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%s\n", r.Name, r.Policy, r.Checkpoint, r.State, r.Episodes, r.Samples, r.Results, r.Started.Local().Format(time.DateTime))
		}
		if err := table.Flush(); err != nil {
			return err
		}
		if older != "" {
			fmt.Fprintln(inv.stdout, "and older ones: the dashboard lists them")
		}
		return nil
	})
}
