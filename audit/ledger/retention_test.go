package ledger_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
	"understudy/audit/ledger"
)

func TestDropRunKeepsWhatOthersHold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.createRun(t, "run-2")
	shared, own := newEpisode(1, 5), newEpisode(2, 5)
	for _, run := range []string{b.run, "run-2"} {
		if _, err := b.Commit(t.Context(), run, auditEpisode(&shared)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Commit(t.Context(), b.run, auditEpisode(&own)); err != nil {
		t.Fatal(err)
	}
	if err := b.DropRun(t.Context(), b.run); err != nil {
		t.Fatal(err)
	}
	if r := b.verify(t); r.Runs != 1 || r.Pairs != 5 {
		t.Errorf("report %+v, want the other run whole", r)
	}
	if n := b.number(t, `SELECT count(*) FROM pair`); n != 5 {
		t.Errorf("%d stored pairs, want 5: nobody holds the others", n)
	}
	pairs, err := b.EpisodePairs(t.Context(), "run-2", shared.ID)
	if err != nil || len(pairs) != 5 || pairs[0].Observation.Raw == nil {
		t.Errorf("%d pairs, %v; want 5 with bodies", len(pairs), err)
	}
	_, err = b.Commit(t.Context(), b.run, auditEpisode(&own))
	if audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("commit to a dropped run: %v; want not found", err)
	}
}

// fillRun brings into b's run something of every kind: results, an open job, a dead
// letter, a payment, a gate's verdict, a mark and an alarm.
func (b *bundle) fillRun(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	done, open, dead := newEpisode(1, 5), newEpisode(2, 5), newEpisode(3, 5)
	if _, err := b.Commit(ctx, b.run, auditEpisode(&done)); err != nil {
		t.Fatal(err)
	}
	b.enqueue(t, open)
	if err := b.Bury(ctx, b.enqueue(t, dead), audit.Burial{Fault: audit.FaultPermanent, Reason: "broken", Delivery: 1}); err != nil {
		t.Fatal(err)
	}
	hook := newHook(t, audit.HookConfig{Audit: audit.Config{Opener: opener{shop(t)}}, Store: b.Ledger})
	answer := func(int) string { return `{}` }
	score(t, hook, audit.ScoreBatch{Policy: "policy", Run: b.run, Checkpoint: 1, Outputs: rollout("paid", answer, shopCalls()[0])})
	if err := b.SaveGate(ctx, audit.GateRecord{Run: b.run, Status: "FAIL", PolicyDigest: "p", Document: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := b.TagRun(ctx, b.run, "candidate"); err != nil {
		t.Fatal(err)
	}
	if err := b.Raise(ctx, []audit.Alarm{{Run: b.run, Policy: "policy", Kind: "vanishing_errors", Step: 1, Message: "m"}}); err != nil {
		t.Fatal(err)
	}
}

func TestNothingOfADroppedRunIsLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fillRun(t)
	contents, err := b.RunContents(t.Context(), b.run)
	if err != nil || contents.Run.Open != 1 || contents.Run.Dead != 1 || contents.Run.Results < 5 || contents.Shared != 0 ||
		contents.Payments != 1 || contents.Verdicts != 1 || contents.Bytes <= 0 {
		t.Errorf("contents %+v, %v; want an open and a dead episode, results, one payment, one verdict", contents, err)
	}
	if b.verify(t); b.number(t, `SELECT count(*) FROM run`) != 1 {
		t.Error("looking at a run removes it")
	}
	id := contents.Run.Number
	if err := b.DropRun(t.Context(), b.run); err != nil {
		t.Fatal(err)
	}
	// Whatever table comes to hold a run's rows, dropping the run empties it. A mark
	// stays: it says something about a tool, not about the run it was made in.
	rows, err := b.pool.Query(t.Context(), `
		SELECT c.table_name::text FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE c.column_name = 'run' AND c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND c.table_name <> 'mark'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 15 {
		t.Fatalf("tables of runs: %v, %v", tables, err)
	}
	for _, table := range tables {
		if n := b.number(t, fmt.Sprintf(`SELECT count(*) FROM %s WHERE run = $1`, pgx.Identifier{table}.Sanitize()), id); n != 0 {
			t.Errorf("%d rows of the dropped run in %s", n, table)
		}
	}
	for _, table := range []string{"run", "pair", "dropped_pair"} {
		if n := b.number(t, `SELECT count(*) FROM `+table); n != 0 {
			t.Errorf("%d rows in %s, want 0", n, table)
		}
	}
	b.verify(t)
	if _, err := b.RunContents(t.Context(), b.run); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("contents of a dropped run: %v; want not found", err)
	}
}

// One program drops a run and makes it anew while another still knows its old number.
func TestARunOfTheSameNameIsAnotherRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, err := ledger.New(b.pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Enqueue(t.Context(), b.run, []audit.Episode{newEpisode(1, 2)}); err != nil {
		t.Fatal(err)
	}
	if err := b.DropRun(t.Context(), b.run); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Enqueue(t.Context(), b.run, []audit.Episode{newEpisode(1, 2)}); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("enqueue into a run that another program dropped: %v; want not found", err)
	}
	b.createRun(t, b.run)
	if n, err := other.Enqueue(t.Context(), b.run, []audit.Episode{newEpisode(1, 2)}); err != nil || n != 1 {
		t.Errorf("enqueue into the new run: %d, %v; want 1", n, err)
	}
	if err := b.DropRun(t.Context(), b.run); err != nil {
		t.Fatal(err)
	}
	b.createRun(t, b.run)
	// other knows the number of the run before: what it brings goes into this one.
	if n, err := other.Enqueue(t.Context(), b.run, []audit.Episode{newEpisode(2, 2)}); err != nil || n != 1 {
		t.Errorf("enqueue by a stale number: %d, %v; want 1", n, err)
	}
	if err := b.DropRun(t.Context(), b.run); err != nil {
		t.Fatal(err)
	}
	// A trainer's run is made again by whoever is asked for rewards.
	hook := newHook(t, audit.HookConfig{Audit: audit.Config{Opener: opener{shop(t)}}, Store: other})
	batch := audit.ScoreBatch{Policy: "policy", Run: b.run, Checkpoint: 1, Outputs: rollout("paid", func(int) string { return `{}` }, shopCalls()[0])}
	if got := score(t, hook, batch); len(got.Scores) != 1 {
		t.Errorf("scores %+v, want one", got)
	}
	b.verify(t)
}
