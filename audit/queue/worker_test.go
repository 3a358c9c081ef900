package queue_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
	"understudy/audit/queue"
)

func TestEveryEpisodeIsAuditedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, newEpisodes("a", 60)...)
	stop := start(t, b.relay(t), b.relay(t), b.worker(t, rehearsed), b.worker(t, rehearsed), b.sweeper(t))
	await(t, "60 episodes are done and announced", func() bool {
		return b.progress(t).Done == 60 && b.number(t, `SELECT count(*) FROM outbox WHERE published_at IS NULL`) == 0
	})
	stop()
	report := b.verify(t)
	if report.Results != 120 || report.Duplicates != 0 || report.Late != 0 {
		t.Errorf("report %+v, want 120 results and nothing twice", report)
	}
	await(t, "no job is left in the stream", func() bool { return b.streamed(t, "AUDIT_JOBS") == 0 })
	if n := b.streamed(t, "AUDIT_RESULTS"); n != 60 {
		t.Errorf("%d announcements, want 60", n)
	}
}

func TestFaultsDecide(t *testing.T) {
	t.Parallel()
	fault := func(f audit.Fault) error {
		return &audit.FaultError{Fault: f, Err: errors.New("handler: " + string(f))}
	}
	for name, row := range map[string]struct {
		handler queue.Handler
		calls   int32
		state   string
		letter  string // what the dead letter's reason holds
		reason  string
	}{
		"transient": {
			handler: func(context.Context, audit.Episode) ([]audit.Pair, error) { return nil, fault(audit.FaultTransient) },
			calls:   3, state: "dead", letter: "handler: transient", reason: "tried Attempts times, then given up",
		},
		"permanent": {
			handler: func(context.Context, audit.Episode) ([]audit.Pair, error) { return nil, fault(audit.FaultPermanent) },
			calls:   1, state: "dead", letter: "handler: permanent", reason: "another try cannot help",
		},
		"undetermined": {
			handler: func(context.Context, audit.Episode) ([]audit.Pair, error) { return nil, fault(audit.FaultUndetermined) },
			calls:   1, state: "undetermined", letter: "handler: undetermined", reason: "recorded, not counted",
		},
		"undetermined with pairs": {
			handler: func(ctx context.Context, e audit.Episode) ([]audit.Pair, error) {
				pairs, _ := rehearsed(ctx, e)
				return pairs, fault(audit.FaultUndetermined)
			},
			calls: 1, state: "done", reason: "the masked pairs are the record",
		},
		"unmarked invalid input": {
			handler: func(context.Context, audit.Episode) ([]audit.Pair, error) {
				return nil, &audit.Error{Code: audit.CodeInvalid, Message: "no such world"}
			},
			calls: 1, state: "dead", letter: "no such world", reason: "input at fault is permanent",
		},
		"panic": {
			handler: func(context.Context, audit.Episode) ([]audit.Pair, error) { panic("boom") },
			calls:   1, state: "dead", letter: "handler panicked: boom", reason: "a panic is a defect: it costs its own job only, and at once",
		},
		"results that no table takes": {
			handler: func(ctx context.Context, e audit.Episode) ([]audit.Pair, error) {
				pairs, err := rehearsed(ctx, e)
				pairs[0].Action.Canary = &audit.CanaryLabel{Level: "unheard of"}
				return pairs, err
			},
			calls: 1, state: "dead", letter: "cannot hold these results", reason: "the database refuses them each time",
		},
		"places that no table takes": {
			handler: func(ctx context.Context, e audit.Episode) ([]audit.Pair, error) {
				pairs, err := rehearsed(ctx, e)
				pairs[0].Action.Step += 1 << 32
				return pairs, err
			},
			calls: 1, state: "dead", letter: "no place of a call", reason: "cut to 32 bits it would be another's",
		},
		"passes": {
			handler: nil, calls: 2, state: "done", reason: "the second try succeeds",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.config.Attempts = 3
			var calls atomic.Int32
			handler := func(ctx context.Context, e audit.Episode) ([]audit.Pair, error) {
				n := calls.Add(1)
				switch {
				case row.handler != nil:
					return row.handler(ctx, e)
				case n == 1:
					return nil, errors.New("not yet")
				default:
					return rehearsed(ctx, e)
				}
			}
			b.enqueue(t, newEpisodes("a", 1)...)
			stop := start(t, b.relay(t), b.worker(t, handler))
			await(t, "the episode is closed", func() bool { return b.progress(t).Open == 0 })
			await(t, "the message is gone", func() bool { return b.streamed(t, "AUDIT_JOBS") == 0 })
			stop()
			b.verify(t)
			var state, letter string
			var deliveries int32
			if err := b.pool.QueryRow(t.Context(), `
				SELECT state, coalesce((SELECT convert_from(reason, 'UTF8') FROM dead_letter d WHERE d.episode = e.id), ''),
					coalesce((SELECT deliveries FROM dead_letter d WHERE d.episode = e.id), 0) FROM episode e`).Scan(&state, &letter, &deliveries); err != nil {
				t.Fatal(err)
			}
			n := calls.Load()
			if row.calls == 3 { // the last attempt; a delivery that never came was one, too
				n = max(n, deliveries)
			}
			if state != row.state || !strings.Contains(letter, row.letter) || (row.letter == "") != (letter == "") || n != row.calls {
				t.Errorf("state %s after %d calls and %d deliveries, letter %q; want %s after %d, %q: %s", state, calls.Load(), deliveries, letter, row.state, row.calls, row.letter, row.reason)
			}
		})
	}
}

