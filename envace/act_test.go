package envace_test

import (
	"strings"
	"testing"

	"understudy/envace"
)

func TestParseAct(t *testing.T) {
	t.Parallel()
	const open, closed = "<tool_call>\n", "\n</tool_call>"
	good := open + `{"name":"a","arguments":{"x":1}}` + closed
	tests := []struct {
		text, calls, reply string
		fault              envace.Fault
		blocks             int
		reason             string
	}{
		{good, `a {"x":1}`, "", "", 0, "the plain contract"},
		{"one moment" + good + good, `a {"x":1};a {"x":1}`, "one moment", "", 0, "two blocks are two calls"},
		{"<think>I could " + good + "</think>All done.", "", "All done.", "", 0, "a mention inside the thinking is no call"},
		{"<think>hm</think>\n" + good, `a {"x":1}`, "", "", 0, "after the thinking"},
		{"No call is needed.", "", "No call is needed.", "", 0, "no call: a reply"},
		{"", "", "", envace.FaultEmpty, 0, "neither call nor reply"},
		{"<think>never ends", "", "", envace.FaultUnclosed, 0, "cut off while it thought"},
		{open + `{"name":` + closed + good, `a {"x":1}`, "", envace.FaultMalformed, 1, "a bad block does not spoil the next"},
		{good + open + `not json` + closed + good, `a {"x":1};a {"x":1}`, "", envace.FaultMalformed, 1, "nor the ones around it"},
		{open + `{"arguments":{}}` + closed, "", "", envace.FaultMalformed, 1, "a call without a name"},
		{open + `{"name":"a","arguments":[1]}` + closed, `a [1]`, "", envace.FaultMalformed, 1, "no object: made as it is, and refused"},
		{open + `{"name":"a","arguments":{"x":`, "", "", envace.FaultUnclosed, 1, "cut off by the token limit"},
		{open + `{"name":"a","arguments":{}}`, `a {}`, "", "", 0, "whole but for the closing tag, which some templates stop at"},
		{open + `[{"name":"a"},{"name":"b","arguments":null}]` + closed, `a {};b {}`, "", envace.FaultSeveral, 1, "a list in one block"},
		{open + `{"name":"a"}{"name":"b"}` + closed, `a {};b {}`, "", envace.FaultSeveral, 1, "one after another in one block"},
		{open + `[{"name":"a"},7]` + closed, `a {}`, "", envace.FaultMalformed, 1, "what is a call in a list counts"},
		{open + `{"name":"a","arguments":"{\"x\":1}"}` + closed, `a {"x":1}`, "", envace.FaultDoubleEncoded, 1, "arguments inside a text"},
		{open + `{"name":"a","arguments":"x"}` + closed, `a x`, "", envace.FaultMalformed, 1, "a text that is no JSON is refused as written"},
		{open + `{"name":"a","parameters":{"x":1}}` + closed, `a {"x":1}`, "", "", 0, "the other name of arguments"},
		{open + `{"name":"a","arguments":{"x":"</tool_call>"}}` + closed, `a {"x":"</tool_call>"}`, "", "", 0, "the tag inside a value is a value"},
	}
	for _, test := range tests {
		act := envace.ParseAct(test.text)
		var calls []string
		for _, c := range act.Calls {
			calls = append(calls, c.Tool+" "+string(c.Arguments))
		}
		if got := strings.Join(calls, ";"); got != test.calls || act.Reply != test.reply || act.Fault != test.fault || len(act.Blocks) != test.blocks {
			t.Errorf("%s: %q\n got %q, reply %q, fault %q, blocks %v\nwant %q, reply %q, fault %q, %d blocks",
				test.reason, test.text, got, act.Reply, act.Fault, act.Blocks, test.calls, test.reply, test.fault, test.blocks)
		}
	}
}

func FuzzParseAct(f *testing.F) {
	f.Add("<think>x</think><tool_call>{\"name\":\"a\",\"arguments\":\"{}\"}</tool_call>reply")
	f.Add("<tool_call>[{}]</tool_call><tool_call>")
	f.Add("<tool_call>[[],null]{\"name\":\"a\"}x")
	f.Fuzz(func(t *testing.T, text string) {
		act := envace.ParseAct(text)
		for _, call := range act.Calls {
			if call.Tool == "" || len(call.Arguments) == 0 {
				t.Fatalf("call %+v", call)
			}
		}
		if act.Fault == envace.FaultNone && len(act.Calls) == 0 && act.Reply == "" {
			t.Fatal("neither calls, reply nor fault")
		}
		// A good block before it is read whatever the text is, unless it turns it into thinking.
		const good = "<tool_call>{\"name\":\"good\"}</tool_call>"
		if !strings.Contains(text, "think>") && !strings.Contains(text, "<|im_end|>") {
			if led := envace.ParseAct(good + text); len(led.Calls) != len(act.Calls)+1 || led.Calls[0].Tool != "good" {
				t.Fatalf("a good block is lost before %q: %v", text, led.Calls)
			}
		}
	})
}
