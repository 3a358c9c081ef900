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
	Calls
	Episodes
	Marks
	Operations
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

// Calls reads audited calls.
type Calls interface {
	// Calls lists a run's calls, worst first.
	Calls(ctx context.Context, run string, f audit.CallFilter, page audit.Page) ([]audit.CallLine, string, error)
	// Call reads one call with what surrounds it.
	Call(ctx context.Context, run string, key audit.Digest) (audit.CallRecord, error)
	// Fields lists how a tool's calls differ, most frequent first.
	Fields(ctx context.Context, run, tool string, slice audit.Slice) ([]audit.Field, error)
	// ToolFigures reads one tool's figures in every slice that the run has.
	ToolFigures(ctx context.Context, run, environment, tool string) ([]audit.Figures, error)
	// Trend reads the tools' figures of several runs, in the order of names.
	Trend(ctx context.Context, runs []string, slice audit.Slice) ([]audit.Summary, error)
}

// Episodes reads rollouts.
type Episodes interface {
	EpisodeRecord(ctx context.Context, run string, id audit.Digest) (audit.EpisodeRecord, error)
	// EpisodeCalls lists the calls of a rollout in their order.
	EpisodeCalls(ctx context.Context, run string, id audit.Digest, page audit.Page) ([]audit.CallLine, string, error)
	// Branches lists the rollouts of one prompt, each with its first calls.
	Branches(ctx context.Context, run, group string) ([]audit.EpisodeRecord, error)
}

// Marks keeps what people say about calls.
type Marks interface {
	// AddMark keeps a mark and returns how many calls of its run it took out of the figures.
	AddMark(ctx context.Context, m audit.Mark) (int, error)
	RevokeMark(ctx context.Context, id int) error
}
