package migrations_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/ledger/cluster"
	"understudy/audit/ledger/ledgertest"
	"understudy/migrations"
)

// The fixtures are one run of judged calls, a queued job and a dead letter as a
// program of that schema version held them; golden is what their figures are.
const golden = "testdata/upgrade.json"

func fixtures() []int64 { return []int64{5, 13} }

func fixture(version int64) string { return fmt.Sprintf("testdata/%05d.sql", version) }

// TestUpgrade fills a database of an earlier schema version, brings it up, and
// finds everything as it was: the counts agree, no figure has moved, what was
// queued can be claimed, and new calls can be committed.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	if *update {
		writeFixtures(t)
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range fixtures() {
		t.Run(filepath.Base(fixture(version)), func(t *testing.T) {
			t.Parallel()
			pool := empty(t)
			upTo(t, pool, version)
			text, err := os.ReadFile(fixture(version))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pool.Exec(t.Context(), string(text)); err != nil {
				t.Fatalf("fill version %d: %v", version, err)
			}
			report, err := migrations.Up(t.Context(), pool)
			if err != nil || report.From != version {
				t.Fatalf("from version %d: %+v, %v", version, report, err)
			}
			upgraded(t, pool, want)
		})
	}
}

// upgraded reads what a fixture holds, with the program of today.
func upgraded(t *testing.T, pool *pgxpool.Pool, want []byte) {
	t.Helper()
	l := openLedger(t, pool)
	clean(t, l)
	if got := figures(t, l); !bytes.Equal(got, want) {
		t.Errorf("figures have moved\n got %s\nwant %s", got, want)
	}
	claimed, _, err := l.Relay(t.Context(), audit.ClaimLimit{Jobs: 1000, Announcements: 1000, Bytes: 1 << 30}, func(_ context.Context, messages []audit.Outgoing) error {
		for i := range messages {
			if _, err := audit.DecodeJob(messages[i].Payload); messages[i].Topic == audit.TopicJob && err != nil {
				t.Errorf("a job that was queued before the upgrade: %v", err)
			}
			messages[i].Seq = uint64(i + 1)
		}
		return nil
	})
	if err != nil || claimed == 0 {
		t.Errorf("claimed %d messages, %v, want what was queued before the upgrade", claimed, err)
	}
	if n, err := l.Revive(t.Context(), "old"); err != nil || n != 1 {
		t.Errorf("sent %d dead jobs again, %v, want the one", n, err)
	}
	ledgertest.Fill(t, l, ledgertest.Seed{Run: "new", Pairs: 20, Wrong: .5})
	clean(t, l)
}

// TestBackup dumps a full ledger, restores it elsewhere, and verifies it there.
func TestBackup(t *testing.T) {
	t.Parallel()
	from, to := postgres.URL(t), postgres.EmptyURL(t)
	source := openPool(t, from)
	fill(t, source)
	l := openLedger(t, source)
	want := figures(t, l)
	before, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bin, err := cluster.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ledger.dump")
	for _, args := range [][]string{
		{"pg_dump", "--format=custom", "--file=" + file, "--dbname=" + from},
		{"pg_restore", "--no-owner", "--exit-on-error", "--single-transaction", "--dbname=" + to, file},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin.Dir, args[0]), args[1:]...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args[0], err, out)
		}
	}
	target := openPool(t, to)
	if report, err := migrations.Up(t.Context(), target); err != nil || len(report.Applied) > 0 {
		t.Fatalf("a restored database: %+v, %v, want nothing to migrate", report, err)
	}
	restored := openLedger(t, target)
	after, err := restored.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", after) != fmt.Sprintf("%+v", before) || len(after.Findings) > 0 {
		t.Errorf("restored: %+v, want %+v", after, before)
	}
	upgraded(t, target, want)
}

