package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"

	"understudy/audit"
)

// TestCommitOfManyPieces commits an episode of more pairs than one statement
// takes, twice: every pair counts once, in whichever piece it came.
func TestCommitOfManyPieces(t *testing.T) {
	t.Parallel()
	const n = 16_000
	b := setup(t)
	e := newEpisode(7, n)
	pairs := auditEpisode(&e)
	for i, want := range []int{n, 0} {
		got, err := b.Commit(t.Context(), b.run, pairs)
		if err != nil || got != want {
			t.Fatalf("commit %d inserted %d of %d, %v; want %d", i, got, len(pairs), err, want)
		}
	}
	if large := b.number(t, `SELECT count(*) FROM outbox WHERE octet_length(payload) > 1 << 20`); large > 0 {
		t.Errorf("%d announcements are larger than a NATS message", large)
	}
	if keys := b.number(t, `SELECT sum(json_array_length(convert_from(payload, 'UTF8')::json -> 'keys')) FROM outbox WHERE topic = 'result'`); keys != n {
		t.Errorf("%d keys announced, want %d", keys, n)
	}
	if r := b.verify(t); r.Results != n {
		t.Errorf("verify found %d results, want %d", r.Results, n)
	}
}

// TestEnqueueOfManyPieces queues episodes that bring a state along each: together
// they are more than one statement takes, and one alone is, too.
func TestEnqueueOfManyPieces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	episodes := make([]audit.Episode, 4)
	for i, size := range []int{1 << 10, 9 << 20, 9 << 20, 17 << 20} {
		episodes[i] = newEpisode(uint64(100+i), 2)
		episodes[i].Start.State = json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
	}
	for i, want := range []int{4, 0} {
		got, err := b.Enqueue(t.Context(), b.run, episodes)
		if err != nil || got != want {
			t.Errorf("queueing %d took in %d, %v; want %d", i, got, err, want)
		}
	}
	if jobs := b.number(t, `SELECT count(*) FROM outbox WHERE topic = 'job'`); jobs != 4 {
		t.Errorf("%d jobs are announced, want 4", jobs)
	}
}
