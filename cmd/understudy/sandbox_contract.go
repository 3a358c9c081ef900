package main

import (
	"context"
	"fmt"
	"strings"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/sandbox"
)

// sandboxContract prints what an auditor relies on, tried on the environment.
func sandboxContract(ctx context.Context, inv *invocation, envs *environments, args []string, f sandboxFlags) error {
	env, err := envs.Environment(ctx, args[0])
	if err != nil {
		return err
	}
	report, err := sandbox.Contract(ctx, env)
	if err != nil {
		return err
	}
	report.Ref, _, _ = strings.Cut(args[0], "@")
	if f.save {
		if err := saveContract(ctx, inv, audit.Contract(report)); err != nil {
			return err
		}
	}
	if f.json {
		err = printJSON(inv.stdout, report)
	} else {
		_, err = fmt.Fprint(inv.stdout, report.Table())
	}
	if err == nil && !report.OK() {
		err = &gateError{status: exitFailed, text: args[0] + " breaks its contract"}
	}
	return err
}

// saveContract keeps a contract in the ledger, for the dashboard.
func saveContract(ctx context.Context, inv *invocation, c audit.Contract) error {
	return withLedger(ctx, inv, func(l *ledger.Ledger) error {
		return l.SaveContract(ctx, c)
	})
}
