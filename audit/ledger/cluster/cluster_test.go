package cluster_test

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"understudy/audit/ledger/cluster"
)

// folder is a data folder that a dropped-to user can reach, which t.TempDir is
// not for root.
func folder(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/tmp", "understudy-cluster-") //nolint:usetesting // see above
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

func start(tb testing.TB, cfg cluster.Config) *cluster.Cluster {
	tb.Helper()
	cfg.Logger = slog.New(slog.NewTextHandler(tb.Output(), nil))
	c, err := cluster.Start(tb.Context(), cfg)
	if err != nil {
		tb.Fatalf("start: %v", err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(tb.Context()); err != nil {
			tb.Errorf("stop: %v", err)
		}
	})
	return c
}

func connect(tb testing.TB, c *cluster.Cluster) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), c.URL())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

func TestStartMakesThenReopens(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	first := start(t, cluster.Config{Dir: dir})
	if !first.Made() {
		t.Error("an empty folder: Made is false")
	}
	if _, err := connect(t, first).Exec(t.Context(), `CREATE TABLE kept AS SELECT 7 AS n`); err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := start(t, cluster.Config{Dir: dir})
	if second.Made() {
		t.Error("a folder with a cluster: Made is true")
	}
	var n int
	if err := connect(t, second).QueryRow(t.Context(), `SELECT n FROM kept`).Scan(&n); err != nil || n != 7 {
		t.Errorf("got %d, %v after a restart, want 7", n, err)
	}
}

func BenchmarkStart(b *testing.B) {
	b.Run("make", func(b *testing.B) {
		for b.Loop() {
			startStop(b, folder(b))
		}
	})
	b.Run("reopen", func(b *testing.B) {
		dir := folder(b)
		startStop(b, dir)
		for b.Loop() {
			startStop(b, dir)
		}
	})
}

func startStop(b *testing.B, dir string) {
	b.Helper()
	c, err := cluster.Start(b.Context(), cluster.Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Stop(b.Context()); err != nil {
		b.Fatal(err)
	}
}
