package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
)

// delivery is one message in a worker's hand.
type delivery struct {
	jetstream.Msg
	job audit.Job
	n   int // how many times the message was delivered, this one included
}

// work takes one message through the arrows. Whatever fails on the way is
// settled with the server or left for redelivery; the error is only a crash.
func (w *Worker) work(ctx context.Context, msg jetstream.Msg) error {
	select {
	case <-ctx.Done():
		return nil // somebody else gets it after AckWait
	default:
	}
	if crash, ok := crashed(w.audit(ctx, msg)); ok {
		return crash
	}
	return nil
}

func (w *Worker) audit(ctx context.Context, msg jetstream.Msg) error {
	d := delivery{Msg: msg, n: 1}
	if meta, err := msg.Metadata(); err == nil {
		d.n = int(meta.NumDelivered)
	}
	var err error
	if d.job, err = audit.DecodeJob(msg.Data()); err != nil {
		return w.unread(ctx, d, err)
	}
	if err := w.config.interrupt(ctx, AfterFetch); err != nil {
		return err
	}
	if d.n > w.config.Attempts {
		return w.bury(ctx, d, audit.FaultTransient, "every worker that had it died or fell silent")
	}
	ctx, end := w.config.Trace.Begin(ctx, "audit episode", msg.Headers().Get(audit.TraceHeader))
	pairs, err := w.try(ctx, d.job)
	defer func() { end(err) }()
	if err == nil || (audit.FaultOf(err) == audit.FaultUndetermined && len(pairs) > 0) {
		return w.finish(ctx, d, pairs)
	}
	return w.fail(ctx, d, err)
}

// unread settles a message that this program cannot read. One of a newer program
// is left to that program's workers: it is handed back, and on its last delivery it
// is taken from the stream, so that no worker takes it for a job that kills those
// who have it; the sweeper sends it again. What is no job at all ends: if the
// ledger has such a job, the sweeper sends that again, too.
func (w *Worker) unread(ctx context.Context, d delivery, err error) error {
	newer, ok := errors.AsType[*audit.NewerJobError](err)
	if !ok || d.n >= w.config.Attempts {
		return d.TermWithReason(err.Error())
	}
	w.newer.Do(func() { logNewer(ctx, w.config.Logger, newer) })
	return d.NakWithDelay(w.config.BackoffCap)
}

// try loads the episode where needed and hands it to the handler.
func (w *Worker) try(ctx context.Context, job audit.Job) (pairs []audit.Pair, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()
	if job.Episode == nil {
		err := w.persist(ctx, func() error {
			job.Episode, err = w.store.Load(ctx, job)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	pairs, err = w.call(ctx, *job.Episode)
	if crash := w.config.interrupt(ctx, AfterHandle); crash != nil {
		return nil, crash
	}
	return pairs, err
}

// call turns a handler's panic into a permanent fault: the worker lives on, no
// other worker is led into the same defect, and the dead letter has the stack.
func (w *Worker) call(ctx context.Context, episode audit.Episode) (pairs []audit.Pair, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			pairs, err = nil, &audit.FaultError{Fault: audit.FaultPermanent, Err: fmt.Errorf("handler panicked: %v\n%s", cause, debug.Stack())}
		}
	}()
	return w.handle(ctx, episode)
}

// persist asks the ledger until it answers: an outage of the database is no
// fault of the job and must not use up its attempts. The message is held on to
// meanwhile, so that workers wait instead of redoing work.
func (w *Worker) persist(ctx context.Context, ask func() error) error {
	for failures := 1; ; failures++ {
		err := ask()
		if err == nil || audit.FaultOf(err) != audit.FaultTransient {
			return err
		}
		if _, ok := crashed(err); ok || ctx.Err() != nil {
			return err
		}
		logFailure(ctx, w.config.Logger, "worker", failures, err)
		pause(ctx, w.config.jitter(failures))
	}
}

// finish commits, together with whatever else is finished, then acknowledges:
// never the other order.
func (w *Worker) finish(ctx context.Context, d delivery, pairs []audit.Pair) error {
	err := w.persist(ctx, func() error {
		return w.group.finish(ctx, audit.Finished{Job: d.job, Pairs: pairs})
	})
	if err != nil {
		return w.fail(ctx, d, err)
	}
	if err := w.config.interrupt(ctx, AfterCommit); err != nil {
		return err
	}
	if err := w.acknowledge(ctx, d); err != nil {
		return err // it is delivered again, and the ledger absorbs it
	}
	return w.config.interrupt(ctx, AfterAck)
}

// acknowledge waits until the server has taken the ack, also when the worker is
// told to stop meanwhile, but no longer than the message is ours.
func (w *Worker) acknowledge(ctx context.Context, d delivery) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(w.config.AckWait, w.config.callTimeout()))
	defer cancel()
	return d.DoubleAck(ctx)
}

// fail decides what becomes of a job whose attempt failed.
func (w *Worker) fail(ctx context.Context, d delivery, cause error) error {
	if crash, ok := crashed(cause); ok {
		return crash
	}
	fault := audit.FaultOf(cause)
	switch {
	case errors.Is(context.Cause(ctx), ErrStop):
		return d.Nak() // our own stop is no fault of the job
	case fault == audit.FaultTransient && d.n < w.config.Attempts:
		return d.NakWithDelay(w.config.jitter(d.n))
	default:
		return w.bury(ctx, d, fault, cause.Error())
	}
}

// bury commits the dead letter, then ends the message: no job ends without its
// letter.
func (w *Worker) bury(ctx context.Context, d delivery, fault audit.Fault, reason string) error {
	burial := audit.Burial{Fault: fault, Reason: reason, Delivery: d.n}
	err := w.persist(ctx, func() error { return w.store.Bury(ctx, d.job, burial) })
	switch {
	case audit.ErrorCode(err) == audit.CodeNotFound:
		return d.TermWithReason("its run was dropped")
	case err != nil:
		return err
	}
	logBurial(ctx, w.config.Logger, d.job, burial)
	if err := w.config.interrupt(ctx, AfterBury); err != nil {
		return err
	}
	return d.TermWithReason(string(fault))
}
