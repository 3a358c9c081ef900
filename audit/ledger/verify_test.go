package ledger_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/audit"
	"understudy/audit/ledger"
)

// TestVerifyFinds breaks the ledger in every way that Verify claims to see.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ sql, want string }{
		"progress that moved":           {`UPDATE progress SET pairs = pairs + 1`, "progress of run"},
		"a summary that moved":          {`UPDATE summary_cell SET figures = convert_to(replace(convert_from(figures, 'UTF8'), '"scored":6', '"scored":7'), 'UTF8')`, "summary of"},
		"a call that was taken out":     {`UPDATE run_pair SET masked = 'noise' WHERE ctid = (SELECT ctid FROM run_pair WHERE masked = '' LIMIT 1)`, "is masked as"},
		"a counter that moved":          {`UPDATE rollup SET pairs = pairs + 1 WHERE ctid = (SELECT ctid FROM rollup LIMIT 1)`, "counts"},
		"a figure that moved":           {`UPDATE rollup SET leaf_f1_x = leaf_f1_x + 0.1 WHERE ctid = (SELECT ctid FROM rollup LIMIT 1)`, "leaf_f1 is"},
		"a rollup that vanished":        {`DELETE FROM rollup WHERE ctid = (SELECT ctid FROM rollup LIMIT 1)`, "no rollup"},
		"a counter line that moved":     {`UPDATE counter SET x = x + 1 WHERE ctid = (SELECT ctid FROM counter LIMIT 1)`, "recounted"},
		"a counter line that vanished":  {`DELETE FROM counter WHERE ctid = (SELECT ctid FROM counter LIMIT 1)`, "recounted"},
		"a cell that moved":             {`UPDATE cell SET n = n + 1 WHERE ctid = (SELECT ctid FROM cell LIMIT 1)`, "cell"},
		"a leaf that moved":             {`UPDATE leaf SET leaves = leaves + 1`, "leaf"},
		"a sample that vanished":        {`DELETE FROM leaf_sample`, "samples"},
		"a member that vanished":        {`DELETE FROM run_pair WHERE ctid = (SELECT ctid FROM run_pair LIMIT 1)`, "no member"},
		"an action that vanished":       {`DELETE FROM action WHERE ctid = (SELECT ctid FROM action LIMIT 1)`, "results"},
		"a pair that vanished":          {`DELETE FROM pair WHERE ctid = (SELECT ctid FROM pair LIMIT 1)`, "has no result"},
		"a body that rotted":            {`UPDATE body SET content = set_byte(content, 0, 120) WHERE digest = (SELECT digest FROM body LIMIT 1)`, "other bytes"},
		"a body that vanished":          {`DELETE FROM body WHERE digest = (SELECT observation FROM pair LIMIT 1)`, "is missing"},
		"a document that rotted":        {`UPDATE pair SET doc = convert_to(replace(convert_from(doc, 'UTF8'), 'shop', 'ship'), 'UTF8')`, "another document"},
		"an open job without message":   {`DELETE FROM outbox WHERE topic = 'job'`, "without a message"},
		"a dead job without letter":     {`UPDATE episode SET state = 'dead', finished_at = now() WHERE state = 'open'`, "letters"},
		"a done job without results":    {`UPDATE episode SET state = 'done', finished_at = now() WHERE state = 'open'`, "without results"},
		"results of a job that is open": {`UPDATE episode SET state = 'open', finished_at = NULL, body = '' WHERE state = 'done'`, "is open with"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			done, open := newEpisode(1, 6), newEpisode(2, 2)
			if _, err := b.Commit(t.Context(), b.run, auditEpisode(&done)); err != nil {
				t.Fatal(err)
			}
			b.enqueue(t, open)
			if err := b.Summarize(t.Context(), b.run); err != nil {
				t.Fatal(err)
			}
			b.verify(t)
			if _, err := b.pool.Exec(t.Context(), row.sql); err != nil {
				t.Fatal(err)
			}
			report, err := b.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(strings.Join(report.Findings, "\n"), row.want) || report.Err() == nil {
				t.Errorf("findings %q do not say %q", report.Findings, row.want)
			}
		})
	}
}

func TestCountsAndFindings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var all []audit.Pair
	for i := range 8 {
		e := newEpisode(uint64(i), 6)
		job := b.enqueue(t, e)
		pairs := auditEpisode(job.Episode)
		pairs[0].Verdict = audit.Verdict{
			Real: audit.Outcome{Class: audit.Failed, Family: audit.NotFound}, Rehearsed: audit.Outcome{Class: audit.OK}, Severity: audit.S5, FalseSuccess: true,
			Scores: audit.Scores{Valid: true},
		}
		pairs[1].Verdict = audit.Verdict{Masked: audit.MaskSandboxFault}
		if _, err := b.Finish(t.Context(), job, pairs); err != nil {
			t.Fatal(err)
		}
		all = append(all, pairs...)
	}
	want := map[audit.Figure]float64{}
	for _, p := range all {
		for f, x := range audit.FigureValues(p) {
			want[f] += x
		}
	}
	tools, err := b.Counts(t.Context(), b.run)
	if err != nil {
		t.Fatal(err)
	}
	got, pairs, masked := map[audit.Figure]float64{}, 0, 0
	for _, tool := range tools {
		pairs += tool.Pairs
		masked += tool.Masked[audit.MaskSandboxFault]
		for f, clusters := range tool.Groups {
			for _, c := range clusters {
				got[f] += c.Sum
			}
		}
	}
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); d != "" || pairs != len(all) || masked != 8 {
		t.Errorf("%d pairs, %d masked\n%s", pairs, masked, d)
	}
	facts, err := b.Run(t.Context(), b.run)
	if err != nil || len(facts.Environments) != 1 || facts.Environments[0].Version != "1" || !cmp.Equal(facts.WireAPIs, []string{"recorded"}) {
		t.Errorf("facts %+v, %v", facts, err)
	}
	findings, err := b.Findings(t.Context(), b.run, 2)
	if err != nil || len(findings) != 2 || findings[0].Kind != "false_success" || findings[0].Severity != audit.S5 || len(findings[0].Samples) == 0 {
		t.Errorf("findings %+v, %v; want the false successes first", findings, err)
	}
}

func TestBaselinesAreFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, run := range []string{"run-2", "run-3"} {
		b.createRun(t, run)
	}
	e := newEpisode(1, 3)
	for _, run := range []string{b.run, "run-2", "run-3"} {
		if _, err := b.Commit(t.Context(), run, auditEpisode(&e)); err != nil {
			t.Fatal(err)
		}
	}
	for run, verdicts := range map[string][]string{b.run: {"FAIL", "PASS"}, "run-2": {"PASS", "FAIL"}} {
		for _, v := range verdicts {
			if err := b.SaveGate(t.Context(), audit.GateRecord{Run: run, Status: v, Document: []byte("{}")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.createRun(t, "run-4")
	other := newEpisode(2, 3)
	pairs := auditEpisode(&other)
	for i := range pairs {
		pairs[i].Verdict.Rules = newDigest("other rules")
	}
	pairs[2].Verdict.Rules = newDigest("rules") // before they were written
	if _, err := b.Commit(t.Context(), "run-4", pairs); err != nil {
		t.Fatal(err)
	}
	for run, names := range map[string][]string{"run-3": {"rules"}, "run-4": {"rules", "other rules"}} {
		var want []audit.Digest
		for _, name := range names {
			want = append(want, newDigest(name))
		}
		slices.SortFunc(want, audit.Digest.Compare)
		if facts, err := b.Run(t.Context(), run); err != nil || len(facts.Rules) != 1 || !slices.Equal(facts.Rules["shop"], want) {
			t.Errorf("%s was judged by the rules %v, %v; want %v", run, facts.Rules, err, want)
		}
	}
	if err := b.TagRun(t.Context(), "run-2", "candidate"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ ref, want, reason string }{
		{"run-3", "run-3", "by name"},
		{"tag:candidate", "run-2", "by tag"},
		{"auto:run-3", "run-1", "the newest whose last gate passed"},
		{"auto:run-1", "", "nothing came before it"},
		{"auto:run-4", "", "those before it were judged by other rules"},
		{"tag:none", "", "nobody has the tag"},
		{"none", "", "no such run"},
	} {
		got, err := b.Run(t.Context(), row.ref)
		if got.ID != row.want || (row.want == "") != (audit.ErrorCode(err) == audit.CodeNotFound) {
			t.Errorf("%s is %q, %v; want %q: %s", row.ref, got.ID, err, row.want, row.reason)
		}
	}
}

func TestKnowledge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	noise := ledger.Noise{Environment: "shop", Version: "1", Tool: "get", Pattern: "/at", Twins: 20, Disagreed: 3}
	for range 2 {
		if err := b.AddNoise(t.Context(), []ledger.Noise{noise}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.Noise(t.Context(), "shop", "1")
	if err != nil || len(got) != 1 || got[0].Twins != 40 || got[0].Disagreed != 6 {
		t.Errorf("noise %+v, %v", got, err)
	}
	if err := b.AddDefect(t.Context(), ledger.Defect{Environment: "shop", Tool: "get"}); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("a defect without a reason: %v", err)
	}
	if err := b.AddDefect(t.Context(), ledger.Defect{Environment: "shop", Tool: "get", Pattern: "/x", Reason: "tax is wrong"}); err != nil {
		t.Fatal(err)
	}
	if defects, err := b.Defects(t.Context(), "shop", "7"); err != nil || len(defects) != 1 {
		t.Errorf("defects %+v, %v; want the one of every version", defects, err)
	}
	e := newEpisode(1, 2)
	e.Actions[1].Canary = &audit.CanaryLabel{Mutation: "unknown_id", Level: audit.DomainLevel, Family: audit.NotFound}
	for i, want := range []int{1, 0} {
		if n, err := b.AddCanaries(t.Context(), "1", []audit.Episode{e}); err != nil || n != want {
			t.Errorf("add %d: %d canaries, %v; want %d", i, n, err, want)
		}
	}
	canaries, err := b.Canaries(t.Context(), "shop", "1", "", 10)
	if err != nil || len(canaries) != 1 || !cmp.Equal(canaries[0], e) {
		t.Errorf("canaries %+v, %v", canaries, err)
	}
	for _, complete := range []bool{false, true, false} {
		if err := b.Checkpoint(t.Context(), "policy", 7, newDigest(7), complete); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.number(t, `SELECT count(*) FROM checkpoint WHERE complete`); n != 1 {
		t.Errorf("%d complete checkpoints, want 1: complete stays complete", n)
	}
}
