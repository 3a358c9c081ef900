package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
)

// Store is what a worker needs of the ledger. Each method is idempotent and
// returns only after COMMIT.
type Store interface {
	// Load reads an episode that was too large for its message.
	Load(ctx context.Context, job audit.Job) (*audit.Episode, error)
	// FinishAll stores the results of different jobs of one run and closes them,
	// all of them or none.
	FinishAll(ctx context.Context, finished []audit.Finished) ([]audit.Receipt, error)
	// Bury gives a job up and keeps the reason.
	Bury(ctx context.Context, job audit.Job, burial audit.Burial) error
}

// Handler audits one episode. It is called for different episodes at once and
// may be called again for the same one. The fault of its error decides:
// transient is tried again, permanent becomes a dead letter, undetermined is
// recorded with the pairs that came along, or as a job without an answer.
type Handler func(ctx context.Context, episode audit.Episode) ([]audit.Pair, error)

// ErrStop is the cause of a handler's cancelled context when a stopped worker's
// grace is over.
var ErrStop = errors.New("the worker stops")

// fetchWait is how long a worker asks for messages at a time, and so the most
// that an idle one takes to stop.
const fetchWait = 500 * time.Millisecond

// Worker pulls episodes, audits them and stores the results. Any number of
// workers may run at once, in any number of processes.
type Worker struct {
	streams
	store  Store
	handle Handler
	group  group
	newer  sync.Once // said that a newer program's messages are about

	mu   sync.Mutex
	held map[jetstream.Msg]struct{}
}

// NewWorker returns a worker; Run starts it.
func NewWorker(js jetstream.JetStream, store Store, handle Handler, config Config) (*Worker, error) {
	s, err := open(js, config)
	if err != nil {
		return nil, err
	}
	return &Worker{
		streams: *s, store: store, handle: handle, held: map[jetstream.Msg]struct{}{},
		group: group{store: store, log: s.config.Logger, level: s.config.BatchLevel},
	}, nil
}

// shift is one run of a worker: its hands, and how to stop them where they are.
type shift struct {
	abandon context.CancelCauseFunc
	free    chan struct{} // one token for each message that may still be held
	wait    time.Duration // of one fetch
	hands   sync.WaitGroup
}

func newShift(c Config, abandon context.CancelCauseFunc) *shift {
	s := &shift{abandon: abandon, free: make(chan struct{}, c.InFlight), wait: min(fetchWait, c.AckWait)}
	s.giveBack(c.InFlight)
	return s
}

// fetch gets as many messages as there are free hands, again and again, until ctx
// ends or the server fails. hold is called at once for each message, and what it
// returns by a hand; an error of that abandons the shift.
func (s *shift) fetch(ctx context.Context, consumer jetstream.Consumer, what string, hold func(msg jetstream.Msg) (work func() error)) error {
	for {
		n := s.take(ctx)
		if n == 0 {
			return nil
		}
		batch, err := consumer.Fetch(n, jetstream.FetchMaxWait(s.wait))
		if err != nil {
			s.giveBack(n)
			return unusable(what, err)
		}
		// What was delivered is ours, also when the worker is told to stop now.
		for msg := range batch.Messages() {
			n--
			work := hold(msg)
			s.hands.Go(func() {
				defer s.giveBack(1)
				if err := work(); err != nil {
					s.abandon(err)
				}
			})
		}
		s.giveBack(n)
		if err := batch.Error(); err != nil {
			return unusable(what, err)
		}
	}
}

// Run works until ctx ends, then finishes what it holds, for at most the grace.
// It returns an error only when the connection was closed under it.
func (w *Worker) Run(ctx context.Context) error {
	// The hands work under a context that outlives the order to stop by the grace.
	work, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	s := newShift(w.config, abandon)
	var beats sync.WaitGroup
	beats.Go(func() { w.beat(work) })
	fetching, stopFetching := context.WithCancel(ctx)
	defer stopFetching()
	defer context.AfterFunc(work, stopFetching)()
	err := w.steady(fetching, "worker", func(ctx context.Context) error { return w.fetch(ctx, work, s) })
	grace := time.AfterFunc(w.config.Grace, func() { abandon(ErrStop) })
	s.hands.Wait()
	grace.Stop()
	if crash, ok := crashed(context.Cause(work)); ok {
		err = crash
	}
	abandon(nil)
	beats.Wait()
	return err
}

// fetch gets jobs until ctx ends or the server fails; they are done under work.
func (w *Worker) fetch(ctx, work context.Context, s *shift) error {
	if !w.connected() {
		pause(ctx, w.config.Poll)
		return nil
	}
	_, consumer, err := w.ensure(ctx)
	if err != nil {
		return err
	}
	return s.fetch(ctx, consumer, "fetch jobs", func(msg jetstream.Msg) func() error {
		w.hold(msg)
		return func() error {
			defer w.release(msg)
			return w.work(work, msg)
		}
	})
}

// take waits for a free hand and takes all that are free; 0 means ctx ended.
func (s *shift) take(ctx context.Context) int {
	if ctx.Err() != nil {
		return 0
	}
	select {
	case <-ctx.Done():
		return 0
	case <-s.free:
	}
	if ctx.Err() != nil { // both were there: who was told to stop takes nothing more
		s.giveBack(1)
		return 0
	}
	for n := 1; ; n++ {
		select {
		case <-s.free:
		default:
			return n
		}
	}
}

func (s *shift) giveBack(n int) {
	for range n {
		s.free <- struct{}{}
	}
}

func (w *Worker) hold(msg jetstream.Msg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[msg] = struct{}{}
}

func (w *Worker) release(msg jetstream.Msg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, msg)
}

// beat tells the server that held messages are still worked on. A beat that is
// lost costs nothing but a second worker on the same episode.
func (w *Worker) beat(ctx context.Context) {
	ticker := time.NewTicker(w.config.AckWait / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		w.mu.Lock()
		for msg := range w.held {
			_ = msg.InProgress()
		}
		w.mu.Unlock()
	}
}
