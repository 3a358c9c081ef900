package ledger_test

import (
	"fmt"
	"testing"

	"understudy/audit"
)

func TestFulfilBuysEachCallOnce(t *testing.T) {
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
		order      audit.Order
		candidates []audit.Episode
		want       int
		reason     string
	}{
		{fsr, canaries, 3, "three of five candidates"},
		{fsr, canaries, 0, "the order is still open"},
		{leaf, nil, 3, "the live episode once more, and no recorded one"},
		{leaf, nil, 0, "the order is still open"},
		{leaf, canaries, 0, "nor do candidates help an open order"},
		{audit.Order{Environment: "shop", Tool: "cancel_order", Mode: audit.Canary, Figure: audit.FigureErrorFamily, Calls: 9}, canaries, 2, "two of the candidates are new to the run"},
		{audit.Order{Environment: "shop", Tool: "no_such_tool", Mode: audit.Forced, Figure: audit.FigureLeafF1, Calls: 1}, canaries, 0, "no source"},
	} {
		got, err := b.Fulfil(t.Context(), b.run, row.order, row.candidates)
		if err != nil || got != row.want {
			t.Errorf("%s of %s: queued %d, %v; want %d: %s", row.order.Figure, row.order.Tool, got, err, row.want, row.reason)
		}
	}
	if r := b.verify(t); r.Open != 6 {
		t.Errorf("%d open episodes, want 5 canaries and the live one", r.Open)
	}
}
