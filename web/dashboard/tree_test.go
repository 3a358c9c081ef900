package dashboard_test

import (
	"strings"
	"testing"

	"understudy/audit"
	"understudy/audit/diff"
)

// Where prose stands in the place of an object, none of the object's fields was
// imagined: no rule of their own paths lets them pass.
func TestFieldsOfWhatDiffersAsAWhole(t *testing.T) {
	t.Parallel()
	c := &audit.Case{
		Environment: "shop", Mode: audit.Forced, Tool: audit.Tool{Name: "get", Effect: audit.Read}, Call: audit.Call{Tool: "get", Arguments: []byte(`{}`)},
		Rehearsal:   &audit.Rehearsal{Raw: []byte(`The tool gets things.`)},
		Observation: &audit.Observation{Status: audit.StatusOK, Raw: []byte(`{"id":"W1","items":[{"n":1},{"n":2}],"open":true}`), Evidence: audit.EvidenceExact},
	}
	status, page := pageOf(t, c)
	if status != 200 || strings.Count(page, "not imagined") != 4 || strings.Contains(page, "allowed by its path") || strings.Contains(page, "equal fields") {
		t.Errorf("status %d; want four fields that were not imagined, and none that passes:\n%s", status, page)
	}
	if _, fields, _ := strings.Cut(page, "<p>The field"); !strings.Contains(strings.Split(fields, "</p>")[0], "the whole answer") {
		t.Error("the first sentence does not name the whole answer")
	}
}

// A sandbox writes a new record down as one change, a rehearsal may claim its fields:
// both are shown field by field, and none as phantom.
func TestCellsOfANewRecord(t *testing.T) {
	t.Parallel()
	c := &audit.Case{
		Environment: "shop", Mode: audit.Forced, Tool: audit.Tool{Name: "put", Effect: audit.Write}, Call: audit.Call{Tool: "put", Arguments: []byte(`{}`)},
		Rehearsal: &audit.Rehearsal{
			Raw:        []byte(`{"ok":true}`),
			StateDelta: []byte(`[{"op":"add","path":"/orders/W1","value":{"n":1,"open":true}}]`),
		},
		Observation: &audit.Observation{
			Status: audit.StatusOK, Raw: []byte(`{"ok":true}`), Evidence: audit.EvidenceExact,
			Delta: diff.Patch{{Op: diff.OpAdd, Path: "/orders/W1", Value: []byte(`{"n":1,"open":true}`)}},
		},
	}
	status, page := pageOf(t, c)
	if status != 200 || strings.Count(page, "as rehearsed") < 2 || strings.Contains(page, "never made") || strings.Contains(page, "not rehearsed") {
		t.Errorf("status %d, %d cells as rehearsed; want both, and none that is phantom or silent", status, strings.Count(page, "as rehearsed"))
	}
}

// pageOf judges a call, commits it and gets its page.
func pageOf(t *testing.T, c *audit.Case) (status int, page string) {
	t.Helper()
	l := newLedger(t)
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair := audit.Pair{
		Key: audit.Digest{1}, Episode: "e", PromptGroup: "g", Policy: "p", Environment: "shop", Version: "1", EnvDigest: audit.Digest{1}, Mode: audit.Forced,
		Effect: c.Tool.Effect, Action: audit.Action{Call: c.Call, Rehearsal: c.Rehearsal}, Observation: c.Observation, Verdict: rules.Judge(c),
	}
	if _, err := l.CreateRun(t.Context(), audit.NewRun{Name: "r", Policy: "p"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Commit(t.Context(), "r", []audit.Pair{pair}); err != nil {
		t.Fatal(err)
	}
	return get(t, serve(t, l).url+"/call?run=r&key="+pair.Key.String())
}
