package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"

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
