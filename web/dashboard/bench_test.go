package dashboard_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
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
	pairs := sizeOf(b, "UNDERSTUDY_WEB_PAIRS", 10_000)
	const base = 10_000
	pool := postgres.Pool(b)
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	ledgertest.Fill(b, l, ledgertest.Seed{Run: "step-100", Checkpoint: 100, Pairs: 400, Wrong: .6})
	ledgertest.Fill(b, l, ledgertest.Seed{Run: "step-200", Checkpoint: 200, Pairs: base, Wrong: .35})
	if pairs > base {
		ledgertest.Multiply(b, pool, "step-200", pairs/base)
	}
	b.Logf("%d pairs seeded in %s", pairs, time.Since(began).Round(time.Second))
	began = time.Now()
	if err := l.Summarize(b.Context(), "step-200"); err != nil {
		b.Fatal(err)
	}
	b.Logf("figures of the run computed in %s", time.Since(began).Round(time.Millisecond))
	extra(b, pool, sizeOf(b, "UNDERSTUDY_WEB_ROLLUPS", 0))
	server := httptest.NewServer(web.New(web.Config{
		Version: "bench", Store: l, Figures: l, Gates: l, Logger: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil },
	}))
	defer server.Close()
	lines, _, err := l.Calls(b.Context(), "step-200", audit.CallFilter{Tool: ledgertest.WorstTool, MinSeverity: audit.S3}, audit.Page{Limit: 200})
	if err != nil {
		b.Fatal(err)
	}
	at := server.URL
	for _, page := range []struct {
		name string
		url  func(i int) string
	}{
		{"overview", func(int) string { return at + "/?run=step-200" }},
		{"tools", func(int) string { return at + "/tools?run=step-200" }},
		{"tool", func(int) string { return at + "/tool?run=step-200&tool=" + ledgertest.WorstTool }},
		{"calls", func(int) string { return at + "/calls?run=step-200&tool=" + ledgertest.WorstTool }},
		{"call", func(i int) string { return at + "/call?run=step-200&key=" + lines[i%len(lines)].Key.String() }},
		{"episode", func(i int) string {
			return at + "/episode?run=step-200&episode=" + lines[i%len(lines)].Episode.String()
		}},
	} {
		b.Run(page.name, func(b *testing.B) { benchPage(b, pool, page.url) })
	}
}

// extra adds rollups of other runs: what a ledger gathers over the years.
func extra(b *testing.B, pool *pgxpool.Pool, rollups int) {
	b.Helper()
	for have := 0; have < rollups; have += 1_000_000 {
		_, err := pool.Exec(b.Context(), `
			INSERT INTO rollup SELECT (r).* FROM (
				SELECT jsonb_populate_record(t, jsonb_build_object('run', 1000000 + i / 10000, 'prompt_group', 'g' || i)) AS r
				FROM (SELECT * FROM rollup LIMIT 1) t, generate_series($1::integer, $2::integer) AS i) x`, have+1, min(have+1_000_000, rollups))
		if err != nil {
			b.Fatal(err)
		}
	}
	if rollups > 0 {
		if _, err := pool.Exec(b.Context(), `ANALYZE rollup`); err != nil {
			b.Fatal(err)
		}
	}
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
