package queue_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
	"understudy/audit/queue"
)

// A feed is no record: its messages are not synced one by one, the jobs are.
func TestFeedsAreNotSynced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if err := b.relay(t).Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]jetstream.PersistModeType{
		"AUDIT_JOBS":    jetstream.DefaultPersistMode,
		"AUDIT_RESULTS": jetstream.AsyncPersistMode,
		"AUDIT_SCORES":  jetstream.AsyncPersistMode,
	} {
		stream, err := b.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := stream.CachedInfo().Config.PersistMode; got != want {
			t.Errorf("stream %s is written in mode %v, want %v", name, got, want)
		}
	}
}

// A server keeps the mode in which a stream was made, here by an earlier version of ours.
func TestFeedsOfEarlierVersionsStay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	if _, err := b.js.CreateStream(ctx, jetstream.StreamConfig{Name: "AUDIT_RESULTS", Subjects: []string{"audit.result.>"}, Storage: jetstream.FileStorage}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.js.Publish(ctx, "audit.result.1", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first changes the other settings, the second finds nothing to change
		if err := b.relay(t).Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := b.js.Stream(ctx, "AUDIT_RESULTS")
	if err != nil {
		t.Fatal(err)
	}
	info := stream.CachedInfo()
	if info.Config.PersistMode != jetstream.DefaultPersistMode || info.Config.MaxAge == 0 || info.State.Msgs != 1 {
		t.Errorf("the stream is %+v with %d messages; want its mode and its message kept, and our other settings", info.Config, info.State.Msgs)
	}
}

// announce puts n announcements into the outbox, which say 0 to n-1.
func (b *bundle) announce(tb testing.TB, n int) {
	tb.Helper()
	_, err := b.pool.Exec(tb.Context(), `
		INSERT INTO outbox (run, topic, episode, attempt, payload)
		SELECT run.id, 'result', sha256(('announced ' || i)::bytea), 1, i::text::bytea FROM run, generate_series(0, $1 - 1) AS s (i) ORDER BY s.i`, n)
	if err != nil {
		tb.Fatal(err)
	}
}

// told is what a feed holds, in its order, with the ids.
func (b *bundle) told(tb testing.TB, name string) (texts, ids []string) {
	tb.Helper()
	stream, err := b.js.Stream(tb.Context(), name)
	if err != nil {
		tb.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(tb.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	for range stream.CachedInfo().State.Msgs {
		m, err := consumer.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			tb.Fatal(err)
		}
		texts, ids = append(texts, string(m.Data())), append(ids, m.Headers().Get(jetstream.MsgIDHeader))
	}
	return texts, ids
}

// counting counts the claims of a relay.
type counting struct {
	queue.Outbox
	claims atomic.Int32
}

func (c *counting) Relay(ctx context.Context, limit audit.ClaimLimit, publish func(context.Context, []audit.Outgoing) error) (int, int, error) {
	c.claims.Add(1)
	return c.Outbox.Relay(ctx, limit, publish)
}

// A relay that was killed after it published and before it said so publishes again: a
// reader is told everything once and in order, by few claims however much waits.
func TestAnnouncementsOfAKilledRelay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 2000
	b.announce(t, n)
	crash := b.config
	crash.Interrupt = func(_ context.Context, arrow queue.Arrow) error {
		if arrow == queue.AfterPublish {
			return &queue.CrashError{Point: "publish"}
		}
		return nil
	}
	killed, err := queue.NewRelay(b.js, b.Ledger, crash)
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Run(t.Context()); err == nil {
		t.Fatal("the relay did not crash")
	}
	_, before := b.told(t, "AUDIT_RESULTS")
	if len(before) == 0 {
		t.Fatal("the relay crashed before it published")
	}
	outbox := &counting{Outbox: b.Ledger}
	next, err := queue.NewRelay(b.js, outbox, b.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range n {
		want = append(want, strconv.Itoa(i))
	}
	texts, ids := b.told(t, "AUDIT_RESULTS")
	if !slices.Equal(texts, want) {
		t.Errorf("%d announcements, want 0 to %d once and in order; %d had been published before the crash", len(texts), n-1, len(before))
	}
	if claims := outbox.claims.Load(); claims > 3 {
		t.Errorf("%d claims for %d announcements, want 3: two with messages and an empty one", claims, n)
	}

	// A feed that forgot what it has seen is told again under the same ids.
	if _, err := b.pool.Exec(t.Context(), `UPDATE outbox SET published_at = NULL`); err != nil {
		t.Fatal(err)
	}
	if err := b.broker.restart(true); err != nil {
		t.Fatal(err)
	}
	await(t, "the connection is back", func() bool { return next.Flush(t.Context()) == nil })
	if _, again := b.told(t, "AUDIT_RESULTS"); !slices.Equal(again, ids) {
		t.Errorf("%d announcements under other ids the second time", len(again))
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != n {
		t.Errorf("%d ids for %d announcements", len(slices.Compact(ids)), n)
	}
}

// The server holds the ids of a feed's window in memory: it is no longer than what a
// relay that lives takes to repeat a message. The jobs' window stays.
func TestFeedsForgetIDsSoon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config = queue.Config{}
	if err := b.relay(t).Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Duration{
		"AUDIT_JOBS": 2 * time.Minute, "AUDIT_RESULTS": 40 * time.Second, "AUDIT_SCORES": 40 * time.Second,
	} {
		stream, err := b.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := stream.CachedInfo().Config.Duplicates; got != want {
			t.Errorf("stream %s drops duplicates for %s, want %s", name, got, want)
		}
	}
}
