package ledger_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/ledger"
)

// A ledger whose connections are as old as its first payment looks payments up as a
// new one does: it does not go on reading all of them.
func TestPaymentsAreLookedUpHoweverManyCame(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(postgres.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1 // what PostgreSQL counts of one session comes in order
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]audit.Digest, 16)
	for i := range ids {
		ids[i] = sha256.Sum256(fmt.Append(nil, i))
	}
	look := func(want int) {
		t.Helper()
		for range 10 { // PostgreSQL keeps a plan from the sixth time on
			paid, err := l.Paid(t.Context(), ids)
			if err != nil || len(paid) != want {
				t.Fatalf("%d payments, %v; want %d", len(paid), err, want)
			}
		}
	}
	// read waits until PostgreSQL shows what this session did, and says how many
	// payments it has read one after the other.
	read := func() (tuples int) {
		t.Helper()
		var marks, before int
		const counted = `SELECT (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'score'),
			(SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'alarm')`
		if err := pool.QueryRow(t.Context(), counted).Scan(&tuples, &before); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); marks <= before; {
			if _, err := pool.Exec(t.Context(), `SELECT count(*), pg_sleep(0.02) FROM alarm`); err != nil {
				t.Fatal(err)
			}
			if err := pool.QueryRow(t.Context(), counted).Scan(&tuples, &marks); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatal("PostgreSQL shows no scan of this session")
			}
		}
		return tuples
	}

	look(0)
	const n = 20_000
	if _, err := pool.Exec(t.Context(), `
		INSERT INTO score (id, run, batch, policy, checkpoint, content, tool, status, reason, actual, rehearsed, weight, inclusion, executed, reported, reward)
		SELECT sha256(i::text::bytea), 1, sha256('batch'), 'p', 1, sha256('content'), 'get_order', 'masked', 'not_sampled', '', '', 0, 1, -1, -1, '{}'
		FROM generate_series(0, $1 - 1) AS s (i)`, n); err != nil {
		t.Fatal(err)
	}
	before := read()
	look(len(ids))
	if tuples := read() - before; tuples >= n {
		t.Errorf("10 looks for %d payments of %d read %d one after the other, want them looked up", len(ids), n, tuples)
	}
}
