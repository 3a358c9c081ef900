package ledger_test

import (
	"testing"
	"time"

	"understudy/audit"
)

// marked commits a run of many differences, and returns a pair of each kind.
func marked(t *testing.T) (*bundle, []audit.Pair) {
	t.Helper()
	b := setup(t)
	var all []audit.Pair
	for i := range 20 {
		e := newEpisode(uint64(i), 6)
		pairs := auditEpisode(&e)
		if _, err := b.Commit(t.Context(), b.run, pairs); err != nil {
			t.Fatal(err)
		}
		all = append(all, pairs...)
	}
	return b, all
}

func pick(t *testing.T, pairs []audit.Pair, holds func(*audit.Pair) bool) *audit.Pair {
	t.Helper()
	for i := range pairs {
		if holds(&pairs[i]) {
			return &pairs[i]
		}
	}
	t.Fatal("the test's pairs hold none of this kind")
	return nil
}

func scoredNow(t *testing.T, b *bundle) int {
	t.Helper()
	if err := b.Summarize(t.Context(), b.run); err != nil {
		t.Fatal(err)
	}
	s, err := b.Summary(t.Context(), b.run, audit.Slice{Split: audit.AllTasks})
	if err != nil {
		t.Fatal(err)
	}
	if s.Pooled == nil || !s.Current() {
		t.Fatalf("the summary is not that of the run: %+v", s)
	}
	return s.Pooled.Scored
}

func TestMarksTakeCallsOutOfFiguresAndReturnThem(t *testing.T) {
	t.Parallel()
	b, pairs := marked(t)
	before := scoredNow(t, b)
	p := pick(t, pairs, func(p *audit.Pair) bool { return p.Verdict.Scored() && len(p.Verdict.Differences) > 0 })
	d := p.Verdict.Differences[0]
	mark := audit.Mark{
		Run: b.run, Key: p.Key, Kind: audit.MarkKnownIssue, Environment: p.Environment, Tool: p.Action.Call.Tool,
		Pattern: d.Pattern, Difference: string(d.Kind), Reason: "ticket 12", Author: "a test", Expires: time.Now().Add(time.Hour),
	}
	want := 0
	for i := range pairs {
		if mark.Excuses(&pairs[i]) {
			want++
		}
	}
	got, err := b.AddMark(t.Context(), mark)
	if err != nil || got != want || want < 2 {
		t.Fatalf("excused %d calls, want the %d that show the difference: %v", got, want, err)
	}
	if after := scoredNow(t, b); after != before-want {
		t.Errorf("%d calls count after the mark, want %d", after, before-want)
	}
	b.verify(t)

	// A call that comes later leaves, too, when the marks are applied.
	e := newEpisode(99, 6)
	later := auditEpisode(&e)
	inserted, err := b.Commit(t.Context(), b.run, later)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ApplyMarks(t.Context(), b.run); err != nil {
		t.Fatal(err)
	}
	wantLater := 0
	scoredLater := 0
	for i := range later {
		if later[i].Verdict.Scored() && !later[i].Verdict.Cascaded {
			scoredLater++
		}
		if mark.Excuses(&later[i]) {
			wantLater++
		}
	}
	if after := scoredNow(t, b); inserted != len(later) || after != before-want+scoredLater-wantLater {
		t.Errorf("%d calls count after later ones, want %d", after, before-want+scoredLater-wantLater)
	}
	b.verify(t)

	record, err := b.Call(t.Context(), b.run, p.Key)
	if err != nil || len(record.Marks) != 1 || record.Masked != audit.MaskKnownDefect || !record.Pair.Verdict.Scored() {
		t.Fatalf("the call does not show its mark beside its verdict: %+v, %v", record.Marks, err)
	}
	if err := b.RevokeMark(t.Context(), record.Marks[0].ID); err != nil {
		t.Fatal(err)
	}
	if after := scoredNow(t, b); after != before+scoredLater {
		t.Errorf("%d calls count after the mark was revoked, want all %d", after, before+scoredLater)
	}
	b.verify(t)
}

