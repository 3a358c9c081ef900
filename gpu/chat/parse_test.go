package chat_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/gpu/chat"
)

// call is a good call, broken one of which only the text is known.
func call(name, arguments, text string) chat.ReplyCall {
	return chat.ReplyCall{Call: chat.Call{Name: name, Arguments: json.RawMessage(arguments)}, Text: text}
}

func TestParse(t *testing.T) {
	const f = "\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n"
	for _, c := range []struct {
		answer string
		want   chat.Reply
		errs   string // of the calls, joined
		reason string
	}{
		{"Hello.<|im_end|>\n<|im_start|>user", chat.Reply{Content: "Hello."}, "", "text up to the end of the turn"},
		{"<think>\nHm.\n</think>\n\nYes.", chat.Reply{Thinking: "Hm.", Content: "Yes."}, "", "a thought"},
		{"Hm.\n</think>\n\nYes.", chat.Reply{Thinking: "Hm.", Content: "Yes."}, "", "the prompt opened the thought"},
		{"<think>\n\n</think>\n\n", chat.Reply{}, "", "an empty thought"},
		{"<think>\nHm, well", chat.Reply{Thinking: "Hm, well", Unfinished: true}, "", "cut off in the thought"},
		{"I say <think> aloud.", chat.Reply{Content: "I say <think> aloud."}, "", "a tag within text"},
		{"<tool_call>" + f + "</tool_call>", chat.Reply{Calls: []chat.ReplyCall{call("f", `{"x": 1}`, f)}}, "", "one call"},
		{
			"<think>\nDo <tool_call>x</tool_call>?</think>Now.\n<tool_call>" + f + "</tool_call>\n<tool_call>" + f + "</tool_call><|im_end|>",
			chat.Reply{Thinking: "Do <tool_call>x</tool_call>?", Content: "Now.", Calls: []chat.ReplyCall{call("f", `{"x": 1}`, f), call("f", `{"x": 1}`, f)}},
			"", "a thought about calls is none; two calls",
		},
		{
			`<tool_call>{"name":"f","arguments":{"x":"</tool_call>"}}</tool_call>`,
			chat.Reply{Calls: []chat.ReplyCall{call("f", `{"x":"</tool_call>"}`, `{"name":"f","arguments":{"x":"</tool_call>"}}`)}},
			"", "the closing tag in a string",
		},
		{`<tool_call>{"name":"f"}</tool_call>`, chat.Reply{Calls: []chat.ReplyCall{call("f", `{}`, `{"name":"f"}`)}}, "", "no arguments are none"},
		{`<tool_call>{"name":"f","arguments":{}}`, chat.Reply{Calls: []chat.ReplyCall{call("f", `{}`, `{"name":"f","arguments":{}}`)}}, "", "whole, but not closed"},
		{`a<tool_call>{"name":"f","argu`, chat.Reply{Content: "a", Unfinished: true, Calls: []chat.ReplyCall{{Text: `{"name":"f","argu`}}}, "tool call is cut off", "cut off in a call"},
		{`<tool_call>nope</tool_call>b`, chat.Reply{Content: "b", Calls: []chat.ReplyCall{{Text: "nope"}}}, `no JSON object: "nope"`, "no JSON"},
		{`<tool_call>[1]</tool_call>`, chat.Reply{Calls: []chat.ReplyCall{{Text: "[1]"}}}, "no JSON object", "no object"},
		{`<tool_call>null</tool_call>`, chat.Reply{Calls: []chat.ReplyCall{{Text: "null"}}}, "no JSON object", "null"},
		{`<tool_call>{"arguments":{}}</tool_call>`, chat.Reply{Calls: []chat.ReplyCall{{Text: `{"arguments":{}}`}}}, "has no name", "no name"},
		{`<tool_call>{"name":7}</tool_call>`, chat.Reply{Calls: []chat.ReplyCall{{Text: `{"name":7}`}}}, "has no name", "a number for a name"},
		{`<tool_call>{"name":"f","arguments":"{}"}</tool_call>`, chat.Reply{Calls: []chat.ReplyCall{{Text: `{"name":"f","arguments":"{}"}`}}}, "arguments are no object", "arguments in a string"},
		{`<tool_call>{"name":"f"}{}</tool_call>`, chat.Reply{Calls: []chat.ReplyCall{{Text: `{"name":"f"}{}`}}}, "something after", "two objects"},
	} {
		got := must(t, chat.Qwen3).Parse(c.answer)
		var errs []string
		for i := range got.Calls {
			if got.Calls[i].Err != nil {
				errs = append(errs, got.Calls[i].Err.Error())
				got.Calls[i].Err = nil
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (%q):\n%s", c.reason, c.answer, diff)
		}
		if joined := strings.Join(errs, "; "); (c.errs == "") != (joined == "") || !strings.Contains(joined, c.errs) {
			t.Errorf("%s: errors %q, want %q", c.reason, joined, c.errs)
		}
	}
	if got := must(t, chat.SmolLM2).Parse(" <tool_call>x</tool_call><|im_end|>"); got.Content != "<tool_call>x</tool_call>" || got.Calls != nil {
		t.Errorf("a format without tools reads %+v", got)
	}
	if got := must(t, chat.Llama3).Parse("a<|im_end|><|eot_id|>b"); got.Content != "a<|im_end|>" {
		t.Errorf("Llama 3's answer is %q", got.Content)
	}
}

func TestBrokenCallsStayInTheMessage(t *testing.T) {
	r := must(t, chat.Qwen3).Parse("Hm. <tool_call>nope</tool_call><tool_call>{\"name\":\"f\"}</tool_call>")
	want := chat.Message{
		Role: chat.Assistant, Content: "Hm.\n<tool_call>nope</tool_call>", Calls: []chat.Call{{Name: "f", Arguments: json.RawMessage("{}")}},
	}
	if diff := cmp.Diff(want, r.Message()); diff != "" {
		t.Error(diff)
	}
}

// FuzzParse: an answer taken apart, rendered as the last turn and taken apart again is
// the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"Hello.", "<think>\nx\n</think>\n\ny", "a<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, 2.0, \"</tool_call>\"]}}\n</tool_call>",
		"<tool_call>nope", "<think>", "</think></think>", "x</tool_call>y", `<tool_call>{"name":"f","arguments":{"x":1e400}}</tool_call>`,
	} {
		f.Add(seed)
	}
	template := must(f, chat.Qwen3)
	f.Fuzz(func(t *testing.T, answer string) {
		first := template.Parse(answer)
		for _, call := range first.Calls {
			if call.Err == nil && (call.Name == "" || !json.Valid(call.Arguments)) {
				t.Fatalf("call %+v has no error", call)
			}
		}
		prompt, err := template.Render(chat.Conversation{Messages: []chat.Message{{Role: chat.User, Content: "x"}, first.Message()}})
		if err != nil {
			t.Fatal(err)
		}
		const begin = "<|im_start|>assistant\n"
		text := prompt.String()
		second := template.Parse(text[strings.Index(text, begin)+len(begin):])
		good := func(r chat.Reply) (names []string) {
			for _, call := range r.Calls {
				if call.Err == nil {
					names = append(names, call.Name)
				}
			}
			return names
		}
		if tags := strings.Count(answer, "think>") + strings.Count(answer, "tool_call>") + strings.Count(answer, "<|im_"); tags > 2 {
			return // tags within tags are read anew
		}
		if diff := cmp.Diff(good(first), good(second)); diff != "" && !strings.ContainsAny(answer, `\"`) {
			t.Fatalf("%q: calls\n%s", answer, diff)
		}
	})
}
