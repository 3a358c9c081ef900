package queue_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
	"understudy/audit/queue"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

// actionsPerEpisode is a common length of a tool-agent rollout.
const actionsPerEpisode = 10

// BenchmarkAudits sends episodes with their rehearsals end to end: enqueue,
// relay, JetStream with SyncAlways, worker with a cheap handler, committed
// Postgres, ack. It reports audits a second, processor time per audit (of this
// process; Postgres has its own), and the ratio to one client that inserts the
// same rows in plain batches.
//
//	go test ./audit/queue -run - -bench Audits -benchtime 3000x
func BenchmarkAudits(b *testing.B) {
	for _, workers := range []int{1, 2, 4} {
		b.Run("workers="+strconv.Itoa(workers), func(b *testing.B) {
			benchmarkAudits(b, workers, rehearsed, benchEpisodes("bench", max(b.N/actionsPerEpisode, 1)))
		})
	}
}

// BenchmarkAuditsInSandbox is BenchmarkAudits with the real auditor and the
// Starlark retail domain: each action is executed, compared and scored.
//
//	go test ./audit/queue -run - -bench InSandbox -benchtime 3000x
//
// The collector is set as the program sets it.
func BenchmarkAuditsInSandbox(b *testing.B) {
	before := debug.SetGCPercent(400)
	b.Cleanup(func() { debug.SetGCPercent(before) })
	registry := sandbox.New(domains.FS())
	b.Cleanup(func() {
		if err := registry.Close(); err != nil {
			b.Error(err)
		}
	})
	auditor, err := audit.New(audit.Config{Opener: registry, Secret: []byte("benchmark")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := auditor.Close(); err != nil {
			b.Error(err)
		}
	})
	solved := solvedEpisodes(b, registry)
	handler := func(ctx context.Context, e audit.Episode) ([]audit.Pair, error) { return auditor.Episode(ctx, &e) }
	for _, workers := range []int{1, 2, 4} {
		b.Run("workers="+strconv.Itoa(workers), func(b *testing.B) {
			var episodes []audit.Episode
			for n := 0; n < b.N; {
				// The same tasks by another policy: other keys, the same work.
				e := solved[len(episodes)%len(solved)]
				e.Policy = "policy-" + strconv.Itoa(len(episodes)/len(solved))
				e.ID += "-" + e.Policy
				episodes = append(episodes, e)
				n += len(e.Actions)
			}
			benchmarkAudits(b, workers, handler, episodes)
		})
	}
}

