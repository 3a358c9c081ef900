package adapter_test

import (
	"encoding/json"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

func tools() []audit.Tool {
	return []audit.Tool{
		{Name: "get", Role: "assistant", Input: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"n":{"type":"integer","maximum":9}},"required":["id"],"additionalProperties":false}`)},
		{Name: "any"},
	}
}

func TestArgumentsCheck(t *testing.T) {
	t.Parallel()
	arguments, err := adapter.NewArguments(tools())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		tool, args, role string
		family           audit.Family
		message, reason  string
	}{
		{"get", `{"id":"a","n":9}`, "", "", "", "fits"},
		{"any", ``, "", "", "", "no arguments is an empty object"},
		{"get", `{"n":1}`, "", audit.SchemaInvalid, "id", "a missing argument is named"},
		{"get", `{"id":"a","n":10}`, "", audit.SchemaInvalid, "argument n", "a bound"},
		{"get", `{"id":7}`, "", audit.SchemaInvalid, "argument id", "a wrong type"},
		{"get", `{"id":"a","x":1}`, "", audit.SchemaInvalid, "x", "an invented argument"},
		{"get", `{"id":"a"`, "", audit.MalformedCall, "arguments", "truncated"},
		{"get", `[1]`, "", audit.MalformedCall, "object", "no object"},
		{"get", `{"id":"a","id":"b"}`, "", audit.MalformedCall, "twice", "duplicate key"},
		{"get", `{"id":NaN}`, "", audit.MalformedCall, "arguments", "NaN is no JSON"},
		{"any", `{"x":` + strings.Repeat("[", 201) + strings.Repeat("]", 201) + `}`, "", audit.MalformedCall, "depth", "depth 202"},
		{"any", `{"x":"` + strings.Repeat("a", 1<<20) + `"}`, "", audit.MalformedCall, "oversize", "over 1 MiB"},
		{"get", `{"id":"a"}`, "user", audit.Authorization, "assistant", "the wrong role"},
		{"nope", `{}`, "", audit.UnknownTool, "nope", "a tool that is not declared"},
	}
	for _, test := range tests {
		_, refusal := arguments.Check(audit.Call{Tool: test.tool, Arguments: json.RawMessage(test.args), Role: test.role})
		if test.family == "" {
			if refusal != nil {
				t.Errorf("%s: refused with %v", test.reason, refusal.Error)
			}
			continue
		}
		if refusal == nil || refusal.Error.Family != test.family || !strings.Contains(refusal.Error.Message, test.message) {
			t.Errorf("%s: got %+v, want family %s naming %q", test.reason, refusal, test.family, test.message)
			continue
		}
		if refusal.Delta == nil || len(refusal.Delta) != 0 || !json.Valid(refusal.Raw) {
			t.Errorf("%s: delta %v, raw %s; nothing changed, and that is known", test.reason, refusal.Delta, refusal.Raw)
		}
	}
	_, escape := arguments.Check(audit.Call{Tool: "__init__", Arguments: json.RawMessage(`{}`)})
	if !strings.Contains(string(escape.Error.Details), "sandbox_escape_attempt") {
		t.Errorf("a dunder name raises no alarm: %s", escape.Error.Details)
	}
}

func TestNewArgumentsRefusesSchemas(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{`{"type":5}`, `{`, `{"$ref":"file:///etc/passwd"}`, `{"$ref":"http://127.0.0.1:1/x"}`} {
		_, err := adapter.NewArguments([]audit.Tool{{Name: "bad", Input: json.RawMessage(schema)}})
		if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), "bad") {
			t.Errorf("schema %s: got %v, want an error that names the tool", schema, err)
		}
	}
}

func TestWorldMoves(t *testing.T) {
	t.Parallel()
	before, err := adapter.NewWorld([]byte(`{"a":1,"b":[1,2]}`))
	if err != nil {
		t.Fatal(err)
	}
	after, delta, err := before.Move([]byte(`{"a":2,"b":[1,2]}`))
	if err != nil || len(delta) != 1 || delta[0].Path != "/a" || string(delta[0].Old) != "1" {
		t.Errorf("delta %v, %v; want /a 1 to 2", delta, err)
	}
	if before.Digest() == after.Digest() {
		t.Error("another state, the same digest")
	}
	back, delta, err := after.Move([]byte(`{"b":[1,2],"a":1.0}`))
	if err != nil || back.Digest() != before.Digest() || len(delta) != 1 {
		t.Errorf("back again: %v %v; equal JSON has an equal digest", delta, err)
	}
	if _, delta, _ := after.Move(nil); delta == nil || len(delta) != 0 {
		t.Errorf("no text: delta %v; want known to be none", delta)
	}
	if _, _, err := after.Move([]byte(`{`)); err == nil {
		t.Error("a broken state passed")
	}
	if adapter.DigestOf([]byte("a"), []byte("b")) == adapter.DigestOf([]byte("ab"), nil) {
		t.Error("two lists of parts share a digest")
	}
}
