package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
)

// Backlog is what a sweeper needs of the ledger.
type Backlog interface {
	// Waiting lists open jobs that were sent at least age ago, oldest first, from after on.
	Waiting(ctx context.Context, age time.Duration, after *audit.Sent, limit int) ([]audit.Sent, error)
	// Resend publishes open jobs again under their next attempt and returns how many.
	Resend(ctx context.Context, lost []audit.Sent) (int, error)
	// Purge forgets messages that were published at least age ago.
	Purge(ctx context.Context, age time.Duration) (int, error)
}

const (
	sweepPage = 500
	// sweepPages bounds the look-ups of one sweep; the next goes on from there.
	sweepPages = 20
)

// Sweeper sends again what the stream has lost. One is enough; several do no harm.
type Sweeper struct {
	streams
	backlog Backlog
	after   *audit.Sent // where the last sweep stopped, nil = at the end
}

// NewSweeper returns a sweeper; Run starts it.
func NewSweeper(js jetstream.JetStream, backlog Backlog, config Config) (*Sweeper, error) {
	s, err := open(js, config)
	if err != nil {
		return nil, err
	}
	return &Sweeper{streams: *s, backlog: backlog}, nil
}

// Run sweeps at once and then again and again until ctx ends. It returns an
// error only when the connection was closed under it.
func (s *Sweeper) Run(ctx context.Context) error {
	return s.steady(ctx, "sweeper", func(ctx context.Context) error {
		if !s.connected() {
			pause(ctx, s.config.Poll)
			return nil
		}
		if _, err := s.SweepOnce(ctx); err != nil {
			return err
		}
		pause(ctx, s.config.Sweep)
		return nil
	})
}

// SweepOnce looks once and returns how many jobs were sent again.
func (s *Sweeper) SweepOnce(ctx context.Context) (int, error) {
	stream, consumer, err := s.ensure(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.purgeSilent(ctx, stream, consumer); err != nil {
		return 0, err
	}
	resent := 0
	for range sweepPages {
		page, err := s.backlog.Waiting(ctx, s.config.Lost, s.after, sweepPage)
		if err != nil {
			return resent, err
		}
		lost, err := s.missing(ctx, stream, page)
		if err != nil {
			return resent, err
		}
		if len(lost) > 0 {
			n, err := s.backlog.Resend(ctx, lost)
			if err != nil {
				return resent, err
			}
			resent += n
			if err := s.config.interrupt(ctx, AfterResend); err != nil {
				return resent, err
			}
		}
		if len(page) < sweepPage {
			s.after = nil
			break
		}
		s.after = &page[len(page)-1]
	}
	if resent > 0 {
		s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "jobs were lost by the stream and are sent again", slog.Int("jobs", resent))
	}
	_, err = s.backlog.Purge(ctx, s.config.Keep)
	return resent, err
}

// missing returns the jobs whose message is not in the stream. A job that was
// finished meanwhile looks the same; resending passes over it.
func (s *Sweeper) missing(ctx context.Context, stream jetstream.Stream, page []audit.Sent) ([]audit.Sent, error) {
	if len(page) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.callTimeout())
	defer cancel()
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, unusable("look into the stream of jobs", err)
	}
	var lost []audit.Sent
	for _, sent := range page {
		there := info.State.Msgs > 0 && sent.Seq >= info.State.FirstSeq
		if there {
			// A stream that was made anew counts from 1 again: the id decides.
			msg, err := stream.GetMsg(ctx, sent.Seq)
			if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil, unusable(fmt.Sprintf("look for message %d", sent.Seq), err)
			}
			there = err == nil && msg.Header.Get(jetstream.MsgIDHeader) == sent.Message
		}
		if !there {
			lost = append(lost, sent)
		}
	}
	return lost, nil
}

// purgeSilent removes messages that no worker will ever get: delivered as often
// as a consumer with MaxDeliver allows, they stay in the stream and are neither
// pending nor held. Their jobs count as lost from then on. It acts only when the
// consumer holds nothing, so that it cannot hit a message on its way.
func (s *Sweeper) purgeSilent(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.callTimeout())
	defer cancel()
	held, err := consumer.Info(ctx)
	if err != nil {
		return unusable("look at the consumer of jobs", err)
	}
	if held.NumPending > 0 || held.NumAckPending > 0 || held.Delivered.Stream == 0 {
		return nil
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return unusable("look into the stream of jobs", err)
	}
	if info.State.Msgs == 0 || info.State.FirstSeq > held.Delivered.Stream {
		return nil
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(held.Delivered.Stream+1)); err != nil {
		return unusable("purge silent messages", err)
	}
	return nil
}
