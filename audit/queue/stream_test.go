package queue_test

import (
	"testing"

	"understudy/audit/queue"
)

// TestStreamsAreLeftAlone counts the server's advisories about changed streams:
// services that agree about the settings change none, one with others does.
func TestStreamsAreLeftAlone(t *testing.T) {
	b := setup(t)
	updates, err := b.js.Conn().SubscribeSync("$JS.EVENT.ADVISORY.STREAM.UPDATED.>")
	if err != nil {
		t.Fatal(err)
	}
	sweep := func(config queue.Config) int {
		t.Helper()
		s, err := queue.NewSweeper(b.js, b.Ledger, config)
		if err != nil {
			t.Fatal(err)
		}
		settle(t, "the sweep is whole", func() error {
			_, err := s.SweepOnce(t.Context())
			return err
		})
		if err := b.js.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		n, _, err := updates.Pending()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 3 {
		if n := sweep(b.config); n != 0 {
			t.Fatalf("%d streams were updated to what they are", n)
		}
	}
	larger := b.config
	larger.MaxMessages = 400_000
	if n := sweep(larger); n != 1 {
		t.Errorf("%d streams were updated to hold more jobs, want 1", n)
	}
}
