package queue

import (
	"context"
	"log/slog"
	"time"

	"understudy/audit"
)

// logFailure says that a service will try again: once loudly, then quietly.
func logFailure(ctx context.Context, log *slog.Logger, what string, failures int, err error) {
	level := slog.LevelDebug
	if failures == 1 {
		level = slog.LevelWarn
	}
	log.LogAttrs(ctx, level, "queue service tries again", slog.String("service", what), slog.Int("failures", failures), slog.Any("error", err))
}

// logBurial says that a job was given up.
func logBurial(ctx context.Context, log *slog.Logger, job audit.Job, b audit.Burial) {
	log.LogAttrs(ctx, slog.LevelWarn, "job given up", slog.String("run", job.Run), slog.String("job", job.ID.String()),
		slog.Int("attempt", job.Attempt), slog.Int("deliveries", b.Delivery), slog.String("fault", string(b.Fault)), slog.String("reason", b.Reason))
}

// logBatch says what one commit stored.
func logBatch(ctx context.Context, log *slog.Logger, level slog.Level, finished []audit.Finished, receipts []audit.Receipt, took time.Duration) {
	var sum audit.Receipt
	duplicates, late := 0, 0
	for _, r := range receipts {
		sum.Inserted, sum.Known, sum.Conflicts = sum.Inserted+r.Inserted, sum.Known+r.Known, sum.Conflicts+r.Conflicts
		if r.Duplicate {
			duplicates++
		}
		if r.Late {
			late++
		}
	}
	log.LogAttrs(ctx, level, "batch committed", slog.String("run", finished[0].Job.Run), slog.Int("jobs", len(finished)),
		slog.Int("actions", sum.Inserted), slog.Int("known_actions", sum.Known), slog.Int("conflicts", sum.Conflicts),
		slog.Int("duplicate_jobs", duplicates), slog.Int("late_jobs", late), slog.Duration("took", took))
}

// logNewer says, once a worker, that this program is older than another one.
func logNewer(ctx context.Context, log *slog.Logger, err *audit.NewerJobError) {
	log.LogAttrs(ctx, slog.LevelWarn, "jobs of a newer program are left to its workers; update this one",
		slog.Int("message_version", err.Version), slog.Int("known_version", audit.JobVersion))
}