// solvedEpisodes chain the solutions of the retail domain's tasks to episodes of
// actionsPerEpisode calls, with the sandbox's own answers as rehearsals.
func solvedEpisodes(b *testing.B, opener audit.Opener) []audit.Episode {
	b.Helper()
	env, err := opener.Environment(b.Context(), "retail@1")
	if err != nil {
		b.Fatal(err)
	}
	tasks, err := env.(audit.Tasker).Tasks(b.Context(), 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	var calls []audit.Call
	for _, task := range tasks {
		calls = append(calls, task.Solution...)
	}
	var episodes []audit.Episode
	for part := range slices.Chunk(calls, actionsPerEpisode) {
		id := "chain-" + strconv.Itoa(len(episodes))
		e := audit.Episode{ID: id, PromptGroup: id, WireAPI: "recorded", Environment: "retail@1", Mode: audit.Forced}
		session, err := env.Open(b.Context(), e.Start)
		if err != nil {
			b.Fatal(err)
		}
		for step, call := range part {
			observation, err := session.Call(b.Context(), call)
			if err != nil {
				b.Fatal(err)
			}
			e.Actions = append(e.Actions, audit.Action{Step: step, Call: call, Rehearsal: &audit.Rehearsal{Raw: observation.Raw}})
		}
		if err := session.Close(); err != nil {
			b.Fatal(err)
		}
		episodes = append(episodes, e)
	}
	return episodes
}

func benchmarkAudits(b *testing.B, workers int, handler queue.Handler, episodes []audit.Episode) {
	b.Helper()
	var durable ledgertest.Server
	durable.Durable = true
	b.Cleanup(func() {
		if err := durable.Close(); err != nil {
			b.Error(err)
		}
	})
	k := setupOn(b, durable.Pool(b))
	k.config = queue.Config{} // as in production
	services := []service{k.relay(b)}
	for range workers {
		services = append(services, k.worker(b, handler))
	}
	start(b, services...)
	b.ResetTimer()
	before, cpu, server := time.Now(), cpuTime(b), serverTime(b, k.pool)
	k.enqueue(b, episodes...)
	await(b, "every episode is done", func() bool {
		return k.number(b, `SELECT count(*) FROM episode WHERE state = 'open'`) == 0
	})
	took, used, serverUsed := time.Since(before), cpuTime(b)-cpu, serverTime(b, k.pool)-server
	b.StopTimer()
	audits := float64(k.number(b, `SELECT count(*) FROM run_pair`))
	rate := audits / took.Seconds()
	plain := plainInserts(b, k.pool)
	b.ReportMetric(rate, "audits/s")
	b.ReportMetric(float64(used.Microseconds())/audits, "cpu-µs/audit")
	b.ReportMetric(float64(serverUsed.Microseconds())/audits, "postgres-µs/audit")
	b.ReportMetric(plain, "plain-inserts/s")
	b.ReportMetric(rate/plain, "of-plain")
	b.ReportMetric(0, "ns/op")
	if report, err := k.Verify(b.Context()); err != nil || report.Err() != nil {
		b.Fatal(err, report.Err())
	}
}

// plainInserts sends the benchmark's own rows once more from one client, 500
// rows of one table a committed batch of plain INSERTs, into tables of the same
// shape, and returns pairs a second.
func plainInserts(b *testing.B, pool *pgxpool.Pool) float64 {
	b.Helper()
	var took time.Duration
	pairs := 0
	for _, table := range []string{"body", "action", "pair", "run_pair"} {
		if _, err := pool.Exec(b.Context(), `CREATE TABLE plain_`+table+` (LIKE `+table+` INCLUDING ALL)`); err != nil {
			b.Fatal(err)
		}
		rows, err := pool.Query(b.Context(), `SELECT * FROM `+table)
		if err != nil {
			b.Fatal(err)
		}
		values, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
		if err != nil {
			b.Fatal(err)
		}
		insert := plainInsert(b, pool, table)
		before := time.Now()
		for part := range slices.Chunk(values, 500) {
			batch := &pgx.Batch{}
			for _, v := range part {
				batch.Queue(insert, v...)
			}
			if err := pool.SendBatch(b.Context(), batch).Close(); err != nil {
				b.Fatal(err)
			}
		}
		took += time.Since(before)
		pairs = len(values)
	}
	return float64(pairs) / took.Seconds()
}

// plainInsert is the INSERT of one row; casts name the types under our domains.
func plainInsert(b *testing.B, pool *pgxpool.Pool, table string) string {
	b.Helper()
	rows, err := pool.Query(b.Context(), `
		SELECT format('$%s::%s', ordinal_position, data_type) FROM information_schema.columns
		WHERE table_name = $1 ORDER BY ordinal_position`, table)
	if err != nil {
		b.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.Fatal(err)
	}
	return `INSERT INTO plain_` + table + ` VALUES (` + strings.Join(values, ", ") + `)`
}

// cpuTime is the processor time of this process.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// serverTime is the processor time of Postgres' processes, as Linux counts it
// in ticks of 10 ms; 0 elsewhere.
func serverTime(tb testing.TB, pool *pgxpool.Pool) time.Duration {
	tb.Helper()
	rows, err := pool.Query(tb.Context(), `SELECT pid FROM pg_stat_activity`)
	if err != nil {
		tb.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		tb.Fatal(err)
	}
	ticks := 0
	for _, pid := range pids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])); len(fields) > 12 {
			user, _ := strconv.Atoi(fields[11])
			system, _ := strconv.Atoi(fields[12])
			ticks += user + system
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// benchEpisodes are episodes with distinct arguments and a few kinds of answers.
func benchEpisodes(prefix string, n int) []audit.Episode {
	episodes := newEpisodes(prefix, n)
	for i := range episodes {
		e := &episodes[i]
		e.Actions = nil
		for step := range actionsPerEpisode {
			e.Actions = append(e.Actions, audit.Action{
				Step: step,
				Call: audit.Call{
					Tool:      []string{"get_order", "cancel_order", "list_orders", "get_user", "pay"}[step%5],
					Arguments: fmt.Appendf(nil, `{"order_id":"#W%d","reason":"no longer needed","item_ids":["%d","%d"]}`, i, step, i*step),
				},
				Rehearsal: &audit.Rehearsal{Raw: fmt.Appendf(nil, `{"order_id":"#W%d","status":"delivered","items":[{"id":"%d","price":12.5},{"id":"%d","price":99}]}`, i, step, i*step)},
			})
		}
	}
	return episodes
}

// BenchmarkMemory audits b.N actions and reports the heap and the most memory
// that the process ever had, after the first tenth and at the end: neither may
// grow with the number of audits.
//
//	make memory AUDITS=1000000
func BenchmarkMemory(b *testing.B) {
	k := setup(b)
	k.config = queue.Config{}
	start(b, k.relay(b), k.worker(b, rehearsed), k.sweeper(b))
	b.ResetTimer()
	share := max(b.N/actionsPerEpisode/10, 1)
	for tenth := range 10 {
		for done := 0; done < share; done += 500 {
			k.enqueue(b, benchEpisodes(fmt.Sprint("m", tenth, "-", done), min(500, share-done))...)
			await(b, "the episodes are done", func() bool {
				return k.number(b, `SELECT count(*) FROM episode WHERE state = 'open'`) == 0
			})
		}
		if tenth == 0 {
			b.ReportMetric(mebibytes(heap()), "heap-MiB-first-tenth")
			b.ReportMetric(mebibytes(peak(b)), "peak-MiB-first-tenth")
		}
	}
	b.ReportMetric(mebibytes(heap()), "heap-MiB-end")
	b.ReportMetric(mebibytes(peak(b)), "peak-MiB-end")
	b.ReportMetric(0, "ns/op")
}

func mebibytes(n uint64) float64 { return float64(n) / (1 << 20) }

// peak is the most resident memory that this process had.
func peak(tb testing.TB) uint64 {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return uint64(usage.Maxrss) << 10 // Linux counts KiB
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

var (
	_ queue.Store   = (*ledger.Ledger)(nil)
	_ queue.Outbox  = (*ledger.Ledger)(nil)
	_ queue.Backlog = (*ledger.Ledger)(nil)
)
