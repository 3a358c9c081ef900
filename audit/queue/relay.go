package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
)

// Outbox is what a relay needs of the ledger: claim unpublished jobs and
// announcements up to the limit, call publish with them, and mark those that it gave
// a sequence.
type Outbox interface {
	Relay(ctx context.Context, limit audit.ClaimLimit, publish func(ctx context.Context, messages []audit.Outgoing) error) (claimed, published int, err error)
}

// Relay moves messages from the outbox into the streams. Any number of relays
// may run at once.
type Relay struct {
	streams
	outbox Outbox
}

// NewRelay returns a relay; Run starts it.
func NewRelay(js jetstream.JetStream, outbox Outbox, config Config) (*Relay, error) {
	s, err := open(js, config)
	if err != nil {
		return nil, err
	}
	return &Relay{streams: *s, outbox: outbox}, nil
}

// Run relays until ctx ends. It returns an error only when the connection was
// closed under it.
func (r *Relay) Run(ctx context.Context) error {
	ready := false
	return r.steady(ctx, "relay", func(ctx context.Context) error {
		if !r.connected() {
			pause(ctx, r.config.Poll)
			ready = false // the server that comes back may have an empty store
			return nil
		}
		if !ready {
			if _, _, err := r.ensure(ctx); err != nil {
				return err
			}
			ready = true
		}
		published, err := r.relay(ctx)
		if err != nil {
			ready = false
			return err
		}
		if published == 0 {
			pause(ctx, r.config.Poll)
		}
		return nil
	})
}

// Flush relays until the outbox is empty: for programs that end, and for tests.
func (r *Relay) Flush(ctx context.Context) error {
	if _, _, err := r.ensure(ctx); err != nil {
		return err
	}
	for {
		published, err := r.relay(ctx)
		if err != nil || published == 0 {
			return err
		}
	}
}

// relay moves one batch and returns how many messages were published.
func (r *Relay) relay(ctx context.Context) (int, error) {
	limit := audit.ClaimLimit{Jobs: r.config.Batch, Announcements: r.config.Announcements, Bytes: claimBytes}
	_, published, err := r.outbox.Relay(ctx, limit, func(ctx context.Context, messages []audit.Outgoing) error {
		if err := r.config.interrupt(ctx, AfterClaim); err != nil {
			return err
		}
		failure := r.publish(ctx, messages)
		if err := r.config.interrupt(ctx, AfterPublish); err != nil {
			return err
		}
		if failure != nil && slices.ContainsFunc(messages, func(m audit.Outgoing) bool { return m.Seq > 0 || m.Refused }) {
			if ctx.Err() == nil { // a stop is no failure
				logFailure(ctx, r.config.Logger, "relay", 1, failure)
			}
			return nil // what the stream has is marked; the rest stays in the outbox
		}
		return failure
	})
	if err != nil {
		return published, err
	}
	if published > 0 {
		err = r.config.interrupt(ctx, AfterMark)
	}
	return published, err
}

// publish sends messages side by side and gives each that the stream
// acknowledged its sequence. A duplicate counts: the stream has it. What is larger
// than a stream takes holds up nothing behind it: a job stays in the outbox, a hint
// for readers is given up.
func (r *Relay) publish(ctx context.Context, messages []audit.Outgoing) error {
	ctx, cancel := context.WithTimeout(ctx, r.config.callTimeout())
	defer cancel()
	connection := r.js.Conn().Stats().Reconnects
	futures := make([]jetstream.PubAckFuture, len(messages)) // nil: it was not sent
	var failure error
	fails := func(m *audit.Outgoing, err error) {
		failure = errors.Join(failure, fmt.Errorf("publish %s: %w", m.ID, err))
		m.Refused = tooLarge(err) && m.Topic != audit.TopicJob
	}
	for i := range messages {
		m := &messages[i]
		msg := &nats.Msg{Subject: r.subject(m.Topic, m.Subject), Data: m.Payload}
		if m.Trace != "" {
			msg.Header = nats.Header{audit.TraceHeader: {m.Trace}}
		}
		future, err := r.js.PublishMsgAsync(msg, jetstream.WithMsgID(m.ID), jetstream.WithExpectStream(r.name(m.Topic)))
		if err != nil {
			fails(m, err)
			if !tooLarge(err) {
				break
			}
			continue
		}
		futures[i] = future
	}
	tick := time.NewTicker(r.config.Poll)
	defer tick.Stop()
	for i, future := range futures {
		for waiting := future != nil; waiting; {
			select {
			case ack := <-future.Ok():
				messages[i].Seq, waiting = ack.Sequence, false
			case err := <-future.Err():
				fails(&messages[i], err)
				waiting = false
			case <-tick.C:
				// The acknowledgements of a lost connection never come.
				if !r.connected() || r.js.Conn().Stats().Reconnects != connection {
					return errors.Join(failure, fmt.Errorf("publish %s: %w", messages[i].ID, nats.ErrDisconnected))
				}
			case <-ctx.Done():
				return errors.Join(failure, fmt.Errorf("publish %s: %w", messages[i].ID, context.Cause(ctx)))
			}
		}
	}
	return failure
}

// tooLarge reports whether a message will never fit, here or in the stream.
func tooLarge(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, nats.ErrMaxPayload) || ok && e.ErrorCode == messageTooLarge
}

// messageTooLarge is what JetStream answers to a message above the stream's limit.
const messageTooLarge jetstream.ErrorCode = 10054
