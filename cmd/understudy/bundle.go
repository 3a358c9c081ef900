package main

import (
	"context"
	"fmt"
	"time"

	"understudy/audit/ledger"
	"understudy/web"
	"understudy/web/bundle"
)

// bundleRun writes a run's pages into a folder, for a browser without a server.
func bundleRun(ctx context.Context, inv *invocation, dir, run string) error {
	return withLedger(ctx, inv, func(l *ledger.Ledger) error {
		if err := l.Summarize(ctx, run); err != nil {
			return err
		}
		handler := web.New(web.Config{ //nolint:contextcheck // a handler takes the contexts of its requests
			Version: versionText(), Store: l, Figures: l, Gates: l, Logger: inv.log,
			Ready: func(context.Context) error { return nil },
		})
		report, err := bundle.Write(ctx, bundle.Config{Handler: handler, Run: run, Dir: dir, Now: time.Now()})
		if err != nil {
			return err
		}
		const mebibyte = 1 << 20
		fmt.Fprintf(inv.stdout, "wrote %d pages, %.1f MiB; open %s/index.html\n", report.Pages, float64(report.Bytes)/mebibyte, dir)
		if report.LeftOut > 0 {
			fmt.Fprintf(inv.stdout, "left out %d further pages that they point to, to bound the size\n", report.LeftOut)
		}
		return nil
	})
}
