package dashboard_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
	"understudy/migrations"
	"understudy/web"
)

// sizeOf is a size from the environment; `make bench-web` sets the large ones.
func sizeOf(b *testing.B, name string, small int) int {
	b.Helper()
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return small
	}
	return n
}

// BenchmarkPages reports how long pages take over a large run, at the 95th
// percentile, and how often they read the tables that grow with it.
func BenchmarkPages(b *testing.B) {
	pool := benchPool(b)
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := l.RunHead(b.Context(), benchRun); err != nil {
		seedBench(b, l, pool)
	}
	summarize(b, l)
	server := httptest.NewServer(web.New(web.Config{
		Version: "bench", Store: l, Figures: l, Gates: l, Logger: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil },
	}))
	defer server.Close()
	lines, _, err := l.Calls(b.Context(), benchRun, audit.CallFilter{Tool: ledgertest.WorstTool, MinSeverity: audit.S3}, audit.Page{Limit: 200})
	if err != nil {
		b.Fatal(err)
	}
	at := server.URL
	for _, page := range []struct {
		name string
		url  func(i int) string
	}{
		{"overview", func(int) string { return at + "/?run=" + benchRun }},
		{"tools", func(int) string { return at + "/tools?run=" + benchRun }},
		{"tool", func(int) string { return at + "/tool?run=" + benchRun + "&tool=" + ledgertest.WorstTool }},
		{"calls", func(int) string { return at + "/calls?run=" + benchRun + "&tool=" + ledgertest.WorstTool }},
		{"call", func(i int) string { return at + "/call?run=" + benchRun + "&key=" + lines[i%len(lines)].Key.String() }},
		{"episode", func(i int) string {
			return at + "/episode?run=" + benchRun + "&episode=" + lines[i%len(lines)].Episode.String()
		}},
	} {
		b.Run(page.name, func(b *testing.B) { benchPage(b, pool, page.url) })
	}
}

const benchRun = "step-200"

// benchPool is a ledger of its own, or the one that UNDERSTUDY_WEB_LEDGER names:
// a large ledger is seeded once and measured often.
func benchPool(b *testing.B) *pgxpool.Pool {
	b.Helper()
	dsn := os.Getenv("UNDERSTUDY_WEB_LEDGER")
	if dsn == "" {
		return postgres.Pool(b)
	}
	pool, err := pgxpool.New(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	if _, err := migrations.Up(b.Context(), pool); err != nil {
		b.Fatal(err)
	}
	return pool
}

func seedBench(b *testing.B, l *ledger.Ledger, pool *pgxpool.Pool) {
	b.Helper()
	const base = 10_000
	pairs, rollups := sizeOf(b, "UNDERSTUDY_WEB_PAIRS", base), sizeOf(b, "UNDERSTUDY_WEB_ROLLUPS", 0)
	began := time.Now()
	ledgertest.Fill(b, l, ledgertest.Seed{Run: "step-100", Checkpoint: 100, Pairs: 400, Wrong: .6})
	ledgertest.Years(b, l, pool, "step-100", min(1000, rollups), rollups)
	b.Logf("%d rollups of older runs seeded in %s", rollups, time.Since(began).Round(time.Second))
	began = time.Now()
	ledgertest.Fill(b, l, ledgertest.Seed{Run: benchRun, Checkpoint: 200, Pairs: base, Wrong: .35})
	if pairs > base {
		ledgertest.Multiply(b, pool, benchRun, pairs/base)
	}
	b.Logf("%d pairs seeded in %s", pairs, time.Since(began).Round(time.Second))
	if _, err := pool.Exec(b.Context(), `VACUUM ANALYZE`); err != nil {
		b.Fatal(err)
	}
}

// summarize computes the run's figures where they are old, and says what it took.
func summarize(b *testing.B, l *ledger.Ledger) {
	b.Helper()
	if s, err := l.Summary(b.Context(), benchRun, audit.Slice{Split: audit.AllTasks}); err != nil || s.Current() {
		return
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	if err := l.Summarize(b.Context(), benchRun); err != nil {
		b.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	b.Logf("figures of the run computed in %s; the process took %d MB from the system before, %d MB with it",
		time.Since(began).Round(time.Millisecond), before.Sys>>20, after.Sys>>20)
}

func benchPage(b *testing.B, pool *pgxpool.Pool, url func(i int) string) {
	b.Helper()
	var took []time.Duration
	fetch := func(i int) {
		began := time.Now()
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url(i), nil)
		if err != nil {
			b.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.StatusCode, err)
		}
		took = append(took, time.Since(began))
	}
	for i := range 10 { // connections, plans, caches
		fetch(i)
	}
	took = took[:0]
	scans := reads(b, pool)
	i := 0
	for b.Loop() {
		fetch(i)
		i++
	}
	if grown := reads(b, pool) - scans; grown != 0 {
		b.Errorf("pages read rollups, cells or counters %d times: they grow with the run", grown)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}

// reads counts scans of the tables that hold a line a prompt group.
func reads(b *testing.B, pool *pgxpool.Pool) int {
	b.Helper()
	var n int
	err := pool.QueryRow(b.Context(), `
		SELECT coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0)::bigint FROM pg_stat_user_tables WHERE relname IN ('rollup', 'cell', 'counter')`).Scan(&n)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
