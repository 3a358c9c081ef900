package serve_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestResponseFormat(t *testing.T) {
	t.Parallel()
	f := setup(t)
	schema := object{"type": "object", "properties": object{"yes": object{"type": "boolean"}, "n": object{"type": "integer", "minimum": 3, "maximum": 5}}, "required": []string{"yes", "n"}, "additionalProperties": false}
	for seed := range 10 {
		reply := f.ok(t, "/v1/chat/completions", chatBody(object{"seed": seed, "ignore_eos": false, "response_format": object{"type": "json_schema", "json_schema": object{"name": "x", "schema": schema}}}))
		var value struct {
			Yes *bool
			N   int
		}
		text, _ := at(reply, "choices", 0, "message", "content").(string)
		if err := json.Unmarshal([]byte(text), &value); err != nil || value.Yes == nil || value.N < 3 || value.N > 5 || at(reply, "choices", 0, "finish_reason") != "stop" {
			t.Errorf("%q: %v", text, err)
		}
		reply = f.ok(t, "/v1/chat/completions", chatBody(object{"seed": seed, "response_format": object{"type": "json_object"}}))
		var members map[string]any
		text, _ = at(reply, "choices", 0, "message", "content").(string)
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func tool(name string, parameters object) object {
	return object{"type": "function", "function": object{"name": name, "parameters": parameters}}
}

func tools() []object {
	id := object{"type": "object", "properties": object{"id": object{"type": "integer", "minimum": 0, "maximum": 99}}, "required": []string{"id"}, "additionalProperties": false}
	return []object{tool("get", id), tool("cancel", id)}
}

// calls checks the tool calls of a message, and names them.
func calls(t *testing.T, list any) []string {
	t.Helper()
	var names []string
	all, _ := list.([]any)
	for _, c := range all {
		var arguments struct{ ID *int }
		text, _ := at(c, "function", "arguments").(string)
		if err := json.Unmarshal([]byte(text), &arguments); err != nil || arguments.ID == nil || *arguments.ID > 99 {
			t.Errorf("arguments %q: %v", text, err)
		}
		if id, _ := at(c, "id").(string); !strings.HasPrefix(id, "call_") || at(c, "type") != "function" {
			t.Errorf("call %v", c)
		}
		name, _ := at(c, "function", "name").(string)
		names = append(names, name)
	}
	return names
}

func TestTools(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for seed := range 6 {
		base := object{"seed": seed, "tools": tools(), "max_tokens": 120, "ignore_eos": false}
		with := func(k string, v any) object {
			out := object{k: v}
			maps.Copy(out, base)
			return chatBody(out)
		}
		reply := f.ok(t, "/v1/chat/completions", with("tool_choice", "required"))
		names := calls(t, at(reply, "choices", 0, "message", "tool_calls"))
		if finish := at(reply, "choices", 0, "finish_reason"); len(names) == 0 || finish != "tool_calls" && finish != "length" || at(reply, "choices", 0, "message", "content") != nil {
			t.Errorf("required: %v", at(reply, "choices", 0))
		}
		named := object{"type": "function", "function": object{"name": "cancel"}}
		reply = f.ok(t, "/v1/chat/completions", with("tool_choice", named))
		if got := calls(t, at(reply, "choices", 0, "message", "tool_calls")); !slices.Equal(got, []string{"cancel"}) {
			t.Errorf("a named tool: %v", got)
		}
		reply = f.ok(t, "/v1/chat/completions", with("tool_choice", "none"))
		if at(reply, "choices", 0, "message", "tool_calls") != nil {
			t.Errorf("none: %v", reply)
		}
		body := with("tool_choice", "required")
		body["stream"], body["parallel_tool_calls"] = true, false
		var streamed []any
		for _, e := range f.events(t, "/v1/chat/completions", body) {
			part, _ := at(e, "choices", 0, "delta", "tool_calls").([]any)
			for _, c := range part {
				if at(c, "index") != float64(len(streamed)) {
					t.Errorf("call %v is the %d-th", c, len(streamed))
				}
				streamed = append(streamed, c)
			}
		}
		if got := calls(t, streamed); len(got) != 1 {
			t.Errorf("streamed calls %v, want one", got)
		}
	}
	history := chatBody(object{"tools": tools(), "messages": []object{
		{"role": "user", "content": "get 5"},
		{"role": "assistant", "content": nil, "tool_calls": []object{{"id": "c1", "type": "function", "function": object{"name": "get", "arguments": `{"id":5}`}}}},
		{"role": "tool", "tool_call_id": "c1", "content": "not found"},
	}})
	f.ok(t, "/v1/chat/completions", history)
}

func TestToolsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	f := setup(t)
	odd := tool("odd", object{"type": "object", "properties": object{"n": object{"type": "integer", "multipleOf": 7}}})
	status, _, header := f.post(t, "/v1/chat/completions", chatBody(object{"tools": []object{odd}}))
	if status != http.StatusOK || !strings.Contains(header.Get("Warning"), "multipleOf") {
		t.Errorf("auto: %d, warning %q; want free arguments and a warning", status, header.Get("Warning"))
	}
	status, reply, _ := f.post(t, "/v1/chat/completions", chatBody(object{"tools": []object{odd}, "tool_choice": "required"}))
	if status != http.StatusBadRequest || at(reply, "error", "code") != "unsupported_schema" || !strings.Contains(fmt.Sprint(reply), "multipleOf") {
		t.Errorf("required: %d %v", status, reply)
	}
}

// What ends a call may stand in its arguments, too: whole, and in a stream that
// brings it in pieces.
func TestACallMayQuoteItsEnd(t *testing.T) {
	t.Parallel()
	f := setup(t)
	const note = "see </tool_call> there"
	schema := object{"type": "object", "properties": object{"note": object{"enum": []string{note}}}, "required": []string{"note"}, "additionalProperties": false}
	body := chatBody(object{
		"tools": []object{tool("write", schema)}, "tool_choice": object{"type": "function", "function": object{"name": "write"}},
		"max_tokens": 120, "ignore_eos": false,
	})
	check := func(call any) {
		t.Helper()
		text, _ := at(call, "function", "arguments").(string)
		var arguments struct{ Note string }
		if err := json.Unmarshal([]byte(text), &arguments); err != nil || arguments.Note != note {
			t.Errorf("%v: %v", call, err)
		}
	}
	check(at(f.ok(t, "/v1/chat/completions", body), "choices", 0, "message", "tool_calls", 0))
	body["stream"] = true
	var calls []any
	for _, e := range f.events(t, "/v1/chat/completions", body) {
		if text, _ := at(e, "choices", 0, "delta", "content").(string); text != "" {
			t.Errorf("content %q", text)
		}
		part, _ := at(e, "choices", 0, "delta", "tool_calls").([]any)
		calls = append(calls, part...)
	}
	if len(calls) != 1 {
		t.Fatalf("%d calls in the stream", len(calls))
	}
	check(calls[0])
}
