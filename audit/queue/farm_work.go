package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
)

// PieceFunc does one piece. It is called for several at once. Its error is the
// piece's fault, but for ErrStale (it is dropped), the end of its context (somebody
// else does it) and CodeInfrastructure: then it is tried again, Attempts times in all.
type PieceFunc func(ctx context.Context, p Piece) ([]byte, error)

// Work does pieces until ctx ends; what it holds then goes to others. Any number of
// workers may run at once, in any number of processes.
func (f *Farm) Work(ctx context.Context, do PieceFunc) error {
	work, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	s := newShift(f.config, abandon)
	err := f.steady(work, "rollout worker", func(ctx context.Context) error { return f.fetchPieces(ctx, s, do) })
	abandon(ErrStop)
	s.hands.Wait()
	if crash, ok := crashed(context.Cause(work)); ok {
		return crash
	}
	return err
}

func (f *Farm) fetchPieces(ctx context.Context, s *shift, do PieceFunc) error {
	pieces, _, err := f.lines(ctx)
	if err != nil {
		return err
	}
	consumer, err := f.consumer(ctx, pieces, "workers", f.pieces())
	if err != nil {
		return err
	}
	return s.fetch(ctx, consumer, "fetch pieces", func(msg jetstream.Msg) func() error {
		return func() error {
			if crash, ok := crashed(f.workOn(ctx, msg, do)); ok {
				return crash
			}
			return nil // it is delivered again
		}
	})
}

// workOn does one piece, sends back what came of it, then acknowledges: never the
// other order.
func (f *Farm) workOn(ctx context.Context, msg jetstream.Msg, do PieceFunc) error {
	var p Piece
	if err := json.Unmarshal(msg.Data(), &p); err != nil {
		return msg.TermWithReason(err.Error())
	}
	r, deliveries := returned{ID: p.ID, Version: p.Version}, 1
	if meta, err := msg.Metadata(); err == nil {
		deliveries = int(meta.NumDelivered)
	}
	if deliveries > f.config.Attempts {
		r.Fault = "every worker that had it died or fell silent"
	} else {
		var err error
		r.Data, err = f.beating(ctx, msg, p, do)
		_, crash := crashed(err)
		switch {
		case crash:
			return err
		case errors.Is(err, ErrStale):
			return msg.TermWithReason(err.Error())
		case ctx.Err() != nil:
			return msg.Nak() // our own stop is no fault of the piece
		case audit.ErrorCode(err) == audit.CodeInfrastructure && deliveries < f.config.Attempts:
			logFailure(ctx, f.config.Logger, "rollout worker", deliveries, err)
			return err // it is delivered again
		case err != nil:
			r.Fault = err.Error()
		}
	}
	if err := f.send(ctx, r); err != nil {
		return err // it is delivered again
	}
	if err := f.config.interrupt(ctx, AfterCommit); err != nil {
		return err
	}
	ack, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.config.callTimeout())
	defer cancel()
	return msg.DoubleAck(ack)
}

// beating does a piece while telling the server that it is worked on.
func (f *Farm) beating(ctx context.Context, msg jetstream.Msg, p Piece, do PieceFunc) (data []byte, err error) {
	done := make(chan struct{})
	beaten := make(chan struct{})
	go func() {
		defer close(beaten)
		ticker := time.NewTicker(f.config.AckWait / 3)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				_ = msg.InProgress() // a lost beat costs a second worker on the piece
			}
		}
	}()
	defer func() {
		close(done)
		<-beaten
		if cause := recover(); cause != nil {
			data, err = nil, fmt.Errorf("the worker panicked: %v\n%s", cause, debug.Stack())
		}
	}()
	return do(ctx, p)
}

// send stores a return. A full stream is waited for, with the piece in hand.
func (f *Farm) send(ctx context.Context, r returned) error {
	for failures := 1; ; failures++ {
		err := f.sendOnce(ctx, r)
		if err == nil || ctx.Err() != nil {
			return err
		}
		logFailure(ctx, f.config.Logger, "rollout worker", failures, err)
		pause(ctx, f.config.jitter(failures))
	}
}

func (f *Farm) sendOnce(ctx context.Context, r returned) error {
	text, err := f.message(ctx, r)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, f.config.callTimeout())
	defer cancel()
	if _, err := f.js.Publish(call, f.returns(), text); err != nil {
		return unusable("send back a piece", err)
	}
	return nil
}
