package ledger_test

import (
	"fmt"
	"testing"

	"understudy/audit"
)

func TestGateHistory(t *testing.T) {
	b := setup(t)
	b.createRun(t, "run-2")
	for i, g := range []audit.GateRecord{
		{Run: "run-1", Status: "PASS", PolicyDigest: "p"},
		{Run: "run-2", Status: "FAIL", PolicyDigest: "p"},
		{Run: "run-2", Status: "INCONCLUSIVE", PolicyDigest: "q"},
		{Run: "run-2", Status: "FAIL", PolicyDigest: "p"},
	} {
		g.Document = []byte{'0' + byte(i)}
		if err := b.SaveGate(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	statuses := func(filter audit.GateFilter, limit int) (all []string) {
		page := audit.Page{Limit: limit}
		for {
			gates, next, err := b.Gates(t.Context(), filter, page)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range gates {
				all = append(all, g.Run+" "+g.Status)
			}
			if page.After = next; next == "" {
				return all
			}
		}
	}
	tests := []struct {
		filter audit.GateFilter
		want   string
		reason string
	}{
		{audit.GateFilter{}, "[run-2 FAIL run-2 INCONCLUSIVE run-2 FAIL run-1 PASS]", "newest first, over pages"},
		{audit.GateFilter{Run: "run-1"}, "[run-1 PASS]", "one run"},
		{audit.GateFilter{PolicyDigest: "p"}, "[run-2 FAIL run-2 FAIL run-1 PASS]", "one gate policy"},
	}
	for _, test := range tests {
		for _, limit := range []int{1, 3, 50} {
			if got := fmt.Sprint(statuses(test.filter, limit)); got != test.want {
				t.Errorf("%s, %d a page: got %s, want %s", test.reason, limit, got, test.want)
			}
		}
	}
	gates, _, err := b.Gates(t.Context(), audit.GateFilter{Run: "run-1"}, audit.Page{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.Gate(t.Context(), "run-1", gates[0].Decided)
	if err != nil || string(g.Document) != "0" {
		t.Errorf("the decision itself: %s, %v", g.Document, err)
	}
	if _, err := b.Gate(t.Context(), "run-2", gates[0].Decided); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("a decision that is not there: %v", err)
	}
	if _, _, err := b.Gates(t.Context(), audit.GateFilter{}, audit.Page{After: "x"}); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("a foreign cursor: %v", err)
	}
}
