package ledger_test

import (
	"encoding/json"
	"testing"

	"understudy/audit"
	"understudy/audit/diff"
)

// A write that claims exactly what was made has no finding, however the sandbox
// writes its change down.
func TestFaithfulEffectsAreNoFindings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := newEpisode(1, 2)
	pairs := auditEpisode(&e)
	for i := range pairs {
		p := &pairs[i]
		p.Observation.Delta = diff.Patch{
			{Op: diff.OpAdd, Path: "/orders/W1", Value: json.RawMessage(`{"status":"open","n":1}`)},
			{Op: diff.OpReplace, Path: "/$sys/clock", Value: json.RawMessage(`5`)},
		}
		p.Verdict.Claimed = diff.Patch{
			{Op: diff.OpReplace, Path: "/orders/W1/n", Value: json.RawMessage(`1`)},
			{Op: diff.OpReplace, Path: "/orders/W1/status", Value: json.RawMessage(`"open"`)},
		}
		p.Verdict.Scores.EffectSource = audit.EffectByBlock
	}
	pairs[1].Verdict.Claimed[0].Value = json.RawMessage(`2`)
	if _, err := b.Commit(t.Context(), b.run, pairs); err != nil {
		t.Fatal(err)
	}
	var lines string
	err := b.pool.QueryRow(t.Context(), `SELECT coalesce(string_agg(pattern || ' ' || kind || ' ' || pairs, ', ' ORDER BY pattern), '') FROM leaf WHERE part = 'effect'`).Scan(&lines)
	if want := "/orders/*/n wrong 1"; err != nil || lines != want {
		t.Errorf("effects %q, %v; want %q", lines, err, want)
	}
	b.verify(t)

	// Runs that were counted operation by operation verify without their effects.
	if _, err := b.pool.Exec(t.Context(), `UPDATE leaf SET class = '', leaves = leaves + 1 WHERE part = 'effect'`); err != nil {
		t.Fatal(err)
	}
	b.verify(t)
}
