package train_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
	"understudy/audit/queue"
	"understudy/audit/queue/embedded"
	"understudy/envace/train"
)

// farm is the queue's, as a training knows it.
type farm struct{ *queue.Farm }

func (f farm) Do(ctx context.Context, pieces []train.Piece, take func(string, []byte) error) error {
	all := make([]queue.Piece, len(pieces))
	for i, p := range pieces {
		all[i] = queue.Piece(p)
	}
	return f.Farm.Do(ctx, all, take)
}

func (f farm) Work(ctx context.Context, do func(context.Context, train.Piece) ([]byte, error)) error {
	return f.Farm.Work(ctx, func(ctx context.Context, p queue.Piece) ([]byte, error) { return do(ctx, train.Piece(p)) })
}

// patience is for a server that has hardly a processor to itself.
const patience = 5 * time.Minute

// yard is a JetStream server of its own.
func yard(t *testing.T) jetstream.JetStream {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	conn, err := server.Connect(nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// farmOn is a farm whose pieces come again soon, however often: on a slow machine a worker
// that lives falls silent, too.
func farmOn(t *testing.T, js jetstream.JetStream, config queue.Config) farm {
	t.Helper()
	config.AckWait = 2 * time.Second // and a call may take five times as long
	config.Attempts = cmp.Or(config.Attempts, 1<<30)
	f, err := queue.NewFarm(js, "lesson", config)
	if err != nil {
		t.Fatal(err)
	}
	return farm{f}
}

// tampered changes what a farm fetches or does.
type tampered struct {
	train.Farm
	do func(train.Piece) error
}

func (f tampered) Work(ctx context.Context, do func(context.Context, train.Piece) ([]byte, error)) error {
	return f.Farm.Work(ctx, func(ctx context.Context, p train.Piece) ([]byte, error) {
		if err := f.do(p); err != nil {
			return nil, err
		}
		return do(ctx, p)
	})
}

// quick is a lesson with hardly a warm start, and its folder.
func quick(t *testing.T) (train.Config, train.Runtime) {
	t.Helper()
	c := lesson(t)
	c.Recipe.WarmStart.Steps, c.Recipe.WarmStart.Every, c.Recipe.WarmStart.Tasks = 12, 12, 2
	c.Recipe.Rollout.Prompts, c.Recipe.Rollout.Rollouts = 3, 3
	return c, machine(t.TempDir())
}

// steps opens the run, makes n steps and saves what they came to.
func steps(t *testing.T, c train.Config, r train.Runtime, n int) (folder string, metrics [][]audit.Metric) {
	t.Helper()
	trainer, err := train.Open(t.Context(), c, r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trainer.Close() }()
	for range n {
		m, err := trainer.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		metrics = append(metrics, m)
	}
	folder = t.TempDir()
	if err := trainer.Save(folder); err != nil {
		t.Fatal(err)
	}
	return folder, metrics
}

// Two steps whose rollouts workers did are those of one process, bit for bit, though
// one worker dies with a rollout in hand and another after it sent one back.
func TestRolloutsElsewhere(t *testing.T) {
	t.Parallel()
	c, r := quick(t)
	here, wanted := steps(t, c, r, 2)

	js := yard(t)
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	t.Cleanup(workers.Wait) // they write to the test's log
	var done, deaths atomic.Int64
	work := func(f train.Farm) {
		workers.Go(func() {
			err := train.RollOut(ctx, c, r, f, t.TempDir()) // it waits for the run
			if crash, ok := errors.AsType[*queue.CrashError](err); ok && crash != nil {
				deaths.Add(1)
			} else if err != nil && ctx.Err() == nil {
				t.Errorf("a worker ended: %v", err)
			}
		})
	}
	var before, after atomic.Int64
	work(tampered{farmOn(t, js, queue.Config{InFlight: 2}), func(train.Piece) error {
		if before.Add(1) == 2 {
			return &queue.CrashError{Point: "a rollout in hand"}
		}
		return nil
	}})
	work(farmOn(t, js, queue.Config{InFlight: 1, Interrupt: func(_ context.Context, arrow queue.Arrow) error {
		if arrow == queue.AfterCommit && after.Add(1) == 2 {
			return &queue.CrashError{Point: "before the ack"}
		}
		return nil
	}}))
	work(tampered{farmOn(t, js, queue.Config{InFlight: 2}), func(train.Piece) error {
		done.Add(1)
		return nil
	}})
	dealing := c // the workers read c
	dealing.Farm = farmOn(t, js, queue.Config{})
	there, got := steps(t, dealing, r, 2)
	stop()
	workers.Wait()
	if weights(t, here) != weights(t, there) {
		t.Error("the parameters after two steps differ from those of one process")
	}
	for i := range wanted {
		for j := range wanted[i] {
			if wanted[i][j] != got[i][j] {
				t.Errorf("step %d: %+v here, %+v with workers", i+1, wanted[i][j], got[i][j])
			}
		}
	}
	t.Logf("%d workers died, the steady one did %d of 18 rollouts", deaths.Load(), done.Load())
}

// A worker with another recipe, format or seed says so, and does nothing.
func TestWorkerOfAnotherRun(t *testing.T) {
	t.Parallel()
	c, r := quick(t)
	js := yard(t)
	f := farmOn(t, js, queue.Config{})
	waiting, give := context.WithCancel(t.Context())
	early := c
	early.Progress = func(line string) {
		if !strings.Contains(line, "waiting for it") {
			t.Errorf("without a run it says %q", line)
		}
		give()
	}
	if err := train.RollOut(waiting, early, r, f, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("without a run: %v", err)
	}
	notice, err := train.NoticeOf(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Post(t.Context(), notice); err != nil {
		t.Fatal(err)
	}
	other := c
	other.Recipe.Rollout.Temperature, other.Seed, other.Train = 0.5, 4, c.Train[:12]
	err = train.RollOut(t.Context(), other, r, f, t.TempDir())
	if audit.ErrorCode(err) != audit.CodeConflict || audit.ErrorHint(err) == "" {
		t.Fatalf("another run: %v", err)
	}
	other.Rules, err = audit.ParseRules([]byte(`version: "1"`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = train.RollOut(t.Context(), other, r, f, t.TempDir())
	for _, part := range []string{"recipe is", "seed is 3 there and 4 here", "tasks is", "rules of answers is"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	same := c
	same.Recipe.Steps, same.Recipe.Evaluation.Every = 99, 7 // how long it is does not matter
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := train.RollOut(ctx, same, r, f, t.TempDir()); audit.ErrorCode(err) == audit.CodeConflict {
		t.Errorf("a longer run: %v", err)
	}
}

// Weights are what their digest says, or an error.
func TestFarmBlobs(t *testing.T) {
	t.Parallel()
	js := yard(t)
	f := farmOn(t, js, queue.Config{})
	content := bytes.Repeat([]byte("weights "), 100_000) // several chunks
	digest, err := f.Put(t.Context(), bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	var back bytes.Buffer
	if err := f.Get(t.Context(), digest, &back); err != nil || !bytes.Equal(back.Bytes(), content) {
		t.Fatalf("%d bytes came back, %v", back.Len(), err)
	}
	store, err := js.ObjectStore(t.Context(), "AUDIT_BLOBS")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutBytes(t.Context(), "lesson/"+digest, content[8:]); err != nil {
		t.Fatal(err)
	}
	if err := f.Get(t.Context(), digest, io.Discard); audit.ErrorCode(err) != audit.CodeConflict {
		t.Errorf("other content under the digest: %v", err)
	}
	if err := f.Drop(t.Context(), digest); err != nil {
		t.Fatal(err)
	}
	if err := f.Get(t.Context(), digest, io.Discard); !errors.Is(err, queue.ErrStale) {
		t.Errorf("what was dropped: %v", err)
	}
}

// A return whose data was taken by a run that died before it said so is dropped, and
// the piece is done again.
func TestFarmReturnThatIsGone(t *testing.T) {
	t.Parallel()
	js := yard(t)
	f := farmOn(t, js, queue.Config{})
	ctx := t.Context()
	fail := func(id string, _ []byte) error { return fmt.Errorf("piece %s came back", id) }
	if err := f.Do(ctx, nil, fail); err != nil { // makes the streams
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "audit.return.lesson", []byte(`{"id":"1","version":"v","blob":"00"}`)); err != nil {
		t.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		done <- f.Work(work, func(context.Context, train.Piece) ([]byte, error) { return []byte("again"), nil })
	}()
	var got string
	err := f.Do(ctx, []train.Piece{{ID: "1", Version: "v"}}, func(_ string, data []byte) error {
		got = string(data)
		return nil
	})
	stop()
	if err != nil || got != "again" {
		t.Errorf("%q came back, %v", got, err)
	}
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// stalled is a JetStream that does not answer the first few requests for a stream.
type stalled struct {
	jetstream.JetStream
	silent atomic.Int64
}

func (s *stalled) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if s.silent.Add(-1) >= 0 {
		return nil, nats.ErrTimeout
	}
	return s.JetStream.Stream(ctx, name)
}

func (s *stalled) CreateOrUpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	if s.silent.Add(-1) >= 0 {
		return nil, nats.ErrTimeout
	}
	return s.JetStream.CreateOrUpdateStream(ctx, c)
}

// A server that does not answer for a while ends no step, neither where the run asks it
// nor where a worker does; a piece that fails of it again and again does.
func TestFarmOutlastsAStall(t *testing.T) {
	t.Parallel()
	js := yard(t)
	slow := &stalled{JetStream: js}
	slow.silent.Store(5)
	away := &audit.Error{Code: audit.CodeInfrastructure, Message: "the weights do not come"}
	for _, test := range []struct {
		fails, tries int
		fault        string
	}{{1, 2, ""}, {9, 3, "piece 1 cannot be done: fetch: the weights do not come"}} {
		tries := 0 // one after the other
		work, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- farmOn(t, js, queue.Config{InFlight: 1, Attempts: 3}).Work(work, func(context.Context, train.Piece) ([]byte, error) {
				if tries++; tries <= test.fails {
					return nil, fmt.Errorf("fetch: %w", away)
				}
				return []byte("done"), nil
			})
		}()
		err := farmOn(t, slow, queue.Config{}).Do(t.Context(), []train.Piece{{ID: "1", Version: "v"}}, func(string, []byte) error { return nil })
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := fmt.Sprint(err); tries != test.tries || (err == nil) != (test.fault == "") || err != nil && !strings.Contains(got, test.fault) {
			t.Errorf("of %d tries %d failed, and the run says %v; want %d tries and %q", tries, test.fails, err, test.tries, test.fault)
		}
	}
	if slow.silent.Load() >= 0 {
		t.Error("the server was never silent")
	}
}
