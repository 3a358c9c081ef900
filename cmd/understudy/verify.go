package main

import (
	"context"
	"encoding/json"
	"errors"
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
func verify(ctx context.Context, inv *invocation) (err error) {
	r, err := openLedger(ctx, inv.config, inv.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	books, err := ledger.New(r.pool, ledger.Config{})
	if err != nil {
		return err
	}
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
}
