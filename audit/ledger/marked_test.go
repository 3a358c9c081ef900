package ledger_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/ledger"
)

// TestMarkedNoiseIsARuleOfLaterAudits marks a path as noise: audits that start
// later do not compare it, those after the mark has expired do.
func TestMarkedNoiseIsARuleOfLaterAudits(t *testing.T) {
	t.Parallel()
	b, pairs := marked(t)
	mark := audit.Mark{
		Run: b.run, Key: pairs[0].Key, Kind: audit.MarkNoise, Environment: pairs[0].Environment, Tool: "get_note",
		Pattern: "/note", Reason: "a clock", Author: "a test", Expires: time.Now().Add(time.Hour),
	}
	odd := mark
	odd.Pattern, odd.Tool = "no pointer \x00", "other"
	for _, m := range []audit.Mark{mark, odd} {
		if _, err := b.AddMark(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	rules := b.MarkedRules(nil)
	if err := rules.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := rules.Of(mark.Environment)
	if after == nil || rules.Of("elsewhere") != nil {
		t.Fatal("the rules of the environment do not follow its mark")
	}
	before, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	judge := func(r *audit.Rules, tool string) audit.Severity {
		v := r.Judge(&audit.Case{
			Environment: mark.Environment, Mode: audit.Forced, Tool: audit.Tool{Name: tool, Effect: audit.Read}, Call: audit.Call{Tool: tool, Arguments: []byte(`{}`)},
			Rehearsal:   &audit.Rehearsal{Raw: []byte(`{"id":7,"note":"seven"}`)},
			Observation: &audit.Observation{Status: audit.StatusOK, Raw: []byte(`{"id":7,"note":"eight"}`), Evidence: audit.EvidenceExact},
		})
		return v.Severity
	}
	if judge(before, mark.Tool) == audit.S0 || judge(after, mark.Tool) != audit.S0 || judge(after, "another_tool") == audit.S0 {
		t.Errorf("severity before the mark %s, after it %s, of another tool %s", judge(before, mark.Tool), judge(after, mark.Tool), judge(after, "another_tool"))
	}
	if before.Digest() == after.Digest() {
		t.Error("verdicts do not say that they were judged by other rules")
	}
	written, err := audit.ParseRules(nil, []byte("version: \"1\"\ntools:\n  another_tool:\n    /note: volatile\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	both := b.MarkedRules(written)
	if err := both.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if both.Of("elsewhere") != written || judge(both.Of(mark.Environment), mark.Tool) != audit.S0 || judge(both.Of(mark.Environment), "another_tool") == judge(before, "another_tool") {
		t.Error("a mark and written rules do not stand together")
	}
	world, err := b.World(t.Context(), mark.Environment, pairs[0].Version)
	if err != nil || !slices.ContainsFunc(world.Marked, func(m audit.Mark) bool {
		return m.Pattern == mark.Pattern && m.Reason == mark.Reason && m.Author == mark.Author && !m.Expires.IsZero()
	}) {
		t.Errorf("the noise map does not show the mark: %+v, %v", world.Marked, err)
	}
	if _, err := b.pool.Exec(t.Context(), `UPDATE mark SET expires_at = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	expired := b.MarkedRules(nil)
	if err := expired.Follow(t.Context()); err != nil || expired.Of(mark.Environment) != nil {
		t.Errorf("an expired mark is still a rule: %v", err)
	}
}

// TestMarksAreWaitedFor takes the server away when marks are read: an audit waits
// for it, and what does not pass is told at once.
func TestMarksAreWaitedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.pool.Exec(t.Context(), `
		INSERT INTO mark (run, key, kind, environment, tool, pattern, difference, reason, author)
		VALUES (0, sha256('key'), 'noise', 'shop', 't', '/at', '', 'a clock', 'a test')`); err != nil {
		t.Fatal(err)
	}
	config := b.pool.Config()
	var away atomic.Bool
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if away.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return dial(ctx, network, address)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	away.Store(true)
	rules, tries := l.MarkedRules(nil), 0
	err = l.Patiently(t.Context(), func() error {
		err := rules.Follow(t.Context())
		if tries++; tries == 3 {
			away.Store(false)
		}
		return err
	})
	if err != nil || tries < 4 || rules.Of("shop") == nil {
		t.Errorf("after %d tries: %v, rules %v; want those of the mark when the server is back", tries, err, rules.Of("shop"))
	}
	tries = 0
	err = l.Patiently(t.Context(), func() error {
		tries++
		_, err := l.Contract(t.Context(), "nowhere")
		return err
	})
	if audit.ErrorCode(err) != audit.CodeNotFound || tries != 1 {
		t.Errorf("what is not there: %v after %d tries", err, tries)
	}
	ctx, cancel := context.WithCancel(t.Context())
	away.Store(true)
	pool.Reset()
	err = l.Patiently(ctx, func() error { defer cancel(); return pool.Ping(ctx) })
	if err == nil {
		t.Error("a caller that gives up waits on")
	}
}

// TestMarksOfOneEnvironmentDoNotCrowdOutAnother has more marks in one environment
// than are kept as rules, and one in an environment that comes after it.
func TestMarksOfOneEnvironmentDoNotCrowdOutAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.pool.Exec(t.Context(), `
		INSERT INTO mark (run, key, kind, environment, tool, pattern, difference, reason, author)
		SELECT 0, sha256('key'), 'noise', e, 't', '/' || i, '', 'a clock', 'a test'
		FROM (SELECT 'a' AS e, generate_series(1, 501) AS i UNION ALL SELECT 'z', 1) m`); err != nil {
		t.Fatal(err)
	}
	rules := b.MarkedRules(nil)
	if err := rules.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if rules.Of("a") == nil || rules.Of("z") == nil {
		t.Errorf("rules of a: %v, of z: %v; want both", rules.Of("a") != nil, rules.Of("z") != nil)
	}
	for environment, want := range map[string]int{"a": 500, "z": 1, "m": 0} {
		world, err := b.World(t.Context(), environment, "1")
		if err != nil || len(world.Marked) != want {
			t.Errorf("the noise map of %s shows %d marks, %v; want %d", environment, len(world.Marked), err, want)
		}
	}
}

// TestFieldsAreSplitByTaskSuccess adds up what is counted apart, and keeps what
// was counted before there was a split.
func TestFieldsAreSplitByTaskSuccess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tools := map[string]bool{}
	for i := range 24 {
		e := newEpisode(uint64(i), 6)
		if i%3 > 0 {
			e.Success = new(i%3 == 1)
		}
		pairs := auditEpisode(&e)
		if _, err := b.Commit(t.Context(), b.run, pairs); err != nil {
			t.Fatal(err)
		}
		for j := range pairs {
			tools[pairs[j].Action.Call.Tool] = true
		}
	}
	b.verify(t)
	apart := map[audit.Split]int{}
	for _, tool := range slices.Sorted(maps.Keys(tools)) {
		all := fieldPairs(t, b, tool, audit.AllTasks)
		for _, split := range []audit.Split{audit.Succeeded, audit.NotReached, audit.NoSuccessOf} {
			for place, n := range fieldPairs(t, b, tool, split) {
				all[place] -= n
				apart[split] += n
			}
		}
		for place, left := range all {
			if left != 0 {
				t.Errorf("%s %+v: %d pairs are in no split", tool, place, left)
			}
		}
	}
	if len(apart) != 3 {
		t.Errorf("the test's differences fall into %v: it proves little", apart)
	}
	if _, err := b.pool.Exec(t.Context(), `DELETE FROM leaf WHERE success <> 1`); err != nil {
		t.Fatal(err)
	}
	report, err := b.Verify(t.Context())
	if err != nil || len(report.Findings) == 0 {
		t.Errorf("missing leaves are not found: %v", err)
	}
}

// place is one kind of difference.
type place struct{ part, pattern, kind, class string }

func fieldPairs(t *testing.T, b *bundle, tool string, split audit.Split) map[place]int {
	t.Helper()
	fields, err := b.Fields(t.Context(), b.run, tool, audit.Slice{Split: split})
	if err != nil {
		t.Fatal(err)
	}
	pairs := make(map[place]int, len(fields))
	for i := range fields {
		f := &fields[i]
		pairs[place{f.Part, f.Pattern, f.Kind, f.Class}] += f.Pairs
	}
	return pairs
}

// TestLeavesFromBeforeTheSplitVerify keeps a ledger true that was filled before
// leaves were split by task success.
func TestLeavesFromBeforeTheSplitVerify(t *testing.T) {
	t.Parallel()
	b, _ := marked(t) // no task of it has a known success
	if _, err := b.pool.Exec(t.Context(), `UPDATE leaf SET success = -2`); err != nil {
		t.Fatal(err)
	}
	b.verify(t)
	e := newEpisode(99, 6)
	if _, err := b.Commit(t.Context(), b.run, auditEpisode(&e)); err != nil {
		t.Fatal(err)
	}
	b.verify(t)
}

// TestRandomGroupsHoldTheSameSums merges prompt groups in SQL: every counter of
// every cell stays.
func TestRandomGroupsHoldTheSameSums(t *testing.T) {
	t.Parallel()
	b, _ := marked(t)
	fine, err := b.Tally(t.Context(), b.run)
	if err != nil {
		t.Fatal(err)
	}
	coarse, err := b.RandomTally(t.Context(), b.run)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fine.Cells(), coarse.Cells()); d != "" {
		t.Fatal(d)
	}
	for _, cell := range fine.Cells() {
		want, got := sum(fine.Groups(cell)), sum(coarse.Groups(cell))
		if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); d != "" {
			t.Errorf("%+v (-fine +coarse):\n%s", cell, d)
		}
	}
}

func sum(groups map[string]audit.Counters) audit.Counters {
	total := audit.Counters{}
	for _, c := range groups {
		total.Merge(c)
	}
	return total
}
