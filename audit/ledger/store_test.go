package ledger_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/audit/ledger"
)

func TestPairSurvivesAsItWas(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(p *audit.Pair)
		reason string
	}{
		"plain":               {func(*audit.Pair) {}, "every field comes back"},
		"malformed arguments": {func(p *audit.Pair) { p.Action.Call.Arguments = []byte(`{"id": "#W1`) }, "a truncated call is audited as malformed"},
		"NUL and lone surrogate": {func(p *audit.Pair) {
			p.Action.Rehearsal.Raw = []byte("a\x00b \\ud83d \xff")
			p.Action.Call.Arguments = []byte("{\"x\": \"\\ud83d\"}\x00")
			p.Observation.Raw = []byte{0, 1, 2, 0xed, 0xa0, 0xbd}
		}, "Postgres text would refuse them"},
		"whitespace":    {func(p *audit.Pair) { p.Action.Call.Arguments = []byte("{ \"a\" :\t1 }\n") }, "raw bytes are kept as written"},
		"nil is not []": {func(p *audit.Pair) { p.Observation.Delta = nil; p.Action.Call.Arguments = nil }, "not known is not empty"},
		"known empty":   {func(p *audit.Pair) { p.Observation.Delta = diff.Patch{}; p.Action.Call.Arguments = []byte{} }, "empty is not nil"},
		"no observation": {func(p *audit.Pair) {
			p.Observation = nil
			p.Verdict = audit.Verdict{Masked: audit.MaskSandboxUnavailable}
		}, "masked pairs are kept"},
		"twin":    {func(p *audit.Pair) { o := *p.Observation; p.Twin = &o; p.Twin.Raw = []byte("twin") }, "both executions are kept"},
		"success": {func(p *audit.Pair) { p.Success, p.Executed, p.Repeats = new(true), new(false), 3 }, "both terminal successes are kept"},
		"measurements": {func(p *audit.Pair) {
			p.Action.Rehearsal.Confidence, p.Action.Rehearsal.LogProbs = new(0.25), []float32{-1, -2}
			p.Action.Inclusion = 0.5
		}, "what one attempt measured is kept apart"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := newEpisode(1, 1)
			want := auditEpisode(&e)[0]
			row.change(&want)
			if _, err := b.Commit(t.Context(), b.run, []audit.Pair{want}); err != nil {
				t.Fatal(err)
			}
			got, err := b.Pair(t.Context(), b.run, want.Key)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s\n%s", row.reason, d)
			}
			b.verify(t)
		})
	}
}

func TestBadInputCostsNoNeighbour(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(p *audit.Pair)
		reason string
	}{
		"NUL in a tool's name":      {func(p *audit.Pair) { p.Action.Call.Tool = "get\x00order" }, "names become labels"},
		"invalid UTF-8":             {func(p *audit.Pair) { p.PromptGroup = "\xff\xfe" }, "names become labels"},
		"a name of a megabyte":      {func(p *audit.Pair) { p.Action.Call.Tool = strings.Repeat("ż", 1<<19) }, "an index row is limited"},
		"scores that are no number": {func(p *audit.Pair) { p.Verdict.Scores.LeafF1, p.Verdict.Scores.Phi = new(math.NaN()), new(math.Inf(1)) }, "NaN would poison every sum"},
		"a log-probability of -Inf": {func(p *audit.Pair) { p.Action.Rehearsal.LogProbs = []float32{float32(math.Inf(-1))} }, "JSON cannot say it"},
		"a difference that is no JSON": {func(p *audit.Pair) {
			p.Verdict.Differences = []diff.Difference{{Pattern: "/x", Kind: diff.Changed, Rehearsed: []byte("{"), Real: []byte("nul"), Weight: math.NaN()}}
		}, "it is kept as text"},
		"a delta that is no JSON": {func(p *audit.Pair) { p.Observation.Delta = diff.Patch{{Op: "add", Path: "/x", Value: []byte("{")}} }, "it is kept as text"},
		"repeated call ids":       {func(p *audit.Pair) { p.Action.CallID = "call_0" }, "an id of the format identifies nothing"},
		"a body beyond the cap":   {func(p *audit.Pair) { p.Observation.Raw = bytes.Repeat([]byte("é"), 1<<20) }, "cut between code points, digest of the whole"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			e := newEpisode(1, 3)
			pairs := auditEpisode(&e)
			row.change(&pairs[1])
			if n, err := b.Commit(t.Context(), b.run, pairs); err != nil || n != 3 {
				t.Fatalf("inserted %d, %v; want 3: %s", n, err, row.reason)
			}
			if _, err := b.Pair(t.Context(), b.run, pairs[1].Key); err != nil {
				t.Error(err)
			}
			b.verify(t)
		})
	}
}

