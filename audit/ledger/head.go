package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// moveProgress notes in the commit's own transaction how far the run is. The
// row is one of sixteen, chosen by the connection, so that commits of one run
// rarely wait for each other.
const moveProgress = `
	INSERT INTO progress AS p (run, shard, moves, pairs, masked) VALUES ($1, pg_backend_pid() % 16, 1, $2, $3)
	ON CONFLICT (run, shard) DO UPDATE SET moves = p.moves + 1, pairs = p.pairs + excluded.pairs, masked = p.masked + excluded.masked`

const selectHeads = `
	SELECT r.id, r.name, r.policy, r.checkpoint, r.state, ARRAY(SELECT tag::text FROM run_tag t WHERE t.run = r.id ORDER BY tag),
		r.created_at, r.completed_at, p.pairs, p.masked, p.moves
	FROM run r
	CROSS JOIN LATERAL (
		SELECT coalesce(sum(pairs), 0)::bigint AS pairs, coalesce(sum(masked), 0)::bigint AS masked, coalesce(sum(moves), 0)::bigint AS moves
		FROM progress WHERE run = r.id
	) p
	WHERE r.state <> 'dropping'`

func scanHead(row pgx.CollectableRow) (audit.RunHead, error) {
	var (
		h         audit.RunHead
		completed pgxTime
	)
	err := row.Scan(&h.Number, &h.Name, &h.Policy, &h.Checkpoint, &h.State, &h.Tags, &h.Started, &completed, &h.Pairs, &h.Masked, &h.Moves)
	if completed != nil {
		h.Completed = *completed
	}
	return h, err
}

// RunHeads lists the newest runs, newest first, without counting anything.
func (l *Ledger) RunHeads(ctx context.Context, limit int) ([]audit.RunHead, error) {
	rows, err := l.pool.Query(ctx, selectHeads+` ORDER BY r.id DESC LIMIT $1`, limit)
	if err != nil {
		return nil, infrastructure(fmt.Errorf("list runs: %w", err))
	}
	heads, err := pgx.CollectRows(rows, scanHead)
	return heads, infrastructure(err)
}

// RunHead finds one run by name.
func (l *Ledger) RunHead(ctx context.Context, name string) (audit.RunHead, error) {
	rows, err := l.pool.Query(ctx, selectHeads+` AND r.name = $1`, label(name))
	if err != nil {
		return audit.RunHead{}, infrastructure(fmt.Errorf("read run %q: %w", name, err))
	}
	h, err := pgx.CollectExactlyOneRow(rows, scanHead)
	return h, infrastructure(notFound(err, fmt.Sprintf("run %q", name), "understudy report lists the runs there are"))
}
