package ledger_test

import "testing"

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
