package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/ledger"
)

// TestScoresWithLongReasonsTravelInPieces: every piece fits into its message, however
// long the reasons are, and together they hold every reward once and in order.
func TestScoresWithLongReasonsTravelInPieces(t *testing.T) {
	const most = 64 << 10
	all := audit.ScoredBatch{Run: "a"}
	for i := range 1200 {
		all.Scores = append(all.Scores, audit.Reward{Step: i, Status: audit.RewardMasked, Detail: strings.Repeat("x", i%2000)})
	}
	pieces, err := ledger.ScorePieces(all, most)
	if err != nil || len(pieces) < 2 {
		t.Fatalf("%d pieces, %v", len(pieces), err)
	}
	next := 0
	for i, p := range pieces {
		if len(p) > most+1024 {
			t.Errorf("piece %d of %d is %d bytes", i, len(pieces), len(p))
		}
		var part audit.ScoredBatch
		if err := json.Unmarshal(p, &part); err != nil || part.Run != "a" {
			t.Fatalf("piece %d: %+v, %v", i, part, err)
		}
		for _, r := range part.Scores {
			if r.Step != next {
				t.Fatalf("reward %d stands where %d should", r.Step, next)
			}
			next++
		}
	}
	if next != len(all.Scores) {
		t.Errorf("%d of %d rewards are announced", next, len(all.Scores))
	}
	if none, err := ledger.ScorePieces(audit.ScoredBatch{}, most); err != nil || none != nil {
		t.Errorf("no reward is announced by nothing: %d pieces, %v", len(none), err)
	}
}

// A batch's end is told again when its COMMIT was not heard: what the step has left
// does not grow with each time.
func TestAGrantEndsOnce(t *testing.T) {
	t.Parallel()
	l := setup(t).Ledger
	accept := func(id byte) audit.AcceptedBatch {
		t.Helper()
		b := audit.AcceptedBatch{
			ID: audit.Digest{id}, Batch: audit.ScoreBatch{Run: "training", Policy: "p", Checkpoint: 1},
			Want: 2 * time.Second, Budget: 10 * time.Second,
		}
		granted, err := l.Accept(t.Context(), b)
		if err != nil || granted != b.Want {
			t.Fatalf("granted %s, %v", granted, err)
		}
		b.Granted = granted
		return b
	}
	end := func(b audit.AcceptedBatch, want time.Duration) {
		t.Helper()
		if err := l.EndBatch(t.Context(), b, time.Second/2, audit.ScoredBatch{Scores: make([]audit.Reward, 1)}); err != nil {
			t.Fatal(err)
		}
		if spent, err := l.Spent(t.Context(), "training", "p", 1); err != nil || spent != want {
			t.Errorf("spent %s, %v; want %s", spent, err, want)
		}
	}
	first, second := accept(1), accept(2)
	end(first, 2500*time.Millisecond)
	end(first, 2500*time.Millisecond)
	end(second, time.Second)
	// A batch that was taken up again has a grant of its own.
	again := accept(2)
	end(again, 1500*time.Millisecond)
}

// What ends while its run is dropped leaves nothing behind.
func TestABatchOfADroppedRunIsNotAnnounced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	batch := audit.AcceptedBatch{ID: audit.Digest{1}, Batch: audit.ScoreBatch{Run: "training", Policy: "p", Checkpoint: 1}}
	if _, err := b.Accept(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	other, err := ledger.New(b.pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.DropRun(t.Context(), "training"); err != nil {
		t.Fatal(err)
	}
	err = b.EndBatch(t.Context(), batch, 0, audit.ScoredBatch{Scores: make([]audit.Reward, 1)})
	if audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("%v, want that the run is gone", err)
	}
	var left int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d messages of a run that is gone, %v", left, err)
	}
}
