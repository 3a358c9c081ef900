package queue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/queue"
)

// gathering is a ledger that holds its first commit back until the other hands wait
// for it, and refuses each group with a bad episode in it.
type gathering struct {
	*ledger.Ledger
	wait func(size int) // of the first group

	once sync.Once

	mu      sync.Mutex
	sizes   []int // of the groups that were asked for
	commits int   // that happened
}

func (g *gathering) FinishAll(ctx context.Context, finished []audit.Finished) ([]audit.Receipt, error) {
	g.mu.Lock()
	g.sizes = append(g.sizes, len(finished))
	g.mu.Unlock()
	g.once.Do(func() { g.wait(len(finished)) })
	if slices.ContainsFunc(finished, func(f audit.Finished) bool { return f.Job.Episode.Policy == "bad" }) {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "bad episode"}
	}
	receipts, err := g.Ledger.FinishAll(ctx, finished)
	if err == nil {
		g.mu.Lock()
		g.commits++
		g.mu.Unlock()
	}
	return receipts, err
}

func TestBadEpisodeCostsNoneOfItsGroup(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.InFlight = 8
	var said lines
	b.config.Logger = slog.New(slog.NewJSONHandler(&said, nil))
	episodes := newEpisodes("grouped", 24)
	for i := range episodes {
		if i%8 == 5 {
			episodes[i].Policy = "bad"
		}
	}
	b.enqueue(t, episodes...)
	store := &gathering{Ledger: b.Ledger}
	w, err := queue.NewWorker(b.js, store, rehearsed, b.config)
	if err != nil {
		t.Fatal(err)
	}
	store.wait = func(size int) {
		for size+w.Waiting() < b.config.InFlight && t.Context().Err() == nil {
			<-time.After(time.Millisecond)
		}
	}
	stop := start(t, b.relay(t), w)
	await(t, "every episode has its answer", func() bool {
		r := b.progress(t)
		return r.Done == 21 && r.Dead == 3
	})
	stop()
	if report := b.verify(t); report.Results != 42 || report.Dead != 3 || report.Duplicates != 0 {
		t.Errorf("report %+v, want 42 results of 21 episodes, 3 dead and nothing twice", report)
	}
	if largest := slices.Max(store.sizes); largest < 4 { // the first two groups are eight jobs
		t.Errorf("groups of %v jobs, want what was finished meanwhile in one transaction", store.sizes)
	}
	await(t, "no job is left in the stream", func() bool { return b.streamed(t, "AUDIT_JOBS") == 0 })
	said.checkBatches(t, store.commits, 21, 42)
}

// lines keeps what a logger writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// checkBatches wants one line for each commit, and every job and action in one.
func (l *lines) checkBatches(t *testing.T, commits, jobs, actions int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	batches := 0
	for text := range bytes.Lines(l.text.Bytes()) {
		var line struct {
			Msg, Run, Level string
			Jobs, Actions   int
		}
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if line.Msg != "batch committed" {
			continue
		}
		batches, jobs, actions = batches+1, jobs-line.Jobs, actions-line.Actions
		if line.Run != "run" || line.Level != "INFO" || line.Jobs == 0 {
			t.Errorf("%s", text)
		}
	}
	if batches != commits || jobs != 0 || actions != 0 {
		t.Errorf("%d lines of %d commits; %d jobs and %d actions are in none, or in two", batches, commits, jobs, actions)
	}
}
