package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"understudy/audit/ledger"
)

func verifyCommand() command {
	return command{
		name: "verify", summary: "recount the ledger and fail loudly on any disagreement",
		example: "understudy verify",
		setup:   func(*flag.FlagSet) runFunc { return verify },
	}
}

// verify prints what was counted, as JSON, and fails when it does not add up.
func verify(ctx context.Context, inv *invocation) error {
	return withLedger(ctx, inv, func(books *ledger.Ledger) error {
		report, err := books.Verify(ctx)
		if err != nil {
			return fmt.Errorf("recount the ledger: %w", err)
		}
		encoder := json.NewEncoder(inv.stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(report); err != nil {
			return fmt.Errorf("print the counts: %w", err)
		}
		return report.Err()
	})
}