func openPool(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func openLedger(t *testing.T, pool *pgxpool.Pool) *ledger.Ledger {
	t.Helper()
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func clean(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	report, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Errorf("verify: %s", f)
	}
}

// figures are those of the run of a fixture, computed anew.
func figures(t *testing.T, l *ledger.Ledger) []byte {
	t.Helper()
	if err := l.Summarize(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	s, err := l.Summary(t.Context(), "old", audit.Slice{Split: audit.AllTasks})
	if err != nil || len(s.Tools) == 0 {
		t.Fatalf("%d tools have figures, %v", len(s.Tools), err)
	}
	text, err := json.MarshalIndent(map[string]any{"tools": s.Tools, "pooled": s.Pooled, "episodes": s.Episodes}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// fill makes what the fixtures hold.
func fill(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	l := openLedger(t, pool)
	ledgertest.Fill(t, l, ledgertest.Seed{Run: "old", Pairs: 20, Wrong: .5})
	episodes := []audit.Episode{
		{ID: "queued", PromptGroup: "g", Policy: "p", Environment: "retail@1", Mode: audit.Forced, Actions: []audit.Action{{Call: audit.Call{Tool: "t", Arguments: []byte("{}")}}}},
		{ID: "dead", PromptGroup: "g", Policy: "p", Environment: "retail@1", Mode: audit.Forced, Actions: []audit.Action{{Call: audit.Call{Tool: "t", Arguments: []byte("{")}}}},
	}
	_, err := l.Enqueue(t.Context(), "old", episodes)
	_, id, encoded := audit.EncodeEpisode(&episodes[1])
	buried := l.Bury(t.Context(), audit.Job{Run: "old", ID: id, Attempt: 1}, audit.Burial{Fault: audit.FaultPermanent, Reason: "as it was\x00", Delivery: 1})
	if err := errors.Join(err, encoded, buried); err != nil {
		t.Fatal(err)
	}
}

// upTo brings an empty database to an earlier version.
func upTo(t *testing.T, pool *pgxpool.Pool, version int64) {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files, goose.WithDisableGlobalRegistry(true))
	if err == nil {
		_, err = p.UpTo(t.Context(), version)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeFixtures writes, with -update, what a database of today holds as rows of
// the earlier versions: columns that those did not have are left out, and figures
// that are computed from the rest.
func writeFixtures(t *testing.T) {
	t.Helper()
	source := openPool(t, postgres.URL(t))
	fill(t, source)
	if err := os.WriteFile(golden, figures(t, openLedger(t, source)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range fixtures() {
		old := empty(t)
		upTo(t, old, version)
		var text strings.Builder
		fmt.Fprintf(&text, "-- A ledger of schema version %d. Written by: go test ./migrations -update\nSET session_replication_role = replica;\n", version)
		for _, partition := range texts(t, source, `
			SELECT format('CREATE TABLE %I PARTITION OF %I %s;', c.relname, p.relname, pg_get_expr(c.relpartbound, c.oid))
			FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
			WHERE c.relkind = 'r' ORDER BY c.relname`) {
			text.WriteString(partition + "\n")
		}
		for _, table := range texts(t, old, `
			SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
				AND relname NOT IN ('goose_db_version', 'summary', 'summary_cell') ORDER BY relname`) {
			columns := texts(t, old, `SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = to_regclass('`+table+`') AND attnum > 0 AND NOT attisdropped ORDER BY attnum`)
			list := strings.Join(columns, ", ")
			for _, row := range texts(t, source, `SELECT quote_literal(to_jsonb(r)::text) FROM (SELECT `+list+` FROM `+table+` ORDER BY 1, 2) r`) {
				fmt.Fprintf(&text, "INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM jsonb_populate_record(NULL::%s, %s);\n", table, list, list, table, row)
			}
		}
		text.WriteString(`DO $$ DECLARE c record; BEGIN
  FOR c IN SELECT table_name AS t, column_name AS n FROM information_schema.columns WHERE is_identity = 'YES' AND table_schema = 'public' LOOP
    EXECUTE format('SELECT setval(pg_get_serial_sequence(%L, %L), (SELECT coalesce(max(%I), 0) + 1 FROM %I), false)', c.t, c.n, c.n, c.t);
  END LOOP;
END $$;
SET session_replication_role = DEFAULT;
`)
		if err := os.WriteFile(fixture(version), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func texts(t *testing.T, pool *pgxpool.Pool, sql string) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%v: %s", err, sql)
	}
	return all
}
