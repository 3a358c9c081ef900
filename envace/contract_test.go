package envace_test

import (
	"encoding/json"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
)

func TestParseRehearsal(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text, raw, delta string
		confidence       float64 // -1 = none
		fault            envace.Fault
		reason           string
	}{
		{"<execution_result>\n{\"a\":1}\n</execution_result>", `{"a":1}`, "", -1, envace.FaultNone, "the plain contract"},
		{"<think>a <execution_result>{}</execution_result></think><execution_result>[1]</execution_result><confidence>0.25</confidence>", `[1]`, "", .25, envace.FaultNone, "tags inside the thinking are no answer"},
		{"<execution_result>{}</execution_result><state_delta>[{\"op\":\"remove\",\"path\":\"/a\"}]</state_delta><confidence>80%</confidence>", `{}`, `[{"op":"remove","path":"/a"}]`, .8, envace.FaultNone, "delta and percentage"},
		{"{\"a\":1}", `{"a":1}`, "", -1, envace.FaultUntagged, "a bare answer is judged, and tagged as such"},
		{"{\"a\":1}<confidence>1</confidence>", `{"a":1}`, "", 1, envace.FaultUntagged, "a bare answer with a confidence"},
		{"<execution_result>{\"a\":", `{"a":`, "", -1, envace.FaultUnclosed, "cut off by the token limit"},
		{"<execution_result>1</execution_result><execution_result>2</execution_result>", `1`, "", -1, envace.FaultSeveral, "the first of several counts"},
		{"<execution_result>not json</execution_result>", `not json`, "", -1, envace.FaultMalformed, "kept for the comparison"},
		{"<execution_result></execution_result>", ``, "", -1, envace.FaultEmpty, "an empty answer"},
		{"<think>never ends", ``, "", -1, envace.FaultEmpty, "only thinking"},
		{"<execution_result>{}</execution_result><confidence>NaN</confidence>", `{}`, "", -1, envace.FaultNone, "nothing non-finite gets in"},
		{"<execution_result>{}</execution_result><confidence>1.5</confidence>", `{}`, "", -1, envace.FaultNone, "not a probability"},
		{"<execution_result>{}</execution_result><state_delta>[{</state_delta>", `{}`, "", -1, envace.FaultNone, "a broken delta is no delta"},
	}
	for _, test := range tests {
		r, fault := envace.ParseRehearsal(test.text)
		got := -1.0
		if r.Confidence != nil {
			got = *r.Confidence
		}
		if string(r.Raw) != test.raw || string(r.StateDelta) != test.delta || got != test.confidence || fault != test.fault {
			t.Errorf("%s\n got raw %q delta %q confidence %v fault %q\nwant raw %q delta %q confidence %v fault %q",
				test.reason, r.Raw, r.StateDelta, got, fault, test.raw, test.delta, test.confidence, test.fault)
		}
	}
}

func TestRehearsePrompt(t *testing.T) {
	t.Parallel()
	req := audit.RehearseRequest{
		Tools:   []audit.Tool{{Name: "get", Description: "reads <one>", Input: json.RawMessage(`{"type":"object"}`)}},
		History: []audit.Turn{{Call: audit.Call{Tool: "get", Arguments: json.RawMessage(`{"id":1}`)}, Answer: []byte(`{"n":1}`)}},
		Call:    audit.Call{Tool: "get", Arguments: json.RawMessage(`{"id":`), Role: "user"},
	}
	messages, err := envace.RehearsePrompt(req)
	if err != nil {
		t.Fatal(err)
	}
	if len(messages) != 4 {
		t.Fatalf("got %d messages, want system, earlier call, its answer, the call", len(messages))
	}
	wants := []string{
		`{"description":"reads <one>","name":"get","parameters":{"type":"object"}}`,
		`{"arguments":{"id":1},"name":"get"}`,
		"<execution_result>\n{\"n\":1}\n</execution_result>",
		`{"arguments":"{\"id\":","caller":"user","name":"get"}`,
	}
	for i, want := range wants {
		if !strings.Contains(messages[i].Content, want) {
			t.Errorf("message %d lacks %s:\n%s", i, want, messages[i].Content)
		}
	}
	if envace.RehearsePromptDigest().IsZero() {
		t.Error("the prompt has no version")
	}
}

func FuzzParseRehearsal(f *testing.F) {
	f.Add("<execution_result>{}</execution_result>")
	f.Add("<think></think><execution_result><state_delta></state_delta><confidence>-0</confidence>")
	f.Fuzz(func(t *testing.T, text string) {
		r, fault := envace.ParseRehearsal(text)
		if fault == envace.FaultNone && !json.Valid(r.Raw) {
			t.Fatalf("no fault, but %q is no JSON", r.Raw)
		}
		if r.StateDelta != nil && !json.Valid(r.StateDelta) {
			t.Fatalf("delta %q is no JSON", r.StateDelta)
		}
		if c := r.Confidence; c != nil && (*c < 0 || *c > 1) {
			t.Fatalf("confidence %v", *c)
		}
	})
}
