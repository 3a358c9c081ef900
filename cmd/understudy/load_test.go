package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/audit/ledger"
)

const (
	// loadProducers is more than the batches that the hook takes at once, so that
	// some are told to come back.
	loadProducers = 96
	// loadBatch is the outputs of one batch: trainers send at least so many.
	loadBatch = 16
	// backlog is how many episodes the queue's producer keeps waiting at most.
	backlog = 400
)

// load is a service that is asked for as much as it can do.
type load struct {
	t       *testing.T
	service *service
	pool    *pgxpool.Pool
	ledger  *ledger.Ledger
	cases   []trainerCase
	client  *http.Client

	batches, busy, unavailable, misled atomic.Int64
	queued                             atomic.Int64
	viewers, moved                     atomic.Int64
	serial                             atomic.Int64

	mu   sync.Mutex
	paid map[audit.Digest]float64
}

// TestLoad asks a service for rewards and queues episodes as fast as it takes
// them, with people watching, for a while (UNDERSTUDY_LOAD, 2 s in `make test`),
// then stops it in the middle of that: memory stays flat, whoever asks for too
// much is told when to come back, and nothing that was answered or queued is lost.
func TestLoad(t *testing.T) {
	lasting, viewers := 2*time.Second, 50
	if text := os.Getenv("UNDERSTUDY_LOAD"); text != "" {
		var err error
		if lasting, err = time.ParseDuration(text); err != nil {
			t.Fatalf("UNDERSTUDY_LOAD: %v", err)
		}
		viewers = 1000
	}
	l := newLoad(t)
	heaps := l.run(lasting, viewers)
	l.settle()
	t.Logf("load: %s with %d viewers (%d events): %.0f outputs/s answered in %d batches, %d told to come back (429), %d when stopping (503); %.0f episodes/s queued; heap after GC %.1f MiB at 10 %%, %.1f MiB at the end",
		lasting, viewers, l.moved.Load(), float64(loadBatch*l.batches.Load())/lasting.Seconds(), l.batches.Load(), l.busy.Load(), l.unavailable.Load(),
		float64(l.queued.Load())/lasting.Seconds(), heaps[0], heaps[1])
	if l.misled.Load() > 0 {
		t.Errorf("%d refusals without Retry-After", l.misled.Load())
	}
	if lasting >= time.Minute && heaps[1] > 1.5*heaps[0]+16 {
		t.Errorf("the heap grew from %.1f to %.1f MiB", heaps[0], heaps[1])
	}
}

func newLoad(t *testing.T) *load {
	t.Helper()
	dsn := postgres.URL(t)
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l := &load{
		t: t, pool: pool, cases: trainerCases(t), paid: map[audit.Digest]float64{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * loadProducers}},
	}
	t.Cleanup(l.client.CloseIdleConnections)
	if l.ledger, err = ledger.New(pool, ledger.Config{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ledger.CreateRun(t.Context(), audit.NewRun{Name: "load"}); err != nil {
		t.Fatal(err)
	}
	l.service = serve(t, nil, "--database-url", dsn, "--data-dir", folder(t), "--log-level", "info")
	return l
}

// run keeps the load up for the time, measures the heap at a tenth of it and at
// its end, and stops the service while the load goes on.
func (l *load) run(lasting time.Duration, viewers int) (heaps [2]float64) {
	l.t.Helper()
	asking, stop := context.WithCancel(l.t.Context())
	defer stop()
	var group errgroup.Group
	for range loadProducers {
		group.Go(func() error { return l.score(asking) })
	}
	group.Go(func() error { return l.enqueue(asking) })
	watching, leave := context.WithCancel(l.t.Context())
	defer leave()
	var watchers sync.WaitGroup
	for range viewers {
		watchers.Go(func() { l.watch(watching) })
	}
	pause(l.t, lasting/10)
	heaps[0] = l.heap()
	pause(l.t, lasting-lasting/10)
	heaps[1] = l.heap()
	// However slow the machine is, it is stopped in the middle of work of every kind.
	for deadline := time.Now().Add(patience); l.viewers.Load() < int64(viewers) || l.batches.Load() == 0 || l.queued.Load() == 0; pause(l.t, 10*time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("%d of %d viewers are served, %d batches answered, %d episodes queued", l.viewers.Load(), viewers, l.batches.Load(), l.queued.Load())
		}
	}
	began := time.Now()
	_ = l.service.cmd.Process.Signal(syscall.SIGTERM)
	<-l.service.exited
	took := time.Since(began)
	stop()
	if err := group.Wait(); err != nil {
		l.t.Error(err)
	}
	watchers.Wait() // the service ended their streams
	if status := l.service.cmd.ProcessState.ExitCode(); status != 0 {
		l.t.Errorf("a service that is stopped under load: status %d\n%s", status, l.service.said)
	}
	l.t.Logf("stopped under load in %s", took.Round(time.Millisecond))
	return heaps
}

// pause waits: load is made of time.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(d):
	}
}

// score sends batches until ctx ends or the service is gone.
func (l *load) score(ctx context.Context) error {
	for ctx.Err() == nil {
		n := l.serial.Add(1)
		batch := audit.ScoreBatch{Policy: "load", Run: "paid", Checkpoint: n / 1000}
		for len(batch.Outputs) < loadBatch {
			batch.Outputs = append(batch.Outputs, outputs(l.cases, fmt.Sprintf("e%d-%d", n, len(batch.Outputs)))...)
		}
		batch.Outputs = batch.Outputs[:loadBatch]
		text, err := json.Marshal(batch)
		if err != nil {
			return err
		}
		for again := true; again && ctx.Err() == nil; {
			if again, err = l.send(ctx, text); err != nil {
				return err
			}
		}
	}
	return nil
}

