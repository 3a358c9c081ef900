package queue_test

import (
	"context"
	"slices"
	"strconv"
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
	b.flush(t)
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
		b.flush(t)
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
	state := stream.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		m, err := stream.GetMsg(tb.Context(), seq)
		if err != nil {
			tb.Fatal(err)
		}
		texts, ids = append(texts, string(m.Data)), append(ids, m.Header.Get(jetstream.MsgIDHeader))
	}
	return texts, ids
}

// counting notes what a relay claims, and what it had published of it.
type counting struct {
	queue.Outbox
	claims [][2]int
}

func (c *counting) Relay(ctx context.Context, limit audit.ClaimLimit, publish func(context.Context, []audit.Outgoing) error) (claimed, published int, err error) {
	claimed, published, err = c.Outbox.Relay(ctx, limit, publish)
	c.claims = append(c.claims, [2]int{claimed, published})
	return claimed, published, err
}

// A relay that was killed after it published and before it said so publishes again: a
// reader is told everything once and in order, by few claims however much waits.
func TestAnnouncementsOfAKilledRelay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 2000
	b.announce(t, n)
	b.config.Duplicates, b.config.BackoffCap = patience, patience // the feed's window: longer than this test takes
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
	settle(t, "the outbox is empty", func() error { return next.Flush(t.Context()) })
	var want []string
	for i := range n {
		want = append(want, strconv.Itoa(i))
	}
	texts, ids := b.told(t, "AUDIT_RESULTS")
	if !slices.Equal(texts, want) {
		t.Errorf("%d announcements, want 0 to %d once and in order; %d had been published before the crash", len(texts), n-1, len(before))
	}
	left := n
	for i, c := range outbox.claims {
		if want := min(left, 1024); c[0] != want {
			t.Errorf("claim %d took %d of the %d announcements that waited, want %d", i, c[0], left, want)
		}
		left -= c[1]
	}

	// A feed that forgot what it has seen is told again under the same ids.
	if _, err := b.pool.Exec(t.Context(), `UPDATE outbox SET published_at = NULL`); err != nil {
		t.Fatal(err)
	}
	if err := b.broker.restart(true); err != nil {
		t.Fatal(err)
	}
	settle(t, "the connection is back", func() error { return next.Flush(t.Context()) })
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
	b.flush(t)
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
