package ledger

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// dropBatch is how many results one transaction looks at while it keeps commits
// out: a few tens of milliseconds.
const dropBatch = 2000

// RunContents is what dropping a run removes.
type RunContents struct {
	Run      audit.Run
	Shared   int64 // results that another run holds, too: they stay, for it
	Payments int64 // rewards: afterwards the same outputs would be paid again
	Verdicts int64 // of gates
	Bytes    int64 // of the run's own tables
}

// RunContents looks at what DropRun would remove. A run whose drop was interrupted
// is found, too.
func (l *Ledger) RunContents(ctx context.Context, name string) (c RunContents, err error) {
	if c.Run, err = l.RunByName(ctx, name); err != nil {
		return c, err
	}
	part := strconv.Itoa(int(c.Run.Number))
	err = l.pool.QueryRow(ctx, `
		SELECT (SELECT count(DISTINCT (a.key, a.result)) FROM action_`+part+` a
				WHERE EXISTS (SELECT FROM action o WHERE o.key = a.key AND o.result = a.result AND o.run <> $1)),
			(SELECT count(*) FROM score WHERE run = $1),
			(SELECT count(*) FROM gate_verdict WHERE run = $1),
			(SELECT coalesce(sum(pg_total_relation_size(to_regclass(part || '_' || $1::integer))), 0)::bigint FROM unnest($2::text[]) AS part)`,
		c.Run.Number, partitioned()).Scan(&c.Shared, &c.Payments, &c.Verdicts, &c.Bytes)
	if err != nil {
		return c, fmt.Errorf("look at run %q: %w", name, err)
	}
	return c, nil
}

// DropRun removes a run: its partitions at once, then the results that no other
// run holds, a batch at a time. Bodies that a surviving run needs move to it
// first. A drop that was interrupted is finished by the next one, of any run.
func (l *Ledger) DropRun(ctx context.Context, name string) error {
	id, err := l.droppable(ctx, name)
	if err != nil {
		return err
	}
	// From here on nothing finds the run, and messages of its jobs are refused.
	if _, err := l.pool.Exec(ctx, `UPDATE run SET state = 'dropping' WHERE id = $1`, id); err != nil {
		return fmt.Errorf("drop run %q: %w", name, err)
	}
	l.forgetRun(name)
	err = l.inTx(ctx, "drop run "+strconv.Quote(name), func(ctx context.Context, tx pgx.Tx) error {
		return dropRun(ctx, tx, id)
	})
	if err != nil {
		return err
	}
	return l.Compact(ctx)
}

// droppable finds a run that may also be one whose drop was interrupted.
func (l *Ledger) droppable(ctx context.Context, name string) (int32, error) {
	var id int32
	err := l.pool.QueryRow(ctx, `SELECT id FROM run WHERE name = $1`, label(name)).Scan(&id)
	return id, notFound(err, fmt.Sprintf("run %q", name), "understudy report lists the runs there are")
}

func dropRun(ctx context.Context, tx pgx.Tx, run int32) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(ledgerLock)); err != nil {
		return fmt.Errorf("wait for running commits: %w", err)
	}
	part := strconv.Itoa(int(run))
	statements := []string{
		`SET LOCAL enable_seqscan = on`, // these read whole partitions
		// What this run stored and may be the last to hold.
		`INSERT INTO dropped_pair (key, result) SELECT DISTINCT key, result FROM action_` + part + ` ON CONFLICT DO NOTHING`,
		// Bodies of results that another run holds too: that run gets its own copy.
		`INSERT INTO body (digest, run, size, truncated, content)
			SELECT DISTINCT b.digest, a.run, b.size, b.truncated, b.content
			FROM dropped_pair d
			JOIN action a ON a.key = d.key AND a.result = d.result AND a.run <> ` + part + `
			JOIN pair p ON p.key = d.key AND p.result = d.result
			JOIN body_` + part + ` b ON b.digest IN (p.arguments, p.prompt, p.rehearsal, p.state_block, p.recorded, p.observation, p.twin)
			ON CONFLICT DO NOTHING`,
	}
	for _, table := range partitioned() {
		statements = append(statements, `DROP TABLE `+table+`_`+part)
	}
	for _, table := range []string{"rollup", "counter", "cell", "leaf", "progress", "excused", "mark_run", "audit_conflict", "dead_letter", "episode", "outbox", "score", "score_batch", "score_budget", "baseline", "alarm"} {
		statements = append(statements, `DELETE FROM `+table+` WHERE run = `+part)
	}
	statements = append(statements, `DELETE FROM run WHERE id = `+part)
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Compact removes the results that dropped runs left behind and that no run holds.
func (l *Ledger) Compact(ctx context.Context) error {
	for {
		left := 0
		err := l.inTx(ctx, "compact", func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(ledgerLock)); err != nil {
				return err
			}
			tag, err := tx.Exec(ctx, `
				WITH batch AS (
					DELETE FROM dropped_pair WHERE (key, result) IN (SELECT key, result FROM dropped_pair ORDER BY key, result LIMIT $1)
					RETURNING key, result
				), gone AS (
					DELETE FROM pair p USING batch b WHERE p.key = b.key AND p.result = b.result
						AND NOT EXISTS (SELECT FROM run_pair m WHERE m.key = b.key AND m.result = b.result)
						AND NOT EXISTS (SELECT FROM action a WHERE a.key = b.key AND a.result = b.result)
				)
				SELECT FROM batch`, dropBatch)
			left = int(tag.RowsAffected())
			return err
		})
		if err != nil || left == 0 {
			return err
		}
	}
}

// DropRunsBefore drops the completed runs beyond the newest keep of them and
// returns their names.
func (l *Ledger) DropRunsBefore(ctx context.Context, keep int) ([]string, error) {
	if keep < 0 {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("keep %d runs", keep), Hint: "give a number of runs, 0 or more"}
	}
	rows, err := l.pool.Query(ctx, `SELECT name::text FROM run WHERE state = 'complete' ORDER BY id DESC OFFSET $1`, keep)
	if err != nil {
		return nil, fmt.Errorf("list runs to drop: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list runs to drop: %w", err)
	}
	for i, name := range names {
		if err := l.DropRun(ctx, name); err != nil {
			return names[:i], err
		}
	}
	return names, nil
}
