package ledger_test

import (
	"context"
	"maps"
	"testing"

	"understudy/audit"
)

// What the relay cannot get rid of, or did not for long, holds up nothing of the other kind.
func TestJobsAndAnnouncementsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	// announce puts results into the outbox, and nobody relays them.
	announce := func(n int) {
		t.Helper()
		_, err := b.pool.Exec(t.Context(), `
			INSERT INTO outbox (run, topic, episode, attempt, payload)
			SELECT run.id, 'result', sha256(('announced ' || i)::bytea), 1, '{}' FROM run, generate_series(1, $1) AS i`, n)
		if err != nil {
			t.Fatal(err)
		}
	}
	// relay gives a sequence to the messages of one topic only, and says what was claimed.
	relay := func(limit int, takes audit.Topic) map[audit.Topic]int {
		t.Helper()
		claimed := map[audit.Topic]int{}
		_, _, err := b.Relay(t.Context(), limit, func(_ context.Context, messages []audit.Outgoing) error {
			for i := range messages {
				claimed[messages[i].Topic]++
				if messages[i].Topic == takes {
					messages[i].Seq = uint64(i + 1)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return claimed
	}
	queue := func(first, n int) {
		t.Helper()
		var episodes []audit.Episode
		for i := range n {
			episodes = append(episodes, newEpisode(uint64(first+i), 1))
		}
		if _, err := b.Enqueue(t.Context(), b.run, episodes); err != nil {
			t.Fatal(err)
		}
	}

	announce(12)
	queue(0, 3)
	if got, want := relay(5, audit.TopicJob), (map[audit.Topic]int{audit.TopicResult: 5, audit.TopicJob: 3}); !maps.Equal(got, want) {
		t.Errorf("with 12 announcements before 3 jobs, %v were claimed; want %v", got, want)
	}
	queue(3, 9) // after the announcements, and to a stream that takes no job
	if got, want := relay(5, audit.TopicResult), (map[audit.Topic]int{audit.TopicResult: 5, audit.TopicJob: 5}); !maps.Equal(got, want) {
		t.Errorf("with 9 jobs, %v were claimed; want %v", got, want)
	}
	if got, want := relay(100, audit.TopicResult), (map[audit.Topic]int{audit.TopicResult: 7, audit.TopicJob: 9}); !maps.Equal(got, want) {
		t.Errorf("in the end %v were claimed, want %v", got, want)
	}
}
