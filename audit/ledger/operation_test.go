package ledger_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/ledger"
)

// buryAll enqueues episodes, hands them to a transport that takes them, and
// gives the first dead of them up.
func (b *bundle) buryAll(t *testing.T, episodes, dead int) []audit.Job {
	t.Helper()
	ctx := t.Context()
	var queued []audit.Episode
	for i := range episodes {
		queued = append(queued, newEpisode(uint64(i), 2))
	}
	if _, err := b.Enqueue(ctx, b.run, queued); err != nil {
		t.Fatal(err)
	}
	_, _, err := b.Relay(ctx, claimUpTo(dead), func(_ context.Context, messages []audit.Outgoing) error {
		for i := range messages {
			messages[i].Seq = uint64(i + 1)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := b.Waiting(ctx, 0, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []audit.Job
	for _, w := range waiting {
		job := audit.Job{Run: w.Run, ID: w.ID, Attempt: w.Attempt}
		if err := b.Bury(ctx, job, audit.Burial{Fault: audit.FaultPermanent, Reason: "<b>broken</b>\x00 żółw", Delivery: 3}); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// A job that was sent before the clock was set back looks as if it had been sent in
// the future: it is looked for at once, not when the clock is there again.
func TestJobsWaitWhereverTheClockIs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	if _, err := b.Enqueue(ctx, b.run, []audit.Episode{newEpisode(1, 1)}); err != nil {
		t.Fatal(err)
	}
	_, _, err := b.Relay(ctx, claimUpTo(1), func(_ context.Context, messages []audit.Outgoing) error {
		messages[0].Seq = 1
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		sent    string
		waiting int
		reason  string
	}{
		{"-10 minutes", 0, "it may be on its way"},
		{"10 minutes", 0, "two clocks differ by a little"},
		{"-2 hours", 1, "it waits longer than it should"},
		{"1 day", 1, "the clock was set back by a day"},
	} {
		if _, err := b.pool.Exec(ctx, `UPDATE episode SET sent_at = now() + $1::text::interval`, row.sent); err != nil {
			t.Fatal(err)
		}
		waiting, err := b.Waiting(ctx, time.Hour, nil, 10)
		if err != nil || len(waiting) != row.waiting {
			t.Errorf("sent at now %s: %d jobs wait (%v), want %d: %s", row.sent, len(waiting), err, row.waiting, row.reason)
		}
	}
}

func TestDeadJobsAreListedAndSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	jobs := b.buryAll(t, 9, 5)
	if len(jobs) != 5 {
		t.Fatalf("%d jobs were given up, want 5", len(jobs))
	}
	runs, err := b.RunJobs(ctx, 10)
	if err != nil || len(runs) != 1 || runs[0].Queued != 4 || runs[0].Sent != 0 || runs[0].Dead != 5 {
		t.Fatalf("jobs of runs: %+v, %v; want 4 queued and 5 dead", runs, err)
	}
	var seen []audit.Digest
	page := audit.Page{Limit: 2}
	for {
		letters, next, err := b.DeadLetters(ctx, audit.JobFilter{Run: b.run}, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range letters {
			if d.Reason != "<b>broken</b>\ufffd żółw" || d.Deliveries != 3 || d.Fault != "permanent" {
				t.Errorf("letter %+v: the reason comes back readable", d)
			}
			seen = append(seen, d.ID)
		}
		if page.After = next; next == "" {
			break
		}
	}
	slices.SortFunc(seen, func(x, y audit.Digest) int { return strings.Compare(x.String(), y.String()) })
	if len(slices.Compact(seen)) != 5 {
		t.Errorf("%d letters in pages of two, want 5 different ones", len(seen))
	}
	alerts, err := b.Alerts(ctx, 10)
	if err != nil || len(alerts) != 1 || alerts[0].Kind != audit.AlertDead || alerts[0].N != 5 {
		t.Errorf("alerts: %+v, %v", alerts, err)
	}
	if err := b.ReviveJob(ctx, b.run, jobs[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := b.ReviveJob(ctx, b.run, jobs[0].ID); audit.ErrorCode(err) != audit.CodeConflict {
		t.Errorf("a job that is open again: got %v", err)
	}
	runs, err = b.RunJobs(ctx, 10)
	if err != nil || runs[0].Queued != 5 || runs[0].Dead != 4 {
		t.Errorf("after one was sent again: %+v, %v", runs, err)
	}
	if letters, _, err := b.DeadLetters(ctx, audit.JobFilter{Revived: true}, audit.Page{}); err != nil || len(letters) != 5 {
		t.Errorf("with those sent again there are %d letters, %v", len(letters), err)
	}
	if _, _, err := b.DeadLetters(ctx, audit.JobFilter{}, audit.Page{After: "x"}); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("a cursor that is none: got %v", err)
	}
	b.verify(t)
}

func TestAlertsNameWhatTurned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	for _, status := range []string{"INCONCLUSIVE", "PASS", "PASS", "FAIL", "FAIL"} {
		if err := b.SaveGate(ctx, audit.GateRecord{Run: b.run, Status: status, PolicyDigest: "p1", Document: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	e := newEpisode(1, 1)
	pairs := auditEpisode(&e)
	for i := range 2 {
		pairs[0].Verdict.Severity = audit.Severity(i)
		if _, err := b.Commit(ctx, b.run, pairs); err != nil {
			t.Fatal(err)
		}
	}
	id, err := b.StartTraining(ctx, audit.NewTraining{Experiment: "tiny", Arm: "envace", Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.FinishTraining(ctx, id, "out of memory"); err != nil {
		t.Fatal(err)
	}
	alerts, err := b.Alerts(ctx, 10)
	if err != nil {
		t.Fatal(err)
	}
	count := map[audit.AlertKind]int{}
	for _, a := range alerts {
		count[a.Kind]++
		if a.Kind == audit.AlertConflict && a.Key != pairs[0].Key {
			t.Errorf("the conflict %+v does not name its pair", a)
		}
	}
	if count[audit.AlertGate] != 1 || count[audit.AlertConflict] != 1 || count[audit.AlertTraining] != 1 || len(alerts) != 3 {
		t.Errorf("alerts %v: one gate turned, one call has two results, one training failed", count)
	}
}

func TestWorldsAreThoseOfRunsAndOfKnowledge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	for i := range 3 {
		run := fmt.Sprintf("run-of-%d", i)
		b.createRun(t, run)
		e := newEpisode(uint64(i), 3)
		pairs := auditEpisode(&e)
		for j := range pairs {
			pairs[j].Version, pairs[j].EnvDigest = strconv.Itoa(1+i%2), newDigest(i%2)
		}
		if _, err := b.Commit(ctx, run, pairs); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.AddNoise(ctx, []ledger.Noise{
		{Environment: "shop", Version: "1", Tool: "t", Pattern: "/a", Twins: 10, Disagreed: 1},
		{Environment: "shop", Version: "1", Tool: "t", Pattern: "/b", Twins: 10, Disagreed: 9},
		{Environment: "shop", Version: "9", Tool: "t", Pattern: "/b", Twins: 10},
	}); err != nil {
		t.Fatal(err)
	}
	worlds, err := b.Worlds(ctx)
	if err != nil || len(worlds) != 3 {
		t.Fatalf("worlds %+v, %v; want versions 1, 2 and 9", worlds, err)
	}
	if w := worlds[0]; w.Version != "1" || !slices.Equal(w.Runs, []string{"run-of-2", "run-of-0"}) || w.Noisy != 2 || w.Digest != newDigest(0) {
		t.Errorf("the first world is %+v", w)
	}
	if w := worlds[2]; w.Version != "9" || len(w.Runs) != 0 {
		t.Errorf("the last world is %+v: no run audited it", w)
	}
	detail, err := b.World(ctx, "shop", "1")
	if err != nil || len(detail.Noise) != 2 || detail.Noise[0].Pattern != "/b" {
		t.Errorf("detail %+v, %v: the noisiest path first", detail, err)
	}
	if err := b.SaveVersionFigures(ctx, "run-of-1", "shop@1", audit.VersionFigures{Environment: "shop@2", Version: "2", Changed: 7}); err != nil {
		t.Fatal(err)
	}
	audits, err := b.VersionAudits(ctx, 10)
	if err != nil || len(audits) != 1 || audits[0].Changed != 7 || audits[0].Base != "shop@1" || audits[0].Run != "run-of-1" {
		t.Errorf("version audits %+v, %v", audits, err)
	}
	if sizes, err := b.RunSizes(ctx, 10); err != nil || len(sizes) != 4 || sizes[0].Bytes == 0 {
		t.Errorf("sizes %+v, %v", sizes, err)
	}
	endpoint := audit.Endpoint{URL: "http://host/v1", Model: "m", Answers: [][3]string{{"seed", "no", "rehearsals cannot be repeated"}}}
	if err := b.SaveEndpoint(ctx, endpoint); err != nil {
		t.Fatal(err)
	}
	if all, err := b.Endpoints(ctx, 10); err != nil || len(all) != 1 || !slices.Equal(all[0].Answers, endpoint.Answers) {
		t.Errorf("endpoints %+v, %v", all, err)
	}
	if all, err := b.Configurations(ctx, 10); err != nil || len(all) != 0 {
		t.Errorf("configurations %+v, %v", all, err)
	}
}