// A handler that panics costs the job that it panicked at: the worker goes on
// with the others.
func TestWorkerOutlivesPanics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.InFlight = 1
	var calls atomic.Int32
	b.enqueue(t, newEpisodes("a", 6)...)
	stop := start(t, b.relay(t), b.worker(t, func(ctx context.Context, e audit.Episode) ([]audit.Pair, error) {
		if calls.Add(1)%2 == 1 {
			var none *audit.Episode
			_ = none.Mode // a nil dereference, as a defect would be
		}
		return rehearsed(ctx, e)
	}))
	await(t, "every episode is closed", func() bool { return b.progress(t).Open == 0 })
	stop()
	b.verify(t)
	if done := b.progress(t).Done; done != 3 || calls.Load() != 6 {
		t.Errorf("%d done after %d calls, want 3 after 6: the others panicked once each", done, calls.Load())
	}
	if n := b.number(t, `SELECT count(*) FROM dead_letter WHERE convert_from(reason, 'UTF8') LIKE '%nil pointer dereference%delivery.go%'`); n != 3 {
		t.Errorf("%d dead letters with the panic and its stack, want 3", n)
	}
}

func TestLargeEpisodeTravelsAsReference(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := newEpisodes("large", 1)
	e[0].Actions[0].Prompt = bytes.Repeat([]byte("x"), 2<<20)
	var seen atomic.Int64
	b.enqueue(t, e...)
	stop := start(t, b.relay(t), b.worker(t, func(ctx context.Context, e audit.Episode) ([]audit.Pair, error) {
		seen.Store(int64(len(e.Actions[0].Prompt)))
		return rehearsed(ctx, e)
	}))
	await(t, "the large episode is done", func() bool { return b.progress(t).Done == 1 })
	stop()
	if seen.Load() != 2<<20 {
		t.Errorf("the handler saw a prompt of %d bytes, want %d", seen.Load(), 2<<20)
	}
	b.verify(t)
	if n := b.number(t, `SELECT count(*) FROM body WHERE truncated AND size = 2 * 1024 * 1024`); n != 1 {
		t.Errorf("%d truncated bodies, want 1: the prompt is beyond the cap", n)
	}
}

