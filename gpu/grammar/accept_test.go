package grammar_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"understudy/gpu/grammar"
)

func TestAccepts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		schema, text string
		want         bool
		reason       string
	}{
		{"open members", `{"né": 5, "x":true}`, true, "members in any order, a space after colon and comma"},
		{"open members", `{"n":true,"né":-1}`, true, "a prefix of a declared key is another key"},
		{"open members", `{"nè":true,"né":-1}`, true, "a key that leaves a declared one within a character"},
		{"open members", `{"né":1,"né":2}`, false, "a declared key twice"},
		{"open members", `{"n\u00e9":true}`, false, "an escape would hide a declared key"},
		{"open members", `{"name":true}`, false, "a declared key with another one's type"},
		{"open members", `{"x":true}`, false, "a required member is missing"},
		{"required and free", `{"x":1,"a\"b":null,"z":[]}`, true, "a declared key that needs an escape"},
		{"required and free", `{"x":1,"y":2,"z":3}`, false, "no room for a required one"},
		{"lengths", `"éé€"`, true, "characters count, not bytes"},
		{"lengths", `"\ud83d\ude00ab"`, true, "a surrogate pair is one character"},
		{"lengths", `"\ud83dab"`, false, "half a pair is none"},
		{"lengths", `"ab"`, false, "too short"},
		{"lengths", "\"ab\xff\"", false, "no UTF-8"},
		{"lengths", "\"ab\xed\xa0\x80\"", false, "an encoded surrogate"},
		{"lengths", "\"ab\n\"", false, "a control character"},
		{"integer range", `-12`, true, "the bound itself"},
		{"integer range", `-13`, false, "below it"},
		{"integer range", `105`, false, "an exclusive bound"},
		{"integer range", `012`, false, "a leading zero"},
		{"integer range", `1.5`, false, "a fraction"},
		{"number range", `0.250001`, true, "just above an exclusive bound"},
		{"number range", `0.25`, false, "the exclusive bound"},
		{"number range", `1.0`, true, "the inclusive one"},
		{"anything", `[1.5e-3,2E+10,{"a": {"b":[]}}]`, true, "exponents and nesting"},
		{"anything", `1e`, false, "an exponent without digits"},
		{"enum", `12`, true, "a value that has another as its prefix"},
		{"enum of type", `"cat"`, false, "an enum value that another keyword refuses"},
		{"enum of type", `"catalogue"`, true, "one that it allows"},
		{"recursive", `{"v":1,"kids":[{"v":2,"kids":[]}]}`, true, "a reference to itself"},
		{"pattern", `"#W12345"`, true, "the whole text"},
		{"pattern", `"#W123"`, false, "too few digits"},
		{"pattern within", `"xxabcd"`, true, "a match at the end"},
		{"pattern within", `"abcdx"`, false, "a match that does not end the text"},
		{"pattern at first", `"ba, whatever"`, true, "anything after a match"},
		{"closed tuple", `["a",true,1]`, false, "an item too many"},
		{"one of", `{"kind":"dog"}`, false, "the alternative's own required member"},
	}
	for _, test := range tests {
		g, err := grammar.New(vocabulary(t), grammar.Schema(json.RawMessage(schemas()[test.schema])))
		if err != nil {
			t.Fatal(err)
		}
		state, ok := g.Start().Write([]byte(test.text))
		if got := ok && state.Complete(); got != test.want {
			t.Errorf("%s: %s accepted %v: %s", test.schema, test.text, got, test.reason)
		}
	}
}

func calls(required, once bool) grammar.Calls {
	return grammar.Calls{
		Before: "<tool_call>\n", After: "\n</tool_call>", Between: "\n", Trigger: "<tool_call>",
		Tools: []grammar.Call{
			{Name: "get", Parameters: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}`)},
			{Name: "list"},
		},
		Required: required, Once: once,
	}
}

func TestToolCalls(t *testing.T) {
	t.Parallel()
	one := "<tool_call>\n" + `{"name": "get", "arguments": {"id": 5}}` + "\n</tool_call>"
	tests := []struct {
		calls  grammar.Calls
		text   string
		want   bool
		reason string
	}{
		{calls(false, false), "Hello, é <tool> you.", true, "no call is an answer, too"},
		{calls(false, false), "I look. " + one + " and " + one, true, "several calls in text"},
		{calls(false, false), "<<tool_call" + one, true, "a trigger after its own prefix"},
		{calls(false, true), one + one, false, "one call is all"},
		{calls(false, false), `<tool_call>` + "\n" + `{"name": "put", "arguments": {}}` + "\n</tool_call>", false, "an unknown tool"},
		{calls(false, false), `<tool_call>` + "\n" + `{"name": "get", "arguments": {"id": "5"}}` + "\n</tool_call>", false, "a wrong argument"},
		{calls(false, false), "half <tool_call>", false, "a call that is not finished"},
		{calls(true, false), "Hello", false, "a call is required"},
		{calls(true, false), one + "\n" + one, true, "and may be followed by another"},
		{calls(true, true), one + "\n" + one, false, "but not when one is all"},
		{calls(false, false), "cut \xc3", false, "half a character at the end"},
	}
	for _, test := range tests {
		g, err := grammar.New(vocabulary(t), grammar.Tools(test.calls))
		if err != nil {
			t.Fatal(err)
		}
		state, ok := g.Start().Write([]byte(test.text))
		if got := ok && state.Complete(); got != test.want {
			t.Errorf("%q accepted %v: %s", test.text, got, test.reason)
		}
	}
	g, err := grammar.New(vocabulary(t), grammar.Tools(calls(true, false)))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for range rounds(50) {
		text := random(t, g, rng, g.Start().Least()+rng.IntN(100))
		if !strings.HasPrefix(text, "<tool_call>\n{") || !strings.HasSuffix(text, "}\n</tool_call>") {
			t.Fatalf("%q", text)
		}
	}
}

func TestSequence(t *testing.T) {
	t.Parallel()
	g, err := grammar.New(vocabulary(t), grammar.Literal("<execution_result>"), grammar.JSON(), grammar.Literal("</execution_result>"))
	if err != nil {
		t.Fatal(err)
	}
	state, ok := g.Start().Write([]byte(`<execution_result>12</execution_result>`))
	if !ok || !state.Final() {
		t.Errorf("a number, which ends only with what follows: %v %v", ok, state.Final())
	}
}
