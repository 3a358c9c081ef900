package ledger_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
)

// claimUpTo is a limit of n messages of each kind, of any size.
func claimUpTo(n int) audit.ClaimLimit {
	return audit.ClaimLimit{Jobs: n, Announcements: n, Bytes: 1 << 30}
}

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
		_, _, err := b.Relay(t.Context(), claimUpTo(limit), func(_ context.Context, messages []audit.Outgoing) error {
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

// Large messages end a claim before their number does, so that a relay's memory is
// bounded; one that is larger than the bound goes alone, and none of the one kind
// takes the place of the other.
func TestClaimsAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i, size := range []int{400, 400, 400, 5000, 100} {
		_, err := b.pool.Exec(t.Context(), `
			INSERT INTO outbox (run, topic, episode, attempt, payload)
			SELECT id, 'result', sha256($1::bytea), 1, convert_to(repeat('x', $2), 'UTF8') FROM run`, fmt.Append(nil, i), size)
		if err != nil {
			t.Fatal(err)
		}
	}
	var queued []audit.Episode
	for i := range 3 {
		e := newEpisode(uint64(i), 1)
		e.Actions[0].Call.Arguments = fmt.Appendf(nil, `{"order_id":%q}`, strings.Repeat("#", 300))
		queued = append(queued, e)
	}
	if _, err := b.Enqueue(t.Context(), b.run, queued); err != nil {
		t.Fatal(err)
	}
	if small := b.number(t, `SELECT count(*) FROM episode WHERE octet_length(body) NOT BETWEEN 500 AND 999`); small > 0 {
		t.Fatalf("%d jobs are not of 500 to 999 bytes", small)
	}
	var jobs, announcements []int
	for range 4 {
		job, size := 0, 0
		_, _, err := b.Relay(t.Context(), audit.ClaimLimit{Jobs: 10, Announcements: 10, Bytes: 1000}, func(_ context.Context, messages []audit.Outgoing) error {
			for i := range messages {
				messages[i].Seq = uint64(i + 1)
				if messages[i].Topic == audit.TopicJob {
					job++
				} else {
					size += len(messages[i].Payload)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		jobs, announcements = append(jobs, job), append(announcements, size)
	}
	if want := []int{1200, 5000, 100, 0}; !slices.Equal(announcements, want) {
		t.Errorf("claims of %v bytes of announcements, want %v: each ends with the message that reaches 1000", announcements, want)
	}
	if want := []int{2, 1, 0, 0}; !slices.Equal(jobs, want) {
		t.Errorf("claims of %v jobs, want %v: the second one reaches 1000 bytes", jobs, want)
	}
}
