package migrations_test

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit/ledger/ledgertest"
	"understudy/migrations"
)

var (
	postgres ledgertest.Server
	update   = flag.Bool("update", false, "write the fixtures of TestUpgrade anew")
)

func TestMain(m *testing.M) { os.Exit(postgres.Main(m)) }

func empty(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgres.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestUpFromEmptyAndAgain(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	files, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	first, err := migrations.Up(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if first.From != 0 || len(first.Applied) != len(files) {
		t.Errorf("from empty: got %+v, want all %d files applied from version 0", first, len(files))
	}
	again, err := migrations.Up(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if again.From != first.To || again.To != first.To || len(again.Applied) != 0 {
		t.Errorf("again: got %+v, want nothing to do at version %d", again, first.To)
	}
}

func TestProgramsThatStartTogether(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	const programs = 4
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		applied int
	)
	for range programs {
		wg.Go(func() {
			report, err := migrations.Up(t.Context(), pool)
			mu.Lock()
			defer mu.Unlock()
			applied += len(report.Applied)
			if err != nil {
				t.Errorf("one of %d: %v", programs, err)
			}
		})
	}
	wg.Wait()
	files, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	if applied != len(files) {
		t.Errorf("got %d migrations applied by %d programs, want each of %d once", applied, programs, len(files))
	}
}

func TestNewerDatabaseIsLeftAlone(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	report, err := migrations.Up(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	const insert = `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`
	if _, err := pool.Exec(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	_, err = migrations.Up(t.Context(), pool)
	newer, ok := errors.AsType[*migrations.NewerError](err)
	if !ok {
		t.Fatalf("got %v, want a NewerError", err)
	}
	if newer.Database != 99999 || newer.Binary != report.To {
		t.Errorf("got %+v, want database 99999 and binary %d", newer, report.To)
	}
}

func TestUpIsCancelled(t *testing.T) {
	t.Parallel()
	pool := empty(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := migrations.Up(ctx, pool); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
