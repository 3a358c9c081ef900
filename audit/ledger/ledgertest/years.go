package ledgertest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/ledger"
)

// Years adds what a ledger gathers over the years, for benchmarks: so many more
// runs of the seeded policy, each with the figures of the named run, and so many
// rollups among them. Their pairs are not there: no page of another run reads them.
func Years(tb testing.TB, l *ledger.Ledger, pool *pgxpool.Pool, run string, runs, rollups int) {
	tb.Helper()
	if runs == 0 {
		return
	}
	for i := range runs {
		if _, err := l.CreateRun(tb.Context(), audit.NewRun{Name: fmt.Sprintf("year-%04d", i), Policy: "seeded", Checkpoint: int64(-1 - i)}); err != nil {
			tb.Fatal(err)
		}
	}
	m := newMultiplier(tb, pool, run, rollups/runs)
	const year = `r.name LIKE 'year-%'`
	to := map[string]string{"run": `r.id`}
	for _, table := range []string{"progress", "summary", "summary_cell"} {
		m.insert(table, ` t, run r WHERE t.run = $1 AND $2::integer >= 0 AND `+year, to)
	}
	m.insert("rollup", ` t, run r, generate_series(1, $2::integer) AS i WHERE t.ctid = (SELECT min(ctid) FROM rollup WHERE run = $1) AND `+year,
		to, map[string]string{"prompt_group": `'year-' || i`})
	if _, err := pool.Exec(tb.Context(), `UPDATE run r SET state = 'complete', completed_at = now() WHERE `+year); err != nil {
		tb.Fatal(err)
	}
}
