package ledger_test

import (
	"testing"
	"time"
)

// Commits of one prompt group meet in its counters. One that waits for something
// else on its way does not hold them.
func TestCommitsLockCountersLast(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	first := newEpisode(0, 12)
	if _, err := b.Commit(ctx, b.run, auditEpisode(&first)); err != nil {
		t.Fatal(err)
	}
	job := b.enqueue(t, newEpisode(1, 12)) // of the same group, and of the same tools
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// Whoever announces the episode waits until this announcement stands, or does not.
	if _, err := tx.Exec(ctx, `INSERT INTO outbox (run, topic, episode, attempt, payload) SELECT run, 'result', episode, 1, '{}' FROM outbox WHERE episode = $1`, job.ID[:]); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.Finish(ctx, job, auditEpisode(job.Episode))
		done <- err
	}()
	const waiting = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
	for deadline := time.Now().Add(patience); b.number(t, waiting) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the second commit does not come to its announcement")
		}
	}
	if _, err := b.pool.Exec(ctx, `SELECT FROM rollup FOR UPDATE NOWAIT`); err != nil {
		t.Errorf("a commit that waits to announce: %v; want its group's counters free", err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.verify(t)
}
