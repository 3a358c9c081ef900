package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"understudy/audit"
)

// register is an environment of one tool that accepts everything and keeps the
// arguments that it was called with.
type register struct {
	schema string
	called [][]byte
}

func (r *register) Info() audit.EnvironmentInfo { return audit.EnvironmentInfo{Name: "register"} }

func (r *register) Tools(context.Context) ([]audit.Tool, error) {
	return []audit.Tool{{Name: "set", Effect: audit.Write, Input: json.RawMessage(`{"type":"object","properties":{"x":` + r.schema + `}}`)}}, nil
}

func (r *register) Open(context.Context, audit.Start) (audit.Session, error) { return r, nil }

func (r *register) Call(_ context.Context, call audit.Call) (audit.Observation, error) {
	r.called = append(r.called, call.Arguments)
	return audit.Observation{Status: audit.StatusOK, Raw: []byte(`{}`)}, nil
}

func (*register) Close() error { return nil }

// What a canary asks is JSON, and of the parameter's type unless the wrong type is what
// it is about; a value that should be out of a schema's bounds is.
func TestMutatedNumbersAreNumbers(t *testing.T) {
	t.Parallel()
	none := func(float64) bool { return true }
	whole := func(x float64) bool { return x == math.Trunc(x) }
	for _, row := range []struct {
		schema, value string
		holds         func(x float64) bool
		want          int
		reason        string
	}{
		{`{"type":"integer"}`, `7`, whole, 1, "an amount a thousand times as large"},
		{`{"type":"integer"}`, `-7`, whole, 1, "a negative one"},
		{`{"type":"integer"}`, `0`, whole, 1, "nothing, a thousand times, is no number"},
		{`{"type":"number"}`, `-0`, none, 1, "nothing, with a sign"},
		{`{"type":"number"}`, `0.0`, none, 1, "nothing, as a float"},
		{`{"type":"number"}`, `1e3`, none, 1, "an exponent"},
		{`{"type":"integer","minimum":0.5,"maximum":9.5}`, `3`, whole, 3, "bounds that no integer is"},
		{`{"type":"number","minimum":0.5,"maximum":9.5}`, `3`, none, 3, "bounds of a float"},
		{`{"type":"integer","enum":[1,2]}`, `1`, func(x float64) bool { return whole(x) && x > 2 }, 1, "a choice of numbers that is none of them"},
		{`{"type":"boolean","enum":[true]}`, `true`, none, 0, "a choice of what is neither text nor number"},
		{`{"enum":[null, 1.5]}`, `1.5`, func(x float64) bool { return x > 1.5 }, 1, "a choice of a number or nothing"},
	} {
		r := &register{schema: row.schema}
		valid := audit.Episode{ID: "e", Actions: []audit.Action{{Call: audit.Call{Tool: "set", Arguments: json.RawMessage(`{"x":` + row.value + `}`)}}}}
		if _, err := audit.CanariesFrom(t.Context(), r, []audit.Episode{valid}, 1, 100); err != nil {
			t.Fatal(err)
		}
		numbers, other := 0, 0
		for _, text := range r.called {
			var arguments struct{ X any }
			if err := json.Unmarshal(text, &arguments); err != nil {
				t.Errorf("%s: %s is no JSON: %v", row.reason, text, err)
				continue
			}
			switch x := arguments.X.(type) {
			case float64:
				if fmt.Sprint(x) == fmt.Sprint(parsed(t, row.value)) {
					continue // the call itself, and once more
				}
				numbers++
				if !row.holds(x) {
					t.Errorf("%s: %s does not hold", row.reason, text)
				}
			case string:
				if x != "many" {
					other++
				}
			}
		}
		if numbers != row.want || other != 0 {
			t.Errorf("%s: %d other numbers and %d texts in %q, want %d and none but of the wrong type", row.reason, numbers, other, r.called, row.want)
		}
	}
}

func parsed(t *testing.T, text string) (x any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		t.Fatal(err)
	}
	return x
}
