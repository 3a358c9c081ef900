package ledger_test

import (
	"fmt"
	"testing"

	"understudy/audit"
)

func TestScheduleBuysEachCallOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var canaries []audit.Episode
	for i := range 5 {
		e := newEpisode(uint64(100+i), 1)
		e.ID, e.Mode = fmt.Sprint("canary-", i), audit.Canary
		e.Actions[0].Call.Tool, e.Actions[0].Rehearsal = "cancel_order", nil
		e.Actions[0].Canary = &audit.CanaryLabel{Mutation: "unknown_id", Level: audit.DomainLevel, Family: audit.NotFound}
		canaries = append(canaries, e)
	}
	if _, err := b.AddCanaries(t.Context(), "1", canaries); err != nil {
		t.Fatal(err)
	}
	live := newEpisode(1, 3)
	for i := range live.Actions {
		live.Actions[i].Rehearsal, live.Actions[i].Call.Tool = nil, "get_order"
	}
	recorded := newEpisode(2, 3) // brought its rehearsals: it has no second answer
	for _, e := range []audit.Episode{live, recorded} {
		job := b.enqueue(t, e)
		answered := *job.Episode
		answered.Actions = append([]audit.Action{}, answered.Actions...)
		for i := range answered.Actions {
			answered.Actions[i].Rehearsal = &audit.Rehearsal{Raw: []byte(`{"status":"ok","n":1}`)}
		}
		if _, err := b.Finish(t.Context(), job, auditEpisode(&answered)); err != nil {
			t.Fatal(err)
		}
	}
	fsr := audit.Order{Environment: "shop", Version: "1", Tool: "cancel_order", Mode: audit.Canary, Figure: audit.FigureFSR, Calls: 3}
	leaf := audit.Order{Environment: "shop", Tool: "get_order", Mode: audit.Forced, Figure: audit.FigureLeafF1, Calls: 100}
	for _, row := range []struct {
		order  audit.Order
		want   int
		reason string
	}{
		{fsr, 3, "three of five canaries"},
		{fsr, 0, "the order is still open"},
		{leaf, 3, "the live episode once more, and no recorded one"},
		{leaf, 0, "the order is still open"},
		{audit.Order{Environment: "shop", Tool: "no_such_tool", Mode: audit.Forced, Figure: audit.FigureLeafF1, Calls: 1}, 0, "no source"},
	} {
		got, err := b.Schedule(t.Context(), b.run, []audit.Order{row.order})
		if err != nil || got != row.want {
			t.Errorf("%s of %s: queued %d, %v; want %d: %s", row.order.Figure, row.order.Tool, got, err, row.want, row.reason)
		}
	}
	if r := b.verify(t); r.Open != 4 {
		t.Errorf("%d open episodes, want 3 canaries and the live one", r.Open)
	}
}
