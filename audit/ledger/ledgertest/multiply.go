package ledgertest

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Multiply copies every pair of a seeded run until it holds times as many, by SQL:
// for what needs many. The copies are rollouts of prompts of their own with keys
// of their own; all rows are as the pipeline would have written them.
func Multiply(tb testing.TB, pool *pgxpool.Pool, run string, times int) {
	tb.Helper()
	m := newMultiplier(tb, pool, run, times)
	const key = `sha256(t.key || int4send(i))`
	const result = `(SELECT p.result FROM pair p WHERE p.key = ` + key + `)`
	of := map[string]string{"key": key, "result": result, "episode": `sha256(t.episode || int4send(i))`}
	group := map[string]string{"prompt_group": `t.prompt_group || '+' || i`}
	// First the results, then what names them: run_pair says which are the run's.
	m.copy("pair", `EXISTS (SELECT FROM run_pair m WHERE m.run = $1 AND m.key = t.key)`, map[string]string{"key": key, "doc": copiedDoc, "result": copiedResult})
	m.copy("action", `t.run = $1`, of)
	m.copy("run_pair", `t.run = $1`, of, group)
	m.copy("episode", `t.run = $1`, map[string]string{"id": `sha256(t.id || int4send(i))`, "name": `t.name || '+' || i`}, group)
	for _, table := range []string{"rollup", "cell", "counter"} {
		m.copy(table, `t.run = $1`, group)
	}
	m.exec(`
		INSERT INTO leaf_sample (leaf, slot, key, severity, pointer, rehearsed, actual)
		SELECT s.leaf, s.slot + i * n.kept, sha256(s.key || int4send(i)), s.severity, s.pointer, s.rehearsed, s.actual
		FROM leaf_sample s JOIN leaf l ON l.id = s.leaf JOIN (SELECT leaf, count(*)::integer AS kept FROM leaf_sample GROUP BY leaf) n ON n.leaf = s.leaf,
			generate_series(1, least($2::integer - 1, 4)) AS i
		WHERE l.run = $1 AND s.slot + i * n.kept <= 5`)
	m.exec(`UPDATE leaf SET pairs = pairs * $2, leaves = leaves * $2, weight = weight * $2 WHERE run = $1`)
	m.exec(`UPDATE progress SET pairs = pairs * $2, masked = masked * $2, moves = moves + 1 WHERE run = $1`)
	if _, err := pool.Exec(tb.Context(), `ANALYZE`); err != nil {
		tb.Fatal(err)
	}
}

// A copy's document names its own key, and its result is the digest of that and
// of the bodies' digests, as the ledger computes it.
const (
	copiedDoc    = `convert_to(replace(convert_from(t.doc, 'UTF8'), encode(t.key, 'hex'), encode(sha256(t.key || int4send(i)), 'hex')), 'UTF8')`
	noBody       = `'\x0000000000000000000000000000000000000000000000000000000000000000'::bytea`
	copiedResult = `sha256(coalesce(t.arguments, ` + noBody + `) || coalesce(t.prompt, ` + noBody + `) || coalesce(t.rehearsal, ` + noBody + `) ||
		coalesce(t.state_block, ` + noBody + `) || coalesce(t.recorded, ` + noBody + `) || coalesce(t.observation, ` + noBody + `) ||
		coalesce(t.twin, ` + noBody + `) || ` + copiedDoc + `)`
)

type multiplier struct {
	tb    testing.TB
	pool  *pgxpool.Pool
	run   int32
	times int
}

func newMultiplier(tb testing.TB, pool *pgxpool.Pool, run string, times int) multiplier {
	tb.Helper()
	m := multiplier{tb: tb, pool: pool, times: times}
	if err := pool.QueryRow(tb.Context(), `SELECT id FROM run WHERE name = $1`, run).Scan(&m.run); err != nil {
		tb.Fatal(err)
	}
	return m
}

// copy inserts a table's rows again, times - 1 times.
func (m *multiplier) copy(table, where string, anew ...map[string]string) {
	m.tb.Helper()
	m.insert(table, ` t, generate_series(1, $2::integer - 1) AS i WHERE `+where, anew...)
}

// insert adds rows to a table that are made of its rows t, with some columns
// written anew.
func (m *multiplier) insert(table, from string, anew ...map[string]string) {
	m.tb.Helper()
	rows, err := m.pool.Query(m.tb.Context(), `
		SELECT attname::text FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, table)
	if err != nil {
		m.tb.Fatal(err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		m.tb.Fatal(err)
	}
	values := make([]string, len(columns))
	for i, column := range columns {
		values[i] = "t." + column
		for _, words := range anew {
			if word := words[column]; word != "" {
				values[i] = word
			}
		}
	}
	m.exec(`INSERT INTO ` + table + ` (` + strings.Join(columns, ", ") + `) SELECT ` + strings.Join(values, ", ") + ` FROM ` + table + from)
}

func (m *multiplier) exec(statement string) {
	m.tb.Helper()
	if _, err := m.pool.Exec(m.tb.Context(), statement, m.run, m.times); err != nil {
		m.tb.Fatalf("multiply: %v: %.120s", err, statement)
	}
}
