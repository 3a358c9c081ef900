package queue_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

// hookBatch is the batch of the figures.
const hookBatch = 256

// BenchmarkHook scores batches of 256 outputs of the Starlark retail domain with
// their rehearsals, verdicts and payments committed to a durable PostgreSQL: the
// wall time of a batch (p50, p99), and audits a second with two trainers beside
// those of the audit itself, which the same sandbox and ledger give in the same
// run, an episode of ten calls a transaction, by four hands.
//
//	go test ./audit/queue -run - -bench Hook -benchtime 40x
func BenchmarkHook(b *testing.B) {
	for _, samples := range []int{1, 4} {
		b.Run("samples="+strconv.Itoa(samples), func(b *testing.B) { benchmarkHook(b, samples) })
	}
}

func benchmarkHook(b *testing.B, samples int) {
	b.Helper()
	before := debug.SetGCPercent(400)
	b.Cleanup(func() { debug.SetGCPercent(before) })
	registry := sandbox.New(domains.FS())
	b.Cleanup(func() { _ = registry.Close() })
	var durable ledgertest.Server
	durable.Durable = true
	b.Cleanup(func() { _ = durable.Close() })
	pool := durable.Pool(b)
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		b.Fatal(err)
	}
	hook, err := audit.NewHook(audit.HookConfig{Store: l, Audit: audit.Config{Opener: registry}, Secret: []byte("s")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = hook.Close() })
	solved := solvedEpisodes(b, registry)
	n := 0
	next := func() audit.ScoreBatch {
		n++
		return hookOutputs(solved, n, samples)
	}
	score := func() time.Duration {
		batch := next()
		began := time.Now()
		scores, err := hook.Score(b.Context(), batch)
		if err != nil || scores.Pending > 0 || scores.Scores[0].Status != audit.RewardScored {
			b.Fatalf("%+v %v", scores.Scores[0], err)
		}
		return time.Since(began)
	}
	for range 3 {
		score() // plans, pages and states of a service that has been up for a moment
	}
	var walls []time.Duration
	cpu, server := cpuTime(b), serverTime(b, pool)
	for b.Loop() {
		walls = append(walls, score())
	}
	scored := float64(len(walls) * hookBatch)
	used, serverUsed := cpuTime(b)-cpu, serverTime(b, pool)-server
	slices.Sort(walls)
	rate := float64(hookBatch*inFlight*len(walls)) / together(b, hook, next, len(walls)).Seconds()
	plain := plainAudits(b, registry, l, solved, inFlight*len(walls)*hookBatch)
	b.ReportMetric(float64(walls[len(walls)/2].Microseconds())/1e3, "p50-ms")
	b.ReportMetric(float64(walls[min(len(walls)-1, len(walls)*99/100)].Microseconds())/1e3, "p99-ms")
	b.ReportMetric(float64(used.Microseconds())/scored, "cpu-µs/audit")
	b.ReportMetric(float64(serverUsed.Microseconds())/scored, "postgres-µs/audit")
	b.ReportMetric(rate, "audits/s")
	b.ReportMetric(rate/plain, "of-audit")
	b.ReportMetric(0, "ns/op")
}

// inFlight is how many batches are asked for at once where throughput is measured:
// a trainer that waits for each leaves one core idle while the other commits.
const inFlight = 2

// together scores n batches by each of inFlight trainers.
func together(b *testing.B, hook *audit.Hook, next func() audit.ScoreBatch, n int) time.Duration {
	b.Helper()
	var batches [inFlight][]audit.ScoreBatch
	for i := range batches {
		for range n {
			batches[i] = append(batches[i], next())
		}
	}
	began := time.Now()
	var group errgroup.Group
	for _, mine := range batches {
		group.Go(func() error {
			for _, batch := range mine {
				if _, err := hook.Score(b.Context(), batch); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// hookOutputs are 256 outputs of rollouts of ten calls, each call with its
// samples, under a training step of their own.
func hookOutputs(solved []audit.Episode, step, samples int) audit.ScoreBatch {
	batch := audit.ScoreBatch{Policy: "bench", Checkpoint: int64(step)}
	for e := 0; len(batch.Outputs) < hookBatch; e++ {
		episode := &solved[e%len(solved)]
		var history []audit.Earlier
		for i := range episode.Actions {
			a := &episode.Actions[i]
			for k := range samples {
				if len(batch.Outputs) == hookBatch {
					return batch
				}
				batch.Outputs = append(batch.Outputs, audit.Output{
					Environment: "retail@1", Episode: fmt.Sprint(episode.ID, "-", step, "-", e/len(solved)), PromptGroup: episode.ID,
					History: history[:i:i], Call: a.Call, Rehearsal: new(string(a.Rehearsal.Raw)), Sample: new(k),
				})
			}
			history = append(history[:i:i], audit.Earlier{Call: a.Call})
		}
	}
	return batch
}

// plainAudits audits n actions without the hook: episodes side by side on as many
// hands, each committed in its transaction. It returns audits a second.
func plainAudits(b *testing.B, opener audit.Opener, l *ledger.Ledger, solved []audit.Episode, n int) float64 {
	b.Helper()
	auditor, err := audit.New(audit.Config{Opener: opener})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = auditor.Close() }()
	if _, err := l.CreateRun(b.Context(), audit.NewRun{Name: "plain"}); err != nil {
		b.Fatal(err)
	}
	const hands = 4
	type result struct {
		audits int
		err    error
	}
	work, results := make(chan audit.Episode), make(chan result)
	for range hands {
		go func() {
			r := result{}
			for e := range work {
				pairs, err := auditor.Run(context.WithoutCancel(b.Context()), l, "plain", &e)
				r.audits += len(pairs)
				if err != nil {
					r.err = err
				}
			}
			results <- r
		}()
	}
	began := time.Now()
	for i, sent := 0, 0; sent < n; i++ {
		e := solved[i%len(solved)]
		e.Policy = "plain-" + strconv.Itoa(i/len(solved))
		work <- e
		sent += len(e.Actions)
	}
	close(work)
	audits := 0
	for range hands {
		r := <-results
		if r.err != nil {
			b.Fatal(r.err)
		}
		audits += r.audits
	}
	return float64(audits) / time.Since(began).Seconds()
}
