package ledger

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// SaveGate keeps a gate's decision about a run. The time is the ledger's own.
func (l *Ledger) SaveGate(ctx context.Context, g audit.GateRecord) error {
	id, err := l.runID(ctx, g.Run)
	if err != nil {
		return err
	}
	_, err = l.pool.Exec(ctx, `
		INSERT INTO gate_verdict (run, decided_at, verdict, policy_digest, document) VALUES ($1, clock_timestamp(), $2, $3, $4)`,
		id, g.Status, label(g.PolicyDigest), []byte(g.Document))
	if err != nil {
		return fmt.Errorf("save the gate's verdict on %q: %w", g.Run, err)
	}
	return nil
}

// Gates lists decisions without their documents, newest first.
func (l *Ledger) Gates(ctx context.Context, filter audit.GateFilter, page audit.Page) ([]audit.GateRecord, string, error) {
	before, err := pageNumber(page.After)
	if err != nil {
		return nil, "", err
	}
	limit := pageLimit(page)
	rows, err := l.pool.Query(ctx, `
		SELECT r.name, v.decided_at, v.verdict, v.policy_digest
		FROM gate_verdict v JOIN run r ON r.id = v.run
		WHERE v.decided_at < to_timestamp($1::float8 / 1e6) AND ($2 = '' OR r.name = $2) AND ($3 = '' OR v.policy_digest = $3)
		ORDER BY v.decided_at DESC LIMIT $4`, min(before, maxMicros), label(filter.Run), label(filter.PolicyDigest), limit)
	if err != nil {
		return nil, "", fmt.Errorf("list gates: %w", err)
	}
	gates, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (g audit.GateRecord, err error) {
		return g, row.Scan(&g.Run, &g.Decided, &g.Status, &g.PolicyDigest)
	})
	if err != nil {
		return nil, "", fmt.Errorf("list gates: %w", err)
	}
	next := ""
	if len(gates) == limit {
		next = strconv.FormatInt(gates[limit-1].Decided.UnixMicro(), 10)
	}
	return gates, next, nil
}

// maxMicros is the latest time that a page can start from: the year 9999.
const maxMicros = 253402300799_000_000

// Gate reads one decision with its document.
func (l *Ledger) Gate(ctx context.Context, run string, decided time.Time) (audit.GateRecord, error) {
	g := audit.GateRecord{Run: run}
	var document []byte
	err := l.pool.QueryRow(ctx, `
		SELECT v.decided_at, v.verdict, v.policy_digest, v.document
		FROM gate_verdict v JOIN run r ON r.id = v.run WHERE r.name = $1 AND v.decided_at = $2`, label(run), decided).
		Scan(&g.Decided, &g.Status, &g.PolicyDigest, &document)
	g.Document = document
	return g, notFound(err, fmt.Sprintf("a gate verdict on run %q at %s", run, decided.Format(time.RFC3339Nano)), "list them: GET /v1/gates")
}
