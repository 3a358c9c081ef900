package queue_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
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
