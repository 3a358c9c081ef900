package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"understudy/audit"
)

// Responder answers trainers that ask for rewards by a NATS request, with the
// JSON of the HTTP API. Any number of responders share the subject. A batch is
// bounded by the server's message size, usually 1 MiB.
type Responder struct {
	conn   *nats.Conn
	scorer audit.Scorer
	config Config
}

// NewResponder returns a responder on a connection that stays the caller's.
func NewResponder(conn *nats.Conn, scorer audit.Scorer, config Config) (*Responder, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Responder{conn: conn, scorer: scorer, config: config.withDefaults()}, nil
}

// ScoreSubject is where a batch is sent as a request; PullSubject takes
// {"id", "wait_ms"} and answers with a batch that was pending.
func (c Config) ScoreSubject() string { return c.withDefaults().Prefix + ".ask.score" }

// PullSubject is where a pending batch is pulled.
func (c Config) PullSubject() string { return c.withDefaults().Prefix + ".ask.scores" }

// Run answers until ctx ends, then finishes what it has begun.
func (r *Responder) Run(ctx context.Context) error {
	var working sync.WaitGroup
	subscribe := func(subject string, answer func(context.Context, []byte) (audit.ScoredBatch, error)) (*nats.Subscription, error) {
		return r.conn.QueueSubscribe(subject, consumerName, func(m *nats.Msg) {
			working.Go(func() { // answers may take until the batch's deadline
				ctx, end := r.config.Trace.Begin(ctx, "score "+subject, m.Header.Get(audit.TraceHeader))
				scores, err := answer(ctx, m.Data)
				end(err)
				if err := m.Respond(replyTo(scores, err)); err != nil && ctx.Err() == nil {
					logFailure(ctx, r.config.Logger, "answer a trainer", 1, err)
				}
			})
		})
	}
	score, err := subscribe(r.config.ScoreSubject(), r.score)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", r.config.ScoreSubject(), err)
	}
	pull, err := subscribe(r.config.PullSubject(), r.pull)
	if err != nil {
		return errors.Join(fmt.Errorf("subscribe to %s: %w", r.config.PullSubject(), err), score.Unsubscribe())
	}
	<-ctx.Done()
	err = errors.Join(score.Unsubscribe(), pull.Unsubscribe())
	working.Wait()
	if r.conn.IsClosed() {
		return nil
	}
	return err
}

func (r *Responder) score(ctx context.Context, text []byte) (audit.ScoredBatch, error) {
	batch, err := audit.DecodeScoreBatch(text)
	if err != nil {
		return audit.ScoredBatch{}, err
	}
	return r.scorer.Score(ctx, batch)
}

func (r *Responder) pull(ctx context.Context, text []byte) (audit.ScoredBatch, error) {
	var ask struct {
		ID     audit.Digest `json:"id"`
		WaitMS int64        `json:"wait_ms"`
	}
	if err := json.Unmarshal(text, &ask); err != nil {
		return audit.ScoredBatch{}, &audit.Error{Code: audit.CodeInvalid, Message: "the request cannot be read", Hint: `send {"id": "...", "wait_ms": 1000}`, Err: err}
	}
	return r.scorer.Scores(ctx, ask.ID, time.Duration(ask.WaitMS)*time.Millisecond)
}

// replyTo is the answer's JSON: scores, or an error as the HTTP API shows it.
func replyTo(scores audit.ScoredBatch, err error) []byte {
	if err == nil {
		text, failed := json.Marshal(scores)
		if failed == nil {
			return text
		}
		err = failed
	}
	text, _ := json.Marshal(audit.ReportError(err)) // strings always marshal
	return text
}