func TestStopFinishesWhatIsHeld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.InFlight = 3
	begun, finish := make(chan struct{}, 10), make(chan struct{})
	worker := b.worker(t, func(ctx context.Context, e audit.Episode) ([]audit.Pair, error) {
		begun <- struct{}{}
		select {
		case <-finish:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		return rehearsed(ctx, e)
	})
	b.enqueue(t, newEpisodes("a", 10)...)
	b.flush(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	for range 3 {
		<-begun
	}
	cancel()
	close(finish)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if r := b.progress(t); r.Done != 3 || len(begun) != 0 {
		t.Errorf("%d done, %d more begun; want the 3 that were held and no other", r.Done, len(begun))
	}
	await(t, "what is done is acknowledged", func() bool { return b.streamed(t, "AUDIT_JOBS") == 7 })
	b.verify(t)
}

// told is a context that has ended since it was first asked.
type told struct{ asked int }

func (*told) Deadline() (deadline time.Time, ok bool) { return }
func (*told) Value(any) any                           { return nil }

func (*told) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (c *told) Err() error {
	if c.asked++; c.asked == 1 {
		return nil
	}
	return context.Canceled
}

// A worker that is told to stop while it waits for a hand, and sees both at once, takes
// no more work: what it holds by then is finished before the hand is free.
func TestStopComesBeforeAFreeHand(t *testing.T) {
	t.Parallel()
	for range 100 { // a select takes either of two that are ready
		if n := queue.Take(&told{}, 3); n != 0 {
			t.Fatalf("%d hands were taken after the end, want none", n)
		}
	}
}

func TestGraceEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Grace = 20 * time.Millisecond
	begun := make(chan struct{}, 1)
	worker := b.worker(t, func(ctx context.Context, _ audit.Episode) ([]audit.Pair, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	b.enqueue(t, newEpisodes("a", 1)...)
	b.flush(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	<-begun
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if r := b.progress(t); r.Open != 1 {
		t.Errorf("progress %+v, want the job open for another worker", r)
	}
	stop := start(t, b.worker(t, rehearsed))
	await(t, "another worker does it", func() bool { return b.progress(t).Done == 1 })
	stop()
}

// A handler that takes longer than AckWait keeps its message by heartbeats. A machine that
// stops a worker for that long breaks the promise, so that AckWait grows until one is kept.
func TestSlowHandlerKeepsItsMessage(t *testing.T) {
	t.Parallel()
	var calls []int32
	for wait := 600 * time.Millisecond; wait < time.Minute; wait *= 2 {
		calls = append(calls, slowly(t, wait))
		if calls[len(calls)-1] == 1 {
			return
		}
	}
	t.Errorf("%d workers did one episode, want 1 at last: heartbeats keep the message", calls)
}

// slowly audits one episode for longer than AckWait beside an idle worker, and says how
// often it was begun.
func slowly(t *testing.T, wait time.Duration) int32 {
	t.Helper()
	b := setup(t)
	b.config.AckWait = wait
	var calls atomic.Int32
	slow := func(ctx context.Context, e audit.Episode) ([]audit.Pair, error) {
		calls.Add(1)
		timer := time.NewTimer(wait * 4 / 3)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return rehearsed(ctx, e)
	}
	b.enqueue(t, newEpisodes("a", 1)...)
	stop := start(t, b.relay(t), b.worker(t, slow), b.worker(t, slow))
	await(t, "the slow episode is done", func() bool { return b.progress(t).Done == 1 })
	stop()
	return calls.Load()
}

func TestEmptyStoreLosesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// What the old server had handed out is lost; the calls to it are given up soon.
	b.config.AckWait, b.config.Attempts = 300*time.Millisecond, many
	b.enqueue(t, newEpisodes("a", 20)...)
	b.flush(t)
	stop := start(t, b.relay(t), b.worker(t, rehearsed), b.sweeper(t))
	if err := b.broker.restart(true); err != nil {
		t.Fatal(err)
	}
	await(t, "all 20 are done although the stream lost them", func() bool { return b.progress(t).Done == 20 })
	stop()
	b.verify(t)
}

func TestSilentMessagesAreSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, newEpisodes("a", 1)...)
	b.flush(t)
	// Somebody configured MaxDeliver, and its last delivery went unanswered.
	consumer, err := b.js.UpdateConsumer(t.Context(), "AUDIT_JOBS", jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 50 * time.Millisecond, MaxAckPending: 4096, MaxDeliver: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := consumer.Next(jetstream.FetchMaxWait(patience)); err != nil {
		t.Fatal(err)
	}
	await(t, "the message is silent", func() bool {
		// An expired message is noticed when somebody asks for the next one.
		_, _ = consumer.Next(jetstream.FetchMaxWait(20 * time.Millisecond))
		info, err := consumer.Info(t.Context())
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0
	})
	if n := b.streamed(t, "AUDIT_JOBS"); n != 1 {
		t.Fatalf("%d messages in the stream, want the silent one", n)
	}
	if resent := b.sweep(t); resent != 1 {
		t.Fatalf("sweep sent %d again, want 1", resent)
	}
	stop := start(t, b.relay(t), b.worker(t, rehearsed))
	await(t, "the silent job is done", func() bool { return b.progress(t).Done == 1 })
	stop()
	b.verify(t)
}

func TestFullStreamMakesTheRelayWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.MaxMessages = 5
	b.enqueue(t, newEpisodes("a", 40)...)
	stop := start(t, b.relay(t), b.worker(t, rehearsed))
	await(t, "40 jobs went through a stream of 5", func() bool { return b.progress(t).Done == 40 })
	stop()
	b.verify(t)
}

func TestRepublishedMessageIsDroppedByItsID(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, newEpisodes("a", 3)...)
	crash := b.config
	crash.Interrupt = func(_ context.Context, arrow queue.Arrow) error {
		if arrow == queue.AfterPublish {
			return &queue.CrashError{Point: "publish"}
		}
		return nil
	}
	relay, err := queue.NewRelay(b.js, b.Ledger, crash)
	if err != nil {
		t.Fatal(err)
	}
	if err := relay.Run(t.Context()); err == nil {
		t.Fatal("the relay did not crash")
	}
	if n := b.number(t, `SELECT count(*) FROM outbox WHERE published_at IS NULL`); n != 3 {
		t.Fatalf("%d unpublished messages, want 3: the crash came before the mark", n)
	}
	b.flush(t)
	if n := b.streamed(t, "AUDIT_JOBS"); n != 3 {
		t.Errorf("%d messages in the stream, want 3: the second time they are duplicates", n)
	}
	if resent := b.sweep(t); resent != 0 {
		t.Errorf("sweep sent %d again, want 0: the stream has them", resent)
	}
}

func TestDroppedRunEndsItsMessages(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, newEpisodes("a", 2)...)
	b.flush(t)
	if err := b.DropRun(t.Context(), b.run); err != nil {
		t.Fatal(err)
	}
	stop := start(t, b.worker(t, rehearsed))
	await(t, "the messages of the dropped run are gone", func() bool { return b.streamed(t, "AUDIT_JOBS") == 0 })
	stop()
	b.verify(t)
}

func TestConfigListsEveryFault(t *testing.T) {
	t.Parallel()
	err := queue.Config{Prefix: "a.b", Attempts: -1, InFlight: -2, Replicas: 9, Backoff: time.Hour}.Validate()
	for _, want := range []string{"prefix", "attempts", "in-flight", "replicas", "back-off"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}
