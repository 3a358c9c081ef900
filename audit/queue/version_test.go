package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"understudy/audit"
)

// TestJobMessagesOfOtherVersions reads what the program before this one wrote, and
// does not misread what a later one may write.
func TestJobMessagesOfOtherVersions(t *testing.T) {
	t.Parallel()
	text, id, err := audit.EncodeEpisode(&audit.Episode{ID: "e", Environment: "retail@1"})
	if err != nil {
		t.Fatal(err)
	}
	job := `"run":"r","id":"` + id.String() + `","attempt":2`
	for _, row := range []struct {
		message string
		newer   int
		episode bool
		fails   bool
		reason  string
	}{
		{`{` + job + `,"episode":` + string(text) + `}`, 0, true, false, "without a version: the program before"},
		{`{` + job + `}`, 0, false, false, "a reference"},
		{`{"version":1,` + job + `,"added":{"x":1}}`, 0, false, false, "a member that may be passed over"},
		{`{"version":2,` + job + `,"episode":"another shape"}`, 2, false, false, "a later program's"},
		{`{` + job + `,"episode":7,"version":9}`, 9, false, false, "the version stands last"},
		{`{` + job + `,"episode":"another shape"}`, 0, false, true, "broken, and of no later version"},
		{`[]`, 0, false, true, "no job"},
	} {
		got, err := audit.DecodeJob([]byte(row.message))
		newer, isNewer := errors.AsType[*audit.NewerJobError](err)
		if isNewer != (row.newer > 0) || (err != nil && !isNewer) != row.fails {
			t.Errorf("%s: got %v", row.reason, err)
			continue
		}
		if isNewer {
			got = newer.Job
		}
		if !row.fails && (got.Run != "r" || got.ID != id || got.Attempt != 2 || (got.Episode != nil) != row.episode || isNewer && newer.Version != row.newer) {
			t.Errorf("%s: got %+v", row.reason, got)
		}
	}
}

// TestNewerJobsWaitForANewerWorker gives an old worker a later program's message
// beside a job of its own: its own is done, the other one is handed back, at last
// taken from the stream, never buried or lost, and sent again by the sweeper.
func TestNewerJobsWaitForANewerWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Attempts = 3
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if _, err := b.Enqueue(audit.WithTrace(t.Context(), parent), b.run, newEpisodes("a", 2)); err != nil {
		t.Fatal(err)
	}
	b.flush(t)
	waiting, err := b.Waiting(t.Context(), 0, nil, 10)
	if err != nil || len(waiting) != 2 {
		t.Fatalf("%v, %v", waiting, err)
	}
	later := waiting[0]
	rewrite(t, b, later)
	var joined atomic.Value
	b.config.Trace = func(ctx context.Context, name, parent string) (context.Context, func(error)) {
		joined.Store(name + " under " + parent)
		return ctx, func(error) {}
	}
	stop := start(t, b.worker(t, rehearsed))
	await(t, "the stream is empty", func() bool { return b.streamed(t, "AUDIT_JOBS") == 0 })
	stop()
	if got := joined.Load(); got != "audit episode under "+parent {
		t.Errorf("the worker's span: %v, want it under who queued the job", got)
	}
	left, err := b.Waiting(t.Context(), 0, nil, 10)
	if err != nil || len(left) != 1 || left[0].ID != later.ID {
		t.Errorf("after an old worker: %v, %v open, want the later program's job alone", left, err)
	}
	if n := b.number(t, `SELECT count(*) FROM dead_letter`); n > 0 {
		t.Errorf("an old worker wrote %d dead letters over what it cannot read", n)
	}
	if n := b.sweep(t); n != 1 {
		t.Errorf("the sweeper sends %d again, want the one", n)
	}
	stop = start(t, b.relay(t), b.worker(t, rehearsed)) // now in a shape that is known
	await(t, "both are done", func() bool { return b.progress(t).Done == 2 })
	stop()
	b.verify(t)
}

// rewrite puts a job's message into the stream as a later program may write it.
func rewrite(t *testing.T, b *bundle, job audit.Sent) {
	t.Helper()
	stream, err := b.js.Stream(t.Context(), "AUDIT_JOBS")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := stream.GetMsg(t.Context(), job.Seq)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(stored.Data, &members); err != nil {
		t.Fatal(err)
	}
	members["version"], members["episode"] = audit.JobVersion+1, "a shape that is not known yet"
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), job.Seq); err != nil {
		t.Fatal(err)
	}
	if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: stored.Subject, Data: text}); err != nil {
		t.Fatal(err)
	}
}
