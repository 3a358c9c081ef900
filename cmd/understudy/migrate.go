package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
)

func migrateCommand() command {
	return command{
		name: "migrate", summary: "bring the ledger's schema up to date (every start does)",
		example: "understudy migrate --database-url postgres://auditor@db.example/ledger",
		setup:   func(*flag.FlagSet) runFunc { return migrate },
	}
}

func migrate(ctx context.Context, inv *invocation) error {
	r, err := openLedger(ctx, inv.config, inv.log)
	if err != nil {
		return err
	}
	for _, name := range r.schema.Applied {
		fmt.Fprintln(inv.stdout, "applied", name)
	}
	fmt.Fprintf(inv.stdout, "schema version %d, was %d\n", r.schema.To, r.schema.From)
	return errors.Join(r.close(ctx))
}
