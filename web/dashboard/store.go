package dashboard

import (
	"context"
	"time"

	"understudy/audit"
)

// Store is all that the pages read and write; package ledger implements it. A
// thing that is not there is an *audit.Error with CodeNotFound. Every list is
// paged by the store.
type Store interface {
	Runs
	Summaries
}

// Runs finds runs.
type Runs interface {
	// RunHeads lists the newest runs, newest first.
	RunHeads(ctx context.Context, limit int) ([]audit.RunHead, error)
	// RunHead finds one run by name.
	RunHead(ctx context.Context, name string) (audit.RunHead, error)
}

// Summaries reads figures that are computed already.
type Summaries interface {
	// Summary reads a slice of a run's figures. A run without any has no Tools.
	Summary(ctx context.Context, run string, slice audit.Slice) (audit.Summary, error)
	// Computed says when a run's figures were computed; zero = never.
	Computed(ctx context.Context, run string) (time.Time, error)
	// Pooled reads the figures over all tools of several runs, in the order of names.
	Pooled(ctx context.Context, runs []string, slice audit.Slice) ([]audit.Summary, error)
}
