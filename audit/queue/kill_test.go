package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/queue"
)

// killRounds is how often the kill test strikes; UNDERSTUDY_KILL_ROUNDS overrides.
const killRounds = 40

// strike is what happens at an arrow.
type strike string

const (
	crashService strike = "crash" // the process is gone on the spot
	restartNATS  strike = "nats"  // the server goes away and comes back
	wipeNATS     strike = "wiped" // it comes back with an empty store
	killBackends strike = "db"    // every database connection is terminated
)

// points are the numbered arrows of package queue's comment, in both packages.
func points() []string {
	return []string{"1", "2", "3", "4", "5", "results inserted", "before commit", "after commit", "7", "8", "9", "10"}
}

// killer strikes once a round, at one point.
type killer struct {
	broker *broker
	admin  *pgxpool.Pool
	gate   sync.RWMutex // held while work is put in: no relay passes a claim before the killer is armed

	mu    sync.Mutex
	at    string
	what  strike
	armed bool
	done  chan struct{} // closed by the strike
	hits  map[string]int
	err   error
}

func (k *killer) arm(at string, what strike) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at, k.what, k.armed, k.done = at, what, true, make(chan struct{})
}

// poisoned audits an episode unless it is poison. While the sweeper is to be
// struck the workers wait for it: otherwise they may answer before it finds out
// that the stream has lost the jobs.
func (k *killer) poisoned(ctx context.Context, e audit.Episode) ([]audit.Pair, error) {
	k.mu.Lock()
	done, wait := k.done, k.armed && k.at == "10"
	k.mu.Unlock()
	if wait {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if e.Policy == "poison" {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "poison"}
	}
	return rehearsed(ctx, e)
}

// pass is called by every service at every point.
func (k *killer) pass(ctx context.Context, at string) error {
	if at == "1" {
		k.gate.RLock()
		k.gate.RUnlock() //nolint:staticcheck // nothing is done inside: it waits until work may go
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.armed || k.at != at {
		return nil
	}
	k.armed = false
	close(k.done)
	k.hits[at+" "+string(k.what)]++
	switch k.what {
	case crashService:
		return &queue.CrashError{Point: at}
	case restartNATS, wipeNATS:
		k.err = errors.Join(k.err, k.broker.restart(k.what == wipeNATS))
	case killBackends:
		_, err := k.admin.Exec(context.WithoutCancel(ctx), `
			SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		k.err = errors.Join(k.err, err)
	}
	return nil
}

// undying restarts a service that crashed, as a supervisor would.
type undying struct {
	service
	crashes *atomic.Int32
}

func (u undying) Run(ctx context.Context) error {
	for {
		err := u.service.Run(ctx)
		if _, crashed := errors.AsType[*queue.CrashError](err); !crashed {
			return err
		}
		u.crashes.Add(1)
	}
}

// TestKill strikes worker, NATS and database between every two effects, by a
// fixed schedule, and finds each key exactly once after every round.
func TestKill(t *testing.T) {
	rounds := killRounds
	if text := os.Getenv("UNDERSTUDY_KILL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("UNDERSTUDY_KILL_ROUNDS: %v", err)
		}
		rounds = n
	}
	b, k := setupKill(t)
	var crashes atomic.Int32
	stop := start(t, undying{b.relay(t), &crashes}, undying{b.sweeper(t), &crashes},
		undying{b.worker(t, k.poisoned), &crashes}, undying{b.worker(t, k.poisoned), &crashes})
	var last ledger.Report
	for round := range rounds {
		// Every pair of point and strike comes up before any comes up again.
		at, what := points()[round%len(points())], []strike{crashService, killBackends, restartNATS, wipeNATS}[(round/len(points())+round)%4]
		last = killRound(t, b, k, round, at, what)
		if t.Failed() {
			t.Fatalf("round %d: %s at %s", round, what, at)
		}
	}
	stop()
	if k.err != nil {
		t.Fatal(k.err)
	}
	t.Logf("%d rounds, %d crashes; %d episodes, %d results, %d dead; absorbed: %d duplicates, %d late, %d conflicts; strikes: %v",
		rounds, crashes.Load(), last.Episodes, last.Results, last.Dead, last.Duplicates, last.Late, last.Conflicts, k.hits)
}

func setupKill(t *testing.T) (*bundle, *killer) {
	t.Helper()
	url := postgres.URL(t)
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	admin, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	k := &killer{broker: newBroker(t), admin: admin, hits: map[string]int{}}
	l, err := ledger.New(pool, ledger.Config{Interrupt: k.pass})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.CreateRun(t.Context(), audit.NewRun{Name: "run"}); err != nil {
		t.Fatal(err)
	}
	b := &bundle{Ledger: l, pool: admin, broker: k.broker, js: k.broker.connect(t), run: "run"}
	b.config = queue.Config{
		AckWait: 200 * time.Millisecond, Backoff: time.Millisecond, BackoffCap: 10 * time.Millisecond, InFlight: 2, Attempts: many,
		Poll: 2 * time.Millisecond, Sweep: 20 * time.Millisecond, Lost: 50 * time.Millisecond,
		Interrupt: func(ctx context.Context, arrow queue.Arrow) error { return k.pass(ctx, strconv.Itoa(int(arrow))) },
	}
	return b, k
}

// killRound puts three episodes in, one of them poison, strikes once and waits
// until each has its answer.
func killRound(t *testing.T, b *bundle, k *killer, round int, at string, what strike) ledger.Report {
	t.Helper()
	episodes := newEpisodes("round"+strconv.Itoa(round), 3)
	episodes[2].Policy = "poison"
	// The schedule strikes work on its way, not the importer: an Enqueue that was
	// cut off is called again by its caller.
	if at == "10" { // only a loss makes the sweeper send again
		k.arm(at, what)
		b.enqueue(t, episodes...)
		await(t, "the jobs are in the stream", func() bool {
			return b.number(t, `SELECT count(*) FROM episode WHERE state = 'open' AND sent_at IS NOT NULL`) == len(episodes)
		})
		k.mu.Lock()
		k.err = errors.Join(k.err, k.broker.restart(true))
		k.mu.Unlock()
	} else {
		k.gate.Lock()
		b.enqueue(t, episodes...)
		k.arm(at, what)
		k.gate.Unlock()
	}
	await(t, fmt.Sprintf("round %d has its answers after %s at %s", round, what, at), func() bool {
		var open, done, dead int
		err := b.pool.QueryRow(t.Context(), `
			SELECT count(*) FILTER (WHERE state = 'open'), count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state = 'dead') FROM episode`).Scan(&open, &done, &dead)
		return err == nil && open == 0 && done == 2*(round+1) && dead == round+1
	})
	if at != "8" { // nobody passes that one when the acknowledgements come too late
		select {
		case <-k.done:
		case <-time.After(patience):
			t.Fatal("nothing was struck")
		}
	}
	k.mu.Lock()
	k.armed = false
	k.mu.Unlock()
	report := b.verify(t)
	if report.Pairs != 4*(round+1) || report.Results != 4*(round+1) || report.Conflicts != 0 {
		t.Errorf("%d pairs, %d results, %d conflicts after round %d; want %d of each key once", report.Pairs, report.Results, report.Conflicts, round, 4*(round+1))
	}
	return report
}