func TestTruncatedBodyTellsItsSize(t *testing.T) {
	t.Parallel()
	b := setupWith(t, ledger.Config{MaxBody: 7})
	e := newEpisode(1, 1)
	pairs := auditEpisode(&e)
	pairs[0].Observation.Raw = []byte("123456é9")
	if _, err := b.Commit(t.Context(), b.run, pairs); err != nil {
		t.Fatal(err)
	}
	got, err := b.Pair(t.Context(), b.run, pairs[0].Key)
	if err != nil || string(got.Observation.Raw) != "123456" {
		t.Errorf("body %q, %v; want it cut before the é", got.Observation.Raw, err)
	}
	sizes, err := b.Truncated(t.Context(), b.run, pairs[0].Key)
	if err != nil || len(sizes) == 0 {
		t.Fatalf("truncated: %v, %v", sizes, err)
	}
	b.verify(t)
}

func TestConflictsAreKeptAndShown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.createRun(t, "run-2")
	e := newEpisode(1, 3)
	first, second := auditEpisode(&e), auditEpisode(&e)
	second[1].Observation.Raw = []byte(`{"status":"other"}`)
	if _, err := b.Commit(t.Context(), b.run, first); err != nil {
		t.Fatal(err)
	}
	n, err := b.Commit(t.Context(), b.run, second)
	if err != nil || n != 0 {
		t.Fatalf("inserted %d, %v; want 0: the first result counts", n, err)
	}
	if n, err = b.Commit(t.Context(), "run-2", second); err != nil || n != 3 {
		t.Fatalf("run-2 inserted %d, %v; want 3: it counts its own results", n, err)
	}
	if n := b.number(t, `SELECT count(*) FROM audit_conflict`); n != 2 {
		t.Errorf("%d conflicts, want one in each run", n)
	}
	b.verify(t)
}

func TestSamePlaceOtherKeyIsAConflict(t *testing.T) {
	t.Parallel()
	b := setup(t)
	job := b.enqueue(t, newEpisode(1, 2))
	pairs := auditEpisode(job.Episode)
	if _, err := b.Finish(t.Context(), job, pairs); err != nil {
		t.Fatal(err)
	}
	pairs[1].Key = newDigest("another history")
	r, err := b.Finish(t.Context(), job, pairs)
	want := audit.Receipt{Known: 1, Conflicts: 1, Duplicate: true}
	if err != nil || r != want {
		t.Errorf("receipt %+v, %v; want %+v: an action counts once, whatever its key", r, err, want)
	}
	b.verify(t)
}

func TestOutageIsNoConflict(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.createRun(t, "run-2")
	e := newEpisode(1, 1)
	down, up := auditEpisode(&e), auditEpisode(&e)
	down[0].Verdict = audit.Verdict{Masked: audit.MaskSandboxUnavailable}
	down[0].Observation = nil
	for run, pairs := range map[string][]audit.Pair{b.run: down, "run-2": up} {
		if n, err := b.Commit(t.Context(), run, pairs); err != nil || n != 1 {
			t.Fatalf("%s inserted %d, %v", run, n, err)
		}
	}
	if n := b.number(t, `SELECT count(*) FROM audit_conflict`); n != 0 {
		t.Errorf("%d conflicts, want 0: an outage says nothing about the key", n)
	}
	b.verify(t)
}

func TestLateResultRevivesADeadJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	job := b.enqueue(t, newEpisode(1, 2))
	burial := audit.Burial{Fault: audit.FaultTransient, Reason: "gave up\x00", Delivery: 5}
	for range 2 {
		if err := b.Bury(t.Context(), job, burial); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.verify(t); r.Dead != 1 {
		t.Errorf("%d dead, want 1", r.Dead)
	}
	r, err := b.Finish(t.Context(), job, auditEpisode(job.Episode))
	if err != nil || !r.Late || r.Inserted != 2 {
		t.Errorf("receipt %+v, %v; want a late result that counts", r, err)
	}
	if err := b.Bury(t.Context(), job, burial); err != nil {
		t.Fatal(err)
	}
	if r := b.verify(t); r.Dead != 0 || r.Late != 1 || r.Results != 2 {
		t.Errorf("report %+v, want the job done and late", r)
	}
}

func TestReviveSendsDeadJobsAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	job := b.enqueue(t, newEpisode(1, 1))
	if err := b.Bury(t.Context(), job, audit.Burial{Fault: audit.FaultUndetermined, Reason: "no answer"}); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Revive(t.Context(), b.run); err != nil || n != 1 {
		t.Fatalf("revived %d, %v", n, err)
	}
	if r := b.verify(t); r.Open != 1 || r.Unpublished != 1 {
		t.Errorf("report %+v, want the job open with a message", r)
	}
}

func TestConcurrentCommitsCountOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const episodes, clients = 40, 8
	var wait sync.WaitGroup
	for client := range clients {
		wait.Go(func() {
			for i := range episodes {
				// Every client commits every episode, each in its own order.
				e := newEpisode(uint64((i*(client*2+1))%episodes), 4)
				if _, err := b.Commit(t.Context(), b.run, auditEpisode(&e)); err != nil {
					t.Errorf("client %d: %v", client, err)
				}
			}
		})
	}
	wait.Wait()
	if r := b.verify(t); r.Pairs != 4*episodes || r.Conflicts != 0 {
		t.Errorf("report %+v, want %d pairs", r, 4*episodes)
	}
}

func TestPagesFollowEachOther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 6 {
		e := newEpisode(uint64(i), 5)
		if _, err := b.Commit(t.Context(), b.run, auditEpisode(&e)); err != nil {
			t.Fatal(err)
		}
	}
	var seen []audit.PairLine
	page := audit.Page{Limit: 7}
	for {
		lines, next, err := b.Pairs(t.Context(), b.run, audit.PairFilter{}, page)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, lines...)
		if next == "" {
			break
		}
		page.After = next
	}
	keys := map[audit.Digest]bool{}
	for i, line := range seen {
		keys[line.Key] = true
		if i > 0 && line.Severity > seen[i-1].Severity {
			t.Errorf("line %d is graver than the one before", i)
		}
	}
	if len(seen) != 30 || len(keys) != 30 {
		t.Errorf("%d lines, %d keys; want each of 30 once", len(seen), len(keys))
	}
	for _, cursor := range []string{"x", "1-zz", "-"} {
		if _, _, err := b.Pairs(t.Context(), b.run, audit.PairFilter{}, audit.Page{After: cursor}); audit.ErrorCode(err) != audit.CodeInvalid {
			t.Errorf("cursor %q: %v; want invalid", cursor, err)
		}
	}
	for i := range 5 {
		b.createRun(t, fmt.Sprint("more-", i))
	}
	first, next, err := b.Runs(t.Context(), audit.Page{Limit: 4})
	if err != nil || len(first) != 4 || next == "" {
		t.Fatalf("%d runs, next %q, %v", len(first), next, err)
	}
	rest, next, err := b.Runs(t.Context(), audit.Page{Limit: 4, After: next})
	if err != nil || len(rest) != 2 || next != "" || rest[1].Name != b.run || rest[1].Results != 30 {
		t.Errorf("rest %+v, next %q, %v", rest, next, err)
	}
}
