package train_test

import (
	"context"
	"encoding/json"
	"testing"

	"understudy/audit"
	"understudy/envace/train"
)

func TestBayesCeiling(t *testing.T) {
	c := lesson(t)
	got, err := train.BayesCeiling(t.Context(), c.Environment, c.Rules, c.Test[:4], 8)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, task := range c.Test[:4] {
		calls += len(task.Solution)
	}
	if got.Calls != calls || got.LeafF1.N != calls || got.LeafF1.Value < .8 || got.LeafF1.Value > 1 {
		t.Errorf("%+v, want a figure below 1 over %d calls", got, calls)
	}
}

// tosser is a world whose one tool answers heads in three of four possible worlds:
// whoever says heads is right that often.
type tosser struct{ audit.Environment }

func (tosser) Possible(_ context.Context, _ string, _ []audit.Answered, _ uint64, n int) ([]json.RawMessage, error) {
	worlds := make([]json.RawMessage, n)
	for i := range worlds {
		worlds[i] = json.RawMessage(`{"side":"heads"}`)
		if i%4 == 3 {
			worlds[i] = json.RawMessage(`{"side":"tails"}`)
		}
	}
	return worlds, nil
}

func (tosser) Info() audit.EnvironmentInfo { return audit.EnvironmentInfo{Name: "coin"} }

func (tosser) Tools(context.Context) ([]audit.Tool, error) {
	return []audit.Tool{{Name: "look", Effect: audit.Read}}, nil
}

func (tosser) Open(_ context.Context, start audit.Start) (audit.Session, error) {
	if start.State == nil {
		return lying{raw: json.RawMessage(`{"side":"tails"}`)}, nil
	}
	return lying{raw: start.State}, nil
}

// lying answers each call with what lies there.
type lying struct {
	audit.Session
	raw []byte
}

func (l lying) Call(context.Context, audit.Call) (audit.Observation, error) {
	return audit.Observation{Status: audit.StatusOK, Raw: l.raw, Evidence: audit.EvidenceExact}, nil
}

func (lying) Close() error { return nil }

func TestBayesCeilingOfACoin(t *testing.T) {
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	tasks := []audit.Task{{ID: "a", Solution: []audit.Call{{Tool: "look"}}}, {ID: "b", Solution: []audit.Call{{Tool: "look"}, {Tool: "look"}}}}
	got, err := train.BayesCeiling(t.Context(), tosser{}, rules, tasks, 16)
	if err != nil {
		t.Fatal(err)
	}
	if got.LeafF1.Value != .75 || got.Reference.Value != 0 || got.Calls != 3 || got.Open != 3 {
		t.Errorf("%+v, want 0.75 reached on 3 open calls, and 0 against a coin that lies tails up", got)
	}
	if _, err := train.BayesCeiling(t.Context(), struct{ audit.Environment }{tosser{}}, rules, tasks, 16); audit.ErrorCode(err) != audit.CodeUnprocessable {
		t.Errorf("an environment that believes nothing: %v", err)
	}
}

func TestMajorityIsJSON(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`{"a":1,"b":[true]}`, `{"\u0001\u007f é\"":{"x":null}}`, `[]`, `{}`} {
		same := json.RawMessage(value)
		if got := train.Majority(same, same, json.RawMessage(`7`)); !json.Valid(got) {
			t.Errorf("most say %s, the majority is %s, no JSON", value, got)
		}
	}
}
