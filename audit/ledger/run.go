package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"understudy/audit"
)

// partitioned lists the tables that have one partition a run.
func partitioned() []string { return []string{"body", "action", "run_pair"} }

// CreateRun opens a run with its partitions. A name that is taken is CodeConflict.
func (l *Ledger) CreateRun(ctx context.Context, r audit.NewRun) (audit.Run, error) {
	if r.Name == "" || label(r.Name) != r.Name {
		return audit.Run{}, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("run name %q cannot be used", cut(label(r.Name), 60)),
			Hint: fmt.Sprintf("use 1 to %d bytes of UTF-8 without NUL", maxLabel),
		}
	}
	err := l.inTx(ctx, "create run", func(ctx context.Context, tx pgx.Tx) error {
		var id int32
		err := tx.QueryRow(ctx, `INSERT INTO run (name, policy, checkpoint, settings) VALUES ($1, $2, $3, $4) RETURNING id`,
			r.Name, label(r.Policy), r.Checkpoint, append([]byte{}, quoted(r.Settings)...)).Scan(&id)
		if err != nil {
			return err
		}
		for _, tag := range r.Tags {
			if _, err := tx.Exec(ctx, `INSERT INTO run_tag (run, tag) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, label(tag)); err != nil {
				return err
			}
		}
		return createPartitions(ctx, tx, id)
	})
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "23505" {
		return audit.Run{}, &audit.Error{Code: audit.CodeConflict, Message: fmt.Sprintf("run %q exists already", r.Name), Hint: "choose another name, or drop that run first", Err: err}
	}
	if err != nil {
		return audit.Run{}, err
	}
	return l.RunByName(ctx, r.Name)
}

// createPartitions makes the run's tables apart and then attaches them: that
// way running commits are not locked out.
func createPartitions(ctx context.Context, tx pgx.Tx, run int32) error {
	for _, table := range partitioned() {
		part := table + "_" + strconv.Itoa(int(run))
		for _, statement := range []string{
			`CREATE TABLE ` + part + ` (LIKE ` + table + ` INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES INCLUDING COMPRESSION)`,
			`ALTER TABLE ` + table + ` ATTACH PARTITION ` + part + ` FOR VALUES IN (` + strconv.Itoa(int(run)) + `)`,
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return fmt.Errorf("partition %s: %w", part, err)
			}
		}
	}
	return nil
}

// CompleteRun marks a run as complete: every episode has its answer. A run with
// open episodes is CodeConflict.
func (l *Ledger) CompleteRun(ctx context.Context, name string) error {
	tag, err := l.pool.Exec(ctx, `
		UPDATE run r SET state = 'complete', completed_at = now()
		WHERE name = $1 AND state = 'open' AND NOT EXISTS (SELECT FROM episode e WHERE e.run = r.id AND e.state = 'open')`, label(name))
	if err != nil {
		return fmt.Errorf("complete run %q: %w", name, err)
	}
	if tag.RowsAffected() == 1 {
		return nil
	}
	r, err := l.RunByName(ctx, name)
	if err != nil || r.State == audit.RunComplete {
		return err
	}
	return &audit.Error{Code: audit.CodeConflict, Message: fmt.Sprintf("run %q has %d open episodes", name, r.Open), Hint: "wait for the workers, or look at its dead letters"}
}

// TagRun gives a run one more name to be found by.
func (l *Ledger) TagRun(ctx context.Context, name, tag string) error {
	id, err := l.runID(ctx, name)
	if err != nil {
		return err
	}
	if _, err := l.pool.Exec(ctx, `INSERT INTO run_tag (run, tag) VALUES ($1, $2) ON CONFLICT DO NOTHING`, id, label(tag)); err != nil {
		return fmt.Errorf("tag run %q: %w", name, err)
	}
	return nil
}

const selectRuns = `
	SELECT r.id, r.name, r.policy, r.checkpoint, r.state, r.settings, r.created_at, r.completed_at,
		ARRAY(SELECT tag::text FROM run_tag t WHERE t.run = r.id ORDER BY tag),
		coalesce(e.episodes, 0), coalesce(e.open, 0), coalesce(e.done, 0), coalesce(e.dead, 0), coalesce(e.undetermined, 0),
		coalesce(e.samples, 0), coalesce(e.results, 0), coalesce(e.duplicates, 0), coalesce(e.late, 0),
		(SELECT count(*) FROM audit_conflict c WHERE c.run = r.id)
	FROM run r
	LEFT JOIN LATERAL (
		SELECT count(*) AS episodes, count(*) FILTER (WHERE state = 'open') AS open, count(*) FILTER (WHERE state = 'done') AS done,
			count(*) FILTER (WHERE state = 'dead') AS dead, count(*) FILTER (WHERE state = 'undetermined') AS undetermined,
			sum(samples) AS samples, sum(results) AS results, sum(duplicates) AS duplicates, sum(late) AS late
		FROM episode WHERE run = r.id
	) e ON true`

func scanRun(row pgx.CollectableRow) (audit.Run, error) {
	var (
		r         audit.Run
		completed pgxTime
	)
	err := row.Scan(&r.Number, &r.Name, &r.Policy, &r.Checkpoint, &r.State, &r.Settings, &r.Started, &completed, &r.Tags,
		&r.Episodes, &r.Open, &r.Done, &r.Dead, &r.Undetermined, &r.Samples, &r.Results, &r.Duplicates, &r.Late, &r.Conflicts)
	if completed != nil {
		r.Completed = *completed
	}
	return r, err
}

// RunByName reads a run with its progress.
func (l *Ledger) RunByName(ctx context.Context, name string) (audit.Run, error) {
	rows, err := l.pool.Query(ctx, selectRuns+` WHERE r.name = $1`, label(name))
	if err != nil {
		return audit.Run{}, fmt.Errorf("read run %q: %w", name, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanRun)
	return r, notFound(err, fmt.Sprintf("run %q", name), "understudy report lists the runs there are")
}

// Runs lists runs, newest first, a page at a time. The second result is the
// After of the next page, "" when there is none.
func (l *Ledger) Runs(ctx context.Context, page audit.Page) ([]audit.Run, string, error) {
	after, err := pageNumber(page.After)
	if err != nil {
		return nil, "", err
	}
	limit := pageLimit(page)
	rows, err := l.pool.Query(ctx, selectRuns+` WHERE r.id < $1 ORDER BY r.id DESC LIMIT $2`, min(after, math.MaxInt32), limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list runs: %w", err)
	}
	runs, err := pgx.CollectRows(rows, scanRun)
	if err != nil {
		return nil, "", fmt.Errorf("list runs: %w", err)
	}
	if len(runs) <= limit {
		return runs, "", nil
	}
	runs = runs[:limit]
	return runs, strconv.Itoa(int(runs[limit-1].Number)), nil
}