// send sends a batch once; again: the service said to come back.
func (l *load) send(ctx context.Context, text []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.service.url+"/v1/score", bytes.NewReader(text))
	if err != nil {
		return false, err
	}
	res, err := l.client.Do(req)
	if err != nil {
		pause(l.t, time.Millisecond)
		return false, nil // the service is stopping
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return false, nil // the service is stopping
	case res.StatusCode == http.StatusTooManyRequests:
		l.busy.Add(1)
		seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
		if err != nil {
			l.misled.Add(1)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(seconds) * time.Second):
		}
		return true, nil
	case res.StatusCode == http.StatusServiceUnavailable:
		l.unavailable.Add(1)
		pause(l.t, time.Millisecond)
		return false, nil
	case res.StatusCode != http.StatusOK:
		return false, fmt.Errorf("score: %d %s", res.StatusCode, body)
	}
	var scores audit.ScoredBatch
	if err := json.Unmarshal(body, &scores); err != nil {
		return false, err
	}
	l.batches.Add(1)
	return false, l.note(scores)
}

// note remembers what was paid.
func (l *load) note(scores audit.ScoredBatch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range scores.Scores {
		if r.Status == audit.RewardPending {
			continue
		}
		if before, ok := l.paid[r.ID]; ok && before != r.Term {
			return fmt.Errorf("payee %s was told %v and then %v", r.ID, before, r.Term)
		}
		l.paid[r.ID] = r.Term
	}
	return nil
}

// enqueue keeps the queue's backlog full: a producer that is not asked to wait by
// anybody looks at it himself.
func (l *load) enqueue(ctx context.Context) error {
	for n := 0; ctx.Err() == nil; {
		var open int
		if err := l.pool.QueryRow(ctx, `SELECT count(*) FROM episode WHERE state = 'open'`).Scan(&open); err != nil {
			if ctx.Err() == nil {
				return err
			}
			break
		}
		var episodes []audit.Episode
		for ; open < backlog; open++ {
			c := l.cases[n%len(l.cases)]
			n++
			name := "q" + strconv.Itoa(n)
			episodes = append(episodes, audit.Episode{
				ID: name, PromptGroup: name, Policy: "load", WireAPI: "recorded", Environment: "retail-mini@1", Mode: audit.Forced,
				Actions: []audit.Action{{Call: c.Call, Prompt: json.RawMessage(strconv.Quote(name)), Rehearsal: &audit.Rehearsal{Raw: []byte(c.Truth)}}},
			})
		}
		queued, err := l.ledger.Enqueue(context.WithoutCancel(ctx), "load", episodes)
		if err != nil {
			return err
		}
		l.queued.Add(int64(queued))
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// watch is a browser with a live page. It comes back when it is cut off, as
// browsers do, until the service is gone.
func (l *load) watch(ctx context.Context) {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.service.url+"/events?run=load", http.NoBody)
		if err != nil {
			l.t.Error(err)
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		l.viewers.Add(1)
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "event: moved") {
				l.moved.Add(1)
			}
		}
		_ = res.Body.Close()
		l.viewers.Add(-1)
		select {
		case <-l.service.exited:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// heap is what the service holds after a collection, in MiB.
func (l *load) heap() float64 {
	l.t.Helper()
	status, text := get(l.t, l.service.url+"/debug/pprof/heap?"+url.Values{"gc": {"1"}, "debug": {"1"}}.Encode())
	found := regexp.MustCompile(`# HeapAlloc = (\d+)`).FindStringSubmatch(text)
	if status != http.StatusOK || found == nil {
		l.t.Fatalf("the heap's profile: %d %.200s", status, text)
	}
	n, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		l.t.Fatal(err)
	}
	return n / (1 << 20)
}

// settle starts another service, which finishes what the first one left, and finds
// everything that was answered or queued.
func (l *load) settle() {
	l.t.Helper()
	ctx := l.t.Context()
	report, err := l.ledger.Verify(ctx)
	if err = errors.Join(err, report.Err()); err != nil {
		l.t.Errorf("verify after the stop: %v", err)
	}
	next := serve(l.t, nil, "--database-url", l.pool.Config().ConnString(), "--data-dir", folder(l.t), "--ack-wait", "3s")
	for deadline := time.Now().Add(2 * patience); ; pause(l.t, 50*time.Millisecond) {
		var open, done int
		err := l.pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE state = 'open'), count(*) FILTER (WHERE state = 'done' AND results = samples)
			FROM episode WHERE run = (SELECT id FROM run WHERE name = 'load')`).Scan(&open, &done)
		if err != nil {
			l.t.Fatal(err)
		}
		if open == 0 {
			if done != int(l.queued.Load()) {
				l.t.Errorf("%d episodes were queued, %d are done", l.queued.Load(), done)
			}
			break
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("%d episodes stay open: %s", open, next.said)
		}
	}
	next.stop()
	ids := make([][]byte, 0, len(l.paid))
	for id := range l.paid {
		ids = append(ids, id[:])
	}
	var stored int
	if err := l.pool.QueryRow(ctx, `SELECT count(*) FROM score WHERE id = ANY($1)`, ids).Scan(&stored); err != nil {
		l.t.Fatal(err)
	}
	if stored != len(ids) || stored == 0 {
		l.t.Errorf("%d rewards were answered, %d are in the ledger", len(ids), stored)
	}
	report, err = l.ledger.Verify(ctx)
	if err = errors.Join(err, report.Err()); err != nil {
		l.t.Errorf("verify at the end: %v", err)
	}
}
