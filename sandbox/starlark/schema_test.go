package starlark_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// TestStateSchema runs a domain that declares the shape of its state and writes
// outside it: a fault, and nothing happened.
func TestStateSchema(t *testing.T) {
	fsys := fstest.MapFS{
		"x/domain.yaml": {Data: []byte("name: x\nstate_schema: state.schema.json\n")},
		"x/state.star":  {Data: []byte("def state(rng):\n    return {\"n\": 1}\n")},
		"x/domain.star": {Data: []byte("def put(db, v):\n    db[\"n\"] = v\ntool(put, params={\"v\": anything(\"a value\")}, effect=\"write\")\n")},
		"x/state.schema.json": {Data: []byte(`{"type":"object","properties":{"n":{"type":"integer","minimum":0},"$sys":{}},` +
			`"required":["n"],"additionalProperties":false}`)},
	}
	d, err := starlark.Load(fsys, "x", starlark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	env := starlark.NewEnvironment(d)
	s, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args   string
		want   audit.Status
		reason string
	}{
		{`{"v":2}`, audit.StatusOK, "inside"},
		{`{"v":-1}`, audit.StatusFault, "below the minimum"},
		{`{"v":"2"}`, audit.StatusFault, "another type"},
		{`{"v":3}`, audit.StatusOK, "a fault ends nothing"},
	}
	for _, tt := range tests {
		obs := call(t, s, "put", tt.args)
		if obs.Status != tt.want {
			t.Errorf("put(%s): got %s %s, want %s: %s", tt.args, obs.Status, obs.Raw, tt.want, tt.reason)
		}
		if obs.Status == audit.StatusFault && (obs.Before != obs.After || !strings.Contains(obs.Error.Message, "schema")) {
			t.Errorf("put(%s): %s, want the schema named and no effect", tt.args, obs.Raw)
		}
	}
	fsys["x/state.schema.json"] = &fstest.MapFile{Data: []byte(`{"$ref":"file:///etc/hostname"}`)}
	if _, err := starlark.Load(fsys, "x", starlark.Options{}); audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), "no URLLoader") {
		t.Errorf("a schema in another file: got %v, want it not read", err)
	}
	if _, err := env.Open(t.Context(), audit.Start{State: []byte(`{"n":"x"}`)}); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("an initial state outside the schema: got %v, want invalid", err)
	}
}

// TestArguments is what validation says of arguments; nothing is coerced.
func TestArguments(t *testing.T) {
	fsys := fstest.MapFS{
		"x/domain.yaml": {Data: []byte("name: x\n")},
		"x/state.star":  {Data: []byte("def state(rng):\n    return {}\n")},
		"x/domain.star": {Data: []byte(`
def f(db, i, s="-", l=[], o=None, e="a"):
    return [i, s, l, o, e]
tool(f, params={
    "i": integer("a number", min=1, max=9),
    "s": optional(string("an id", pattern="^#[0-9]+$", max_len=4)),
    "l": optional(array(number("a number"), "some", max_items=2)),
    "o": optional(object({"x": boolean("a flag"), "y": string("a text")}, "a pair", optional=["y"])),
    "e": optional(enum(["a", "b"], "a choice"), default="b"),
})
`)},
	}
	d, err := starlark.Load(fsys, "x", starlark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := starlark.NewEnvironment(d).Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ args, want, reason string }{
		{`{"i":1}`, `[1,"-",[],null,"b"]`, "defaults of the function and of the declaration"},
		{`{"i":2.0,"l":[1,2.5]}`, `[2,"-",[1,2.5],null,"b"]`, "a whole number is an integer in JSON Schema"},
		{`{"i":1,"o":{"x":true}}`, `[1,"-",[],{"x":true},"b"]`, "an optional field"},
		{`{}`, "i: required", "missing"},
		{`{"i":"1"}`, "want integer, got string", "no coercion"},
		{`{"i":true}`, "want integer, got boolean", "no coercion"},
		{`{"i":2.5}`, "want integer, got number", "no coercion"},
		{`{"i":null}`, "want integer, got null", "null is not absent"},
		{`{"i":10}`, "more than the maximum 9", "out of range"},
		{`{"i":0}`, "less than the minimum 1", "out of range"},
		{`{"i":1,"s":"12"}`, "does not match", "the leading # is missing"},
		{`{"i":1,"s":"#1234"}`, "at most 4 characters", "too long"},
		{`{"i":1,"l":[1,2,3]}`, "at most 2 items", "too many"},
		{`{"i":1,"l":["x"]}`, "l/0: want number", "the place is named"},
		{`{"i":1,"o":{"y":"z"}}`, "o/x: required", "the place is named"},
		{`{"i":1,"o":{"x":true,"z":1}}`, "o/z: not a parameter", "nothing extra"},
		{`{"i":1,"e":"c"}`, `not one of [\"a\",\"b\"]`, "the choices are named"},
	}
	for _, tt := range tests {
		obs := call(t, s, "f", tt.args)
		ok := strings.HasPrefix(tt.want, "[")
		if ok != (obs.Status == audit.StatusOK) || !strings.Contains(string(obs.Raw), tt.want) {
			t.Errorf("f(%s): got %s %s, want %s: %s", tt.args, obs.Status, obs.Raw, tt.want, tt.reason)
		}
		if !ok && (obs.Error == nil || obs.Error.Family != audit.SchemaInvalid || len(obs.Error.Details) == 0) {
			t.Errorf("f(%s): got %+v, want schema_invalid with the pointer", tt.args, obs.Error)
		}
	}
}
