package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"text/tabwriter"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/envace/remote"
)

func probeCommand() command {
	return command{
		name: "probe", args: "URL", summary: "ask a model server what it can do, and say what each lack costs",
		example: "understudy probe http://127.0.0.1:8000/v1",
		setup: func(fs *flag.FlagSet) runFunc {
			var p policyFlags
			fs.StringVar(&p.model, "model", "", "model to ask for; needed when the server serves several")
			asJSON := fs.Bool("json", false, "print JSON")
			save := fs.Bool("save", false, "keep the answers, for the dashboard")
			return func(ctx context.Context, inv *invocation) error { return probe(ctx, inv, p, *asJSON, *save) }
		},
	}
}

func probe(ctx context.Context, inv *invocation, p policyFlags, asJSON, save bool) error {
	if len(inv.args) != 1 {
		return usageError("probe needs the server's base URL", "understudy probe http://127.0.0.1:8000/v1")
	}
	p.url = inv.args[0]
	policy, err := p.remote(inv.config)
	if err != nil {
		return err
	}
	caps, err := policy.Probe(ctx)
	if err != nil {
		return err
	}
	if save {
		if err := saveProbe(ctx, inv, caps); err != nil {
			return err
		}
	}
	if asJSON {
		encoder := json.NewEncoder(inv.stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(caps)
	}
	fmt.Fprintf(inv.stdout, "%s, model %s\n\n", caps.URL, caps.Model)
	table := tabwriter.NewWriter(inv.stdout, 0, 8, 2, ' ', 0)
	for _, row := range caps.Rows() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", row[0], row[1], row[2])
	}
	return table.Flush()
}

// saveProbe keeps the answers under the server's address, which may hold a
// password: that is left out.
func saveProbe(ctx context.Context, inv *invocation, caps remote.Capabilities) error {
	at, err := url.Parse(caps.URL)
	if err != nil {
		return usageError("the server's URL cannot be read", "understudy probe http://127.0.0.1:8000/v1")
	}
	at.User, at.RawQuery, at.Fragment = nil, "", ""
	return withLedger(ctx, inv, func(l *ledger.Ledger) error {
		return l.SaveEndpoint(ctx, audit.Endpoint{URL: at.String(), Model: caps.Model, Answers: caps.Rows()})
	})
}