// TestMarksOutliveAClockThatIsSetBack has a mark look when the clock was an hour
// ahead: calls that are committed in that hour leave all the same.
func TestMarksOutliveAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	b, pairs := marked(t)
	p := pick(t, pairs, func(p *audit.Pair) bool { return p.Verdict.Scored() && len(p.Verdict.Differences) > 0 })
	d := p.Verdict.Differences[0]
	mark := audit.Mark{
		Run: b.run, Key: p.Key, Kind: audit.MarkKnownIssue, Environment: p.Environment, Tool: p.Action.Call.Tool,
		Pattern: d.Pattern, Difference: string(d.Kind), Reason: "ticket 12", Author: "a test", Expires: time.Now().Add(time.Hour),
	}
	if _, err := b.AddMark(t.Context(), mark); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pool.Exec(t.Context(), `UPDATE mark_run SET through = now() + interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	want := 0
	for seed := uint64(99); want == 0; seed++ {
		e := newEpisode(seed, 6)
		later := auditEpisode(&e)
		for i := range later {
			if mark.Excuses(&later[i]) {
				want++
			}
		}
		if _, err := b.Commit(t.Context(), b.run, later); err != nil {
			t.Fatal(err)
		}
	}
	before := b.number(t, `SELECT count(*) FROM excused`)
	if err := b.ApplyMarks(t.Context(), b.run); err != nil {
		t.Fatal(err)
	}
	if got := b.number(t, `SELECT count(*) FROM excused`) - before; got != want {
		t.Errorf("%d later calls left the figures, want %d", got, want)
	}
	b.verify(t)
}

func TestMarksOfOneCallAndOfNoise(t *testing.T) {
	t.Parallel()
	b, pairs := marked(t)
	before := scoredNow(t, b)
	p := pick(t, pairs, func(p *audit.Pair) bool { return p.Verdict.Scored() })
	n, err := b.AddMark(t.Context(), audit.Mark{
		Run: b.run, Key: p.Key, Kind: audit.MarkReferenceWrong, Environment: p.Environment, Tool: p.Action.Call.Tool, Reason: "wrong rule",
	})
	if err != nil || n != 1 {
		t.Fatalf("excused %d calls, want this one: %v", n, err)
	}
	if _, err := b.AddMark(t.Context(), audit.Mark{Run: b.run, Key: p.Key, Kind: audit.MarkNoise}); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("a mark without a reason: %v", err)
	}
	if after := scoredNow(t, b); after != before-1 {
		t.Errorf("%d calls count, want %d", after, before-1)
	}
	b.verify(t)
	if _, err := b.pool.Exec(t.Context(), `UPDATE mark SET expires_at = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	if err := b.EndMarks(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := scoredNow(t, b); after != before {
		t.Errorf("%d calls count after the mark expired, want all %d", after, before)
	}
	b.verify(t)
}

func TestACallOfTwoMarksStaysOutUntilBothEnd(t *testing.T) {
	t.Parallel()
	b, pairs := marked(t)
	before := scoredNow(t, b)
	p := pick(t, pairs, func(p *audit.Pair) bool { return p.Verdict.Scored() && len(p.Verdict.Differences) > 0 })
	d := p.Verdict.Differences[0]
	mark := audit.Mark{
		Run: b.run, Key: p.Key, Kind: audit.MarkKnownIssue, Environment: p.Environment, Tool: p.Action.Call.Tool,
		Pattern: d.Pattern, Difference: string(d.Kind), Reason: "ticket 12", Author: "a test",
	}
	out, err := b.AddMark(t.Context(), mark)
	if err != nil || out < 2 {
		t.Fatalf("excused %d calls, %v", out, err)
	}
	mark.Reason = "ticket 13, the same"
	if again, err := b.AddMark(t.Context(), mark); err != nil || again != 0 {
		t.Fatalf("excused %d calls again, %v", again, err)
	}
	marks, err := b.Marks(t.Context(), 2) // the newest first
	if err != nil || len(marks) != 2 {
		t.Fatal(marks, err)
	}
	for i, want := range []int{before - out, before} {
		if err := b.RevokeMark(t.Context(), marks[1-i].ID); err != nil {
			t.Fatal(err)
		}
		if after := scoredNow(t, b); after != want {
			t.Errorf("after %d of 2 marks ended, %d calls count, want %d", i+1, after, want)
		}
		b.verify(t)
	}
}
