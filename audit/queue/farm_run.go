package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
)

// ahead is how many pieces of a run are out at most: what a run holds of others'
// work, and what it may fill of the stream.
const ahead = 1024

// quiet is after how long without a return a run says that it waits.
const quiet = 30 * time.Second

// Do has pieces done and takes what comes back, each piece once, in any order. A piece
// that cannot be done, and a take that fails, end it; a server that does not answer is
// waited for. Pieces of an earlier Do that were left over are withdrawn first.
func (f *Farm) Do(ctx context.Context, pieces []Piece, take func(id string, data []byte) error) error {
	dealt, end := context.WithCancel(ctx)
	defer end()
	d := &dealing{farm: f, take: take, out: map[string]string{}, left: pieces, heard: time.Now()}
	for _, p := range pieces {
		if _, twice := d.out[p.ID]; twice {
			return fmt.Errorf("piece %s is there twice", p.ID)
		}
		d.out[p.ID] = "" // not published yet
	}
	err := f.steady(dealt, "rollouts elsewhere", func(ctx context.Context) error {
		err := d.begin(ctx)
		if err == nil {
			err = d.round(ctx)
		}
		if audit.ErrorCode(err) == audit.CodeInvalid { // no other round mends it
			d.failed, err = err, nil
		}
		if err == nil {
			end()
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	}
	return d.failed
}

// dealing is one Do under way.
type dealing struct {
	farm    *Farm
	take    func(id string, data []byte) error
	returns jetstream.Consumer // nil: old pieces are not withdrawn yet
	left    []Piece            // not published yet
	out     map[string]string  // version of each piece that is not back
	flying  int                // published and not back
	heard   time.Time          // of the last return
	failed  error              // what ended it before all was back
}

// begin withdraws what an earlier Do left over, once.
func (d *dealing) begin(ctx context.Context) error {
	if d.returns != nil {
		return nil
	}
	pieces, returns, err := d.farm.lines(ctx)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, d.farm.config.callTimeout())
	defer cancel()
	if err := pieces.Purge(call, jetstream.WithPurgeSubject(d.farm.pieces())); err != nil {
		return unusable("withdraw old pieces", err)
	}
	d.returns, err = d.farm.consumer(ctx, returns, "run", d.farm.returns())
	return err
}

// round publishes what may be out and takes what has come back, until all is
// done or something failed; its error is one after which another round may go on.
func (d *dealing) round(ctx context.Context) error {
	for len(d.out) > 0 {
		if err := d.publish(ctx); err != nil {
			return err
		}
		batch, err := d.returns.Fetch(64, jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return unusable("fetch returns", err)
		}
		for msg := range batch.Messages() {
			if d.failed == nil {
				d.failed = d.receive(ctx, msg.Data())
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := d.failed; audit.ErrorCode(err) == audit.CodeInfrastructure {
				d.failed = nil
				return err // not acknowledged: it comes again
			}
			if err := msg.Ack(); err != nil {
				return unusable("acknowledge a return", err) // it comes again, and is dropped
			}
		}
		if err := batch.Error(); err != nil {
			return unusable("fetch returns", err)
		}
		if d.failed != nil {
			return nil //nolint:nilerr // no other round is wanted: Do returns it
		}
		d.complain(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (d *dealing) publish(ctx context.Context) error {
	for len(d.left) > 0 && d.flying < ahead {
		p := d.left[0]
		text, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("encode piece %s: %w", p.ID, err)
		}
		call, cancel := context.WithTimeout(ctx, d.farm.config.callTimeout())
		_, err = d.farm.js.Publish(call, d.farm.pieces(), text)
		cancel()
		if err != nil {
			return unusable("deal out a piece", err) // a full stream too: it is tried again after a pause
		}
		d.left, d.out[p.ID] = d.left[1:], p.Version
		d.flying++
	}
	return nil
}

// receive takes one return. One of a piece that is back already, of another version or
// of another time is dropped.
func (d *dealing) receive(ctx context.Context, text []byte) error {
	var r returned
	if err := json.Unmarshal(text, &r); err != nil {
		return nil // not ours to read: the piece is still out
	}
	version, out := d.out[r.ID]
	if !out || version == "" || version != r.Version {
		d.farm.config.Logger.DebugContext(ctx, "a return is dropped", slog.String("piece", r.ID), slog.String("version", r.Version))
		if r.Blob != "" {
			return d.farm.Drop(ctx, r.Blob)
		}
		return nil
	}
	d.heard = time.Now()
	if r.Fault != "" {
		return &audit.Error{Code: audit.CodeInternal, Message: fmt.Sprintf("piece %s cannot be done: %s", r.ID, r.Fault), Hint: "look at the worker's log"}
	}
	if r.Blob != "" {
		var data bytes.Buffer
		err := d.farm.Get(ctx, r.Blob, &data)
		if errors.Is(err, ErrStale) { // taken by a run that died before it said so: the piece is out again
			return nil
		}
		if err != nil {
			return err
		}
		r.Data = data.Bytes()
		defer func() { _ = d.farm.Drop(context.WithoutCancel(ctx), r.Blob) }() // garbage, if it stays
	}
	if err := d.take(r.ID, r.Data); err != nil {
		return err
	}
	delete(d.out, r.ID)
	d.flying--
	return nil
}

// complain says now and then that nothing comes back.
func (d *dealing) complain(ctx context.Context) {
	if len(d.out) > 0 && time.Since(d.heard) > quiet {
		d.farm.config.Logger.WarnContext(ctx, "no rollout came back for a while: are workers running?", slog.Int("missing", len(d.out)), slog.String("run", d.farm.name))
		d.heard = time.Now()
	}
}
