package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Reply is a model's answer, taken apart.
type Reply struct {
	Thinking string
	Content  string // the text outside thinking and calls, without white space around it
	Calls    []ReplyCall
	// Unfinished says that the answer ended within its thinking or a call: it was cut off.
	Unfinished bool
}

// ReplyCall is a tool call in an answer. A broken one has an error, and no name or
// arguments that could be trusted.
type ReplyCall struct {
	Call
	Text string // between <tool_call> and </tool_call>, as the model wrote it
	Err  error
}

// Message is the reply as a turn of a conversation. Broken calls stay in its content,
// where the model wrote them.
func (r Reply) Message() Message {
	m := Message{Role: Assistant, Content: r.Content, Thinking: r.Thinking}
	for _, call := range r.Calls {
		if call.Err != nil {
			m.Content = strings.TrimLeft(m.Content+"\n"+openCall+call.Text+closeCall, "\n")
			continue
		}
		m.Calls = append(m.Calls, call.Call)
	}
	return m
}

const (
	openThink, closeThink = "<think>", "</think>"
	openCall, closeCall   = "<tool_call>", "</tool_call>"
)

// Parse takes an answer apart: the text that the model wrote after a prompt that Render
// made with Generate. What follows the control token that ends the turn is ignored.
// Formats without tools have Content alone.
func (t *Template) Parse(answer string) Reply {
	answer, _, _ = strings.Cut(answer, t.Stop())
	var r Reply
	if !t.HasTools() {
		r.Content = strings.TrimSpace(answer)
		return r
	}
	rest := r.takeThinking(answer)
	var content strings.Builder
	for {
		before, after, found := strings.Cut(rest, openCall)
		content.WriteString(before)
		if !found {
			break
		}
		rest = r.takeCall(after)
	}
	r.Content = strings.TrimSpace(content.String())
	return r
}

// takeThinking returns what follows the thinking. The opening tag may be missing: some
// templates write it into the prompt.
func (r *Reply) takeThinking(answer string) string {
	thinking, rest, closed := strings.Cut(answer, closeThink)
	_, inner, opened := strings.Cut(thinking, openThink)
	opened = opened && strings.TrimSpace(thinking[:strings.Index(thinking, openThink)]) == ""
	switch {
	case closed && opened:
		r.Thinking = strings.TrimSpace(inner)
	case closed && !strings.Contains(thinking, openCall):
		r.Thinking = strings.TrimSpace(thinking)
	case opened:
		r.Thinking, r.Unfinished, rest = strings.TrimSpace(inner), true, ""
	default:
		return answer
	}
	return rest
}

// takeCall reads a call and returns what follows it.
func (r *Reply) takeCall(text string) (rest string) {
	call, rest, closed := CutCall(text)
	if !closed { // nothing more will come
		inside, after, found := strings.Cut(text, closeCall)
		call, rest = newReplyCall(inside), after
		if !found && call.Err != nil {
			call.Err, r.Unfinished = errors.New("tool call is cut off"), true
		}
	}
	r.Calls = append(r.Calls, call)
	return rest
}

// CutCall reads the call that text, which follows a <tool_call>, begins with, and returns
// what follows it. The closing tag is looked for after the JSON, which may have it in a
// string. It is false while the call's end may still be to come.
func CutCall(text string) (call ReplyCall, rest string, closed bool) {
	end := strings.Index(text, closeCall)
	if end < 0 {
		return call, "", false
	}
	dec := json.NewDecoder(strings.NewReader(text))
	var value json.RawMessage
	switch err := dec.Decode(&value); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return call, "", false
	case err == nil:
		after := strings.TrimLeft(text[dec.InputOffset():], " \t\r\n")
		switch {
		case strings.HasPrefix(after, closeCall):
			end = len(text) - len(after)
		case end < int(dec.InputOffset()) && strings.HasPrefix(closeCall, after):
			return call, "", false
		}
	}
	return newReplyCall(text[:end]), text[end+len(closeCall):], true
}

func newReplyCall(text string) ReplyCall {
	call, err := parseCall(text)
	return ReplyCall{Call: call, Text: text, Err: err}
}

// parseCall reads {"name": ..., "arguments": {...}} and nothing else.
func parseCall(text string) (Call, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	var fields map[string]json.RawMessage
	if err := dec.Decode(&fields); err != nil || fields == nil {
		return Call{}, fmt.Errorf("tool call is no JSON object: %.100q", strings.TrimSpace(text))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Call{}, errors.New("tool call has something after its JSON object")
	}
	var c Call
	if err := json.Unmarshal(fields["name"], &c.Name); err != nil || c.Name == "" {
		return Call{}, errors.New("tool call has no name")
	}
	c.Arguments = fields["arguments"]
	if len(c.Arguments) == 0 || string(c.Arguments) == "null" {
		c.Arguments = json.RawMessage("{}")
	}
	if c.Arguments[0] != '{' {
		return Call{}, fmt.Errorf("tool call's arguments are no object: %.100q", c.Arguments)
	}
	return c, nil
}
