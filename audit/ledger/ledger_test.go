package ledger_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
)

var postgres ledgertest.Server

func TestMain(m *testing.M) { os.Exit(postgres.Main(m)) }

// bundle is a ledger on a database of the test's own, with one run.
type bundle struct {
	*ledger.Ledger
	pool *pgxpool.Pool
	run  string
}

func setup(tb testing.TB) *bundle {
	tb.Helper()
	return setupWith(tb, ledger.Config{})
}

func setupWith(tb testing.TB, config ledger.Config) *bundle {
	tb.Helper()
	pool := postgres.Pool(tb)
	l, err := ledger.New(pool, config)
	if err != nil {
		tb.Fatal(err)
	}
	b := &bundle{Ledger: l, pool: pool, run: "run-1"}
	b.createRun(tb, b.run)
	return b
}

func (b *bundle) createRun(tb testing.TB, name string) {
	tb.Helper()
	if _, err := b.CreateRun(tb.Context(), audit.NewRun{Name: name, Policy: "policy"}); err != nil {
		tb.Fatal(err)
	}
}

// verify fails the test with every finding.
func (b *bundle) verify(tb testing.TB) ledger.Report {
	tb.Helper()
	report, err := b.Verify(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range report.Findings {
		tb.Errorf("verify: %s", f)
	}
	return report
}

// number asks the database one question.
func (b *bundle) number(tb testing.TB, sql string, args ...any) int {
	tb.Helper()
	var n int
	if err := b.pool.QueryRow(tb.Context(), sql, args...).Scan(&n); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return n
}

func newDigest(parts ...any) audit.Digest { return sha256.Sum256(fmt.Append(nil, parts...)) }

// newEpisode is an episode with n actions of a few tools, brought with its rehearsals.
func newEpisode(seed uint64, n int) audit.Episode {
	rng := rand.New(rand.NewPCG(seed, 1))
	e := audit.Episode{
		ID: fmt.Sprintf("episode-%d", seed), PromptGroup: fmt.Sprintf("group-%d", seed/4), Policy: "policy", WireAPI: "recorded",
		Environment: "shop", Mode: audit.Forced,
	}
	for i := range n {
		e.Actions = append(e.Actions, audit.Action{
			Step: i, CallID: fmt.Sprintf("call_%d", i),
			Call:      audit.Call{Tool: []string{"get_order", "cancel_order", "list_orders"}[rng.IntN(3)], Arguments: fmt.Appendf(nil, `{"order_id": "#W%d"}`, rng.IntN(1000))},
			Rehearsal: &audit.Rehearsal{Raw: fmt.Appendf(nil, `{"status":"ok","n":%d}`, rng.IntN(3))},
		})
	}
	return e
}

// auditEpisode is a cheap stand-in for an audit: a pure function of the episode.
func auditEpisode(e *audit.Episode) []audit.Pair {
	pairs := make([]audit.Pair, 0, len(e.Actions))
	for i, a := range e.Actions {
		if a.Replay {
			continue
		}
		truth := fmt.Appendf(nil, `{"status":"ok","n":%d}`, i%3)
		p := audit.Pair{
			Key: newDigest(e.ID, e.Mode, a.Step, a.Sample, string(a.Call.Arguments)), Episode: e.ID, PromptGroup: e.PromptGroup, Policy: e.Policy,
			Environment: "shop", Version: "1", EnvDigest: newDigest("shop"), Mode: e.Mode, Action: a, Effect: audit.Write, Success: e.Success,
			Observation: &audit.Observation{Status: audit.StatusOK, Raw: truth, Evidence: audit.EvidenceExact, Delta: diff.Patch{}, Before: newDigest("before"), After: newDigest("after")},
		}
		p.Verdict = verdict(a.Rehearsal.Raw, truth)
		pairs = append(pairs, p)
	}
	return pairs
}

func verdict(rehearsed, truth []byte) audit.Verdict {
	ok := audit.Outcome{Class: audit.OK}
	v := audit.Verdict{
		Real: ok, Rehearsed: ok, Evidence: audit.EvidenceExact, Rules: newDigest("rules"),
		Scores: audit.Scores{Valid: true, Shape: new(1.0), LeafF1: new(1.0), Exact: new(1.0), Phi: new(1.0), RealCells: new(0)},
	}
	if string(rehearsed) != string(truth) {
		v.Severity = audit.S2
		v.Scores.LeafF1, v.Scores.Exact, v.Scores.Phi = new(0.5), new(0.0), new(0.65)
		v.Differences = []diff.Difference{{Pattern: "/n", Pointer: "/n", Kind: diff.Changed, Rehearsed: json.RawMessage(`1`), Real: json.RawMessage(`2`), Class: diff.Exact, Weight: 0.5}}
	}
	return v
}

func TestCommitCountsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := newEpisode(1, 12)
	pairs := auditEpisode(&e)
	for i, want := range []int{12, 0} {
		got, err := b.Commit(t.Context(), b.run, pairs)
		if err != nil || got != want {
			t.Fatalf("commit %d inserted %d, %v; want %d: the second time nothing is new", i, got, err, want)
		}
	}
	b.createRun(t, "run-2")
	if got, err := b.Commit(t.Context(), "run-2", pairs); err != nil || got != 12 {
		t.Fatalf("second run inserted %d, %v; want 12: a pair counts in every run that holds it", got, err)
	}
	if n := b.number(t, `SELECT count(*) FROM pair`); n != 12 {
		t.Errorf("%d stored pairs, want 12: equal results are stored once", n)
	}
	if n := b.number(t, `SELECT sum(pairs) FROM rollup`); n != 24 {
		t.Errorf("rollups count %d pairs, want 24", n)
	}
	b.verify(t)
}

func TestFinishClosesTheJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	job := b.enqueue(t, newEpisode(2, 5))
	r, err := b.Finish(t.Context(), job, auditEpisode(job.Episode))
	if err != nil || r.Inserted != 5 || r.Duplicate {
		t.Fatalf("finish: %+v, %v", r, err)
	}
	r, err = b.Finish(t.Context(), job, auditEpisode(job.Episode))
	if err != nil || r.Inserted != 0 || r.Known != 5 || !r.Duplicate {
		t.Fatalf("finish again: %+v, %v; want a duplicate that moves nothing", r, err)
	}
	report := b.verify(t)
	if report.Duplicates != 1 || report.Results != 5 {
		t.Errorf("report %+v, want 1 duplicate and 5 results", report)
	}
}

// enqueue puts one episode into the run and returns its job as a queue would deliver it.
func TestFinishAllIsOneTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var finished []audit.Finished
	for seed := range uint64(3) {
		job := b.enqueue(t, newEpisode(seed, 3))
		finished = append(finished, audit.Finished{Job: job, Pairs: auditEpisode(job.Episode)})
	}
	finished[2].Pairs[0].Key = finished[0].Pairs[0].Key // the same pair in two episodes
	stranger := finished[1]
	stranger.Job.ID = newDigest("nobody's job")
	for name, bad := range map[string][]audit.Finished{
		"a job that is not there":   {finished[0], stranger, finished[2]},
		"the same job twice":        {finished[0], finished[1], finished[0]},
		"jobs of more than one run": {finished[0], {Job: audit.Job{Run: "other", ID: finished[1].Job.ID}}},
	} {
		if _, err := b.FinishAll(t.Context(), bad); err == nil {
			t.Errorf("%s: finished, want an error", name)
		}
	}
	if n := b.number(t, `SELECT (SELECT count(*) FROM pair) + (SELECT count(*) FROM episode WHERE state <> 'open')`); n != 0 {
		t.Errorf("%d pairs and closed episodes after errors, want none", n)
	}
	for try, want := range [][]audit.Receipt{
		{{Inserted: 3}, {Inserted: 3}, {Inserted: 2, Known: 1}},
		{{Known: 3, Duplicate: true}, {Known: 3, Duplicate: true}, {Known: 3, Duplicate: true}},
	} {
		got, err := b.FinishAll(t.Context(), finished)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			// Either episode may be the first with the shared pair, and its own
			// result decides whether the other's is a conflict.
			got[i].Known, got[i].Conflicts = got[i].Known+got[i].Conflicts, 0
		}
		if !slices.Equal(got, want) {
			t.Errorf("receipts %+v at try %d, want %+v", got, try+1, want)
		}
	}
	if report := b.verify(t); report.Pairs != 8 || report.Results != 9 || report.Duplicates != 3 {
		t.Errorf("report %+v, want 8 pairs for 9 results, and 3 duplicates", report)
	}
}

func (b *bundle) enqueue(tb testing.TB, e audit.Episode) audit.Job {
	tb.Helper()
	if n, err := b.Enqueue(tb.Context(), b.run, []audit.Episode{e}); err != nil || n != 1 {
		tb.Fatalf("enqueue: %d, %v", n, err)
	}
	var job audit.Job
	_, _, err := b.Relay(tb.Context(), claimUpTo(100), func(_ context.Context, messages []audit.Outgoing) error {
		for i := range messages {
			messages[i].Seq = uint64(i + 1)
			if messages[i].Topic != audit.TopicJob {
				continue
			}
			var err error
			if job, err = audit.DecodeJob(messages[i].Payload); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return job
}
