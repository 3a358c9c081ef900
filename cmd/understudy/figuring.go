package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"understudy/audit/ledger"
)

const (
	// figuringPeriod is how long a page's figures lag behind a small run.
	figuringPeriod = time.Second
	// figuringRest bounds the load: figures that took a second to compute are
	// computed again after ten at the earliest.
	figuringRest = 10
)

// figuring keeps the figures that pages read up to date with what was audited,
// beside the service.
type figuring struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func startFiguring(ctx context.Context, l *ledger.Ledger, log *slog.Logger) *figuring {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &figuring{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.run(ctx, l, log)
	}()
	return f
}

func (f *figuring) stop() {
	f.cancel()
	<-f.done
}

func (f *figuring) run(ctx context.Context, l *ledger.Ledger, log *slog.Logger) {
	rest := map[string]time.Time{} // runs that are too dear to compute now
	for {
		if err := refreshFigures(ctx, l, rest); err != nil && !errors.Is(err, context.Canceled) {
			log.WarnContext(ctx, "figures not computed", slog.Any("error", err))
		}
		timer := time.NewTimer(figuringPeriod)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func refreshFigures(ctx context.Context, l *ledger.Ledger, rest map[string]time.Time) error {
	if err := l.EndMarks(ctx); err != nil {
		return err
	}
	stale, err := l.Stale(ctx)
	if err != nil {
		return err
	}
	for _, run := range stale {
		began := time.Now()
		if began.Before(rest[run]) {
			continue
		}
		if err := l.ApplyMarks(ctx, run); err != nil {
			return err
		}
		if err := l.Summarize(ctx, run); err != nil {
			return err
		}
		rest[run] = time.Now().Add(figuringRest * time.Since(began))
	}
	return nil
}
