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

// A young ledger's connections plan while its tables are empty, and PostgreSQL keeps
// a plan until it next analyses the tables. These tests count what it reads later.

// young is an empty ledger over one connection, so that what PostgreSQL counts of its
// one session comes in order.
func young(t *testing.T) *bundle {
	t.Helper()
	config, err := pgxpool.ParseConfig(postgres.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.CreateRun(t.Context(), audit.NewRun{Name: "run"}); err != nil {
		t.Fatal(err)
	}
	return &bundle{Ledger: l, pool: pool, run: "run"}
}

// reads is what a query says that PostgreSQL has counted of the session until now. It
// waits until a scan that it begins last is among it.
func (b *bundle) reads(t *testing.T, query string) int {
	t.Helper()
	const scans = `SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'alarm'`
	before := b.number(t, scans)
	for deadline := time.Now().Add(patience); b.number(t, scans) <= before; {
		if _, err := b.pool.Exec(t.Context(), `SELECT count(*), pg_sleep(0.02) FROM alarm`); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("PostgreSQL shows no scan of this session")
		}
	}
	return b.number(t, query)
}

func TestYoungLedgersLookPaymentsUp(t *testing.T) {
	t.Parallel()
	b := young(t)
	ids := make([]audit.Digest, 16)
	for i := range ids {
		ids[i] = sha256.Sum256(fmt.Append(nil, i))
	}
	look := func(want int) {
		t.Helper()
		for range 10 { // PostgreSQL keeps a plan from the sixth time on
			paid, err := b.Paid(t.Context(), ids)
			if err != nil || len(paid) != want {
				t.Fatalf("%d payments, %v; want %d", len(paid), err, want)
			}
		}
	}
	look(0)
	const n = 20_000
	if _, err := b.pool.Exec(t.Context(), `
		INSERT INTO score (id, run, batch, policy, checkpoint, content, tool, status, reason, actual, rehearsed, weight, inclusion, executed, reported, reward)
		SELECT sha256(i::text::bytea), 1, sha256('batch'), 'p', 1, sha256('content'), 'get_order', 'masked', 'not_sampled', '', '', 0, 1, -1, -1, '{}'
		FROM generate_series(0, $1 - 1) AS s (i)`, n); err != nil {
		t.Fatal(err)
	}
	const scanned = `SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'score'`
	before := b.reads(t, scanned)
	look(len(ids))
	if read := b.reads(t, scanned) - before; read >= n {
		t.Errorf("10 looks for %d payments of %d read %d one after the other, want them looked up", len(ids), n, read)
	}
}

func TestYoungLedgersLookJobsUp(t *testing.T) {
	t.Parallel()
	b := young(t)
	const warm, n = 10, 3000
	var jobs []audit.Job
	enqueue := func(n int) {
		t.Helper()
		var episodes []audit.Episode
		for i := range n {
			episodes = append(episodes, newEpisode(uint64(len(jobs)+i), 1))
		}
		if _, err := b.Enqueue(t.Context(), b.run, episodes); err != nil {
			t.Fatal(err)
		}
		for i := range episodes {
			_, id, err := audit.EncodeEpisode(&episodes[i])
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, audit.Job{Run: b.run, ID: id, Attempt: 1})
		}
	}
	finish := func(jobs []audit.Job) {
		t.Helper()
		for _, job := range jobs {
			if _, err := b.Finish(t.Context(), job, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	enqueue(warm)
	finish(jobs)
	enqueue(n)
	const read = `SELECT sum(idx_tup_read)::bigint + (SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'episode')
		FROM pg_stat_user_indexes WHERE relname = 'episode'`
	before := b.reads(t, read)
	finish(jobs[warm : 2*warm])
	if read := b.reads(t, read) - before; read >= n {
		t.Errorf("%d jobs of %d read %d episodes, want them looked up", warm, n, read)
	}
}
