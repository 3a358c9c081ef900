package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
)

// chatRecord is one line of OpenAI chat JSON Lines, or of TOUCAN, which keeps
// the messages as a JSON string (facts: protocols 5).
type chatRecord struct {
	ID         json.RawMessage `json:"id"`
	UUID       string          `json:"uuid"`
	EpisodeID  string          `json:"episode_id"`
	Prompt     string          `json:"prompt_group"`
	Model      string          `json:"model"`
	Env        string          `json:"environment"`
	Messages   json.RawMessage `json:"messages"`
	Success    *bool           `json:"success"`
	WireFormat string          `json:"wire_api"`
}

// message is a chat message of any of the dialects that occur.
type message struct {
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"`
	Name         string          `json:"name"`
	ToolCallID   string          `json:"tool_call_id"`
	ID           string          `json:"id"` // tau2: of the answered call
	ToolCalls    []toolCall      `json:"tool_calls"`
	FunctionCall *function       `json:"function_call"` // the older OpenAI shape
	Requestor    string          `json:"requestor"`     // tau2
	Error        *bool           `json:"error"`         // tau2
	IsError      *bool           `json:"is_error"`
	Messages     []message       `json:"tool_messages"` // tau2: several answers in one
}

type toolCall struct {
	ID        string          `json:"id"`
	Function  *function       `json:"function"`
	Name      string          `json:"name"`      // tau2: flat
	Arguments json.RawMessage `json:"arguments"` // tau2: flat
	Requestor string          `json:"requestor"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func readChat(rec record, s *sink) {
	var chat chatRecord
	if err := json.Unmarshal(rec.body, &chat); err != nil {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	messages, ok := parseMessages(chat.Messages)
	if !ok {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	t := trajectory{
		id: cmp.Or(chat.EpisodeID, chat.UUID, identifier(chat.ID)), group: chat.Prompt, policy: chat.Model,
		environment: chat.Env, wireAPI: cmp.Or(chat.WireFormat, "chat"), success: chat.Success, line: rec.line,
	}
	for _, m := range messages {
		t.message(m, s)
	}
	s.emit(t)
}

func parseMessages(raw json.RawMessage) ([]message, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > 0 && raw[0] == '"' {
		raw = json.RawMessage(text(raw))
	}
	var messages []message
	err := json.Unmarshal(raw, &messages)
	return messages, err == nil && len(messages) > 0
}

// message adds what one chat message says to the trajectory.
func (t *trajectory) message(m message, s *sink) {
	switch strings.ToLower(m.Role) {
	case "tool", "function", "tool_response":
		t.toolMessage(m, s)
	case "tool_call":
		if !t.callText(content(m.Content)) {
			s.skip(reasonCallText, 1, t.line)
		}
	default:
		for _, c := range m.ToolCalls {
			t.call(c.exchange(m))
		}
		if m.FunctionCall != nil {
			t.call(exchange{tool: m.FunctionCall.Name, arguments: m.FunctionCall.Arguments})
		}
		if len(m.ToolCalls) == 0 && m.FunctionCall == nil && m.Role == "assistant" {
			t.taggedCalls(content(m.Content), s)
		}
	}
}

func (t *trajectory) toolMessage(m message, s *sink) {
	if len(m.Messages) > 0 {
		for _, inner := range m.Messages {
			t.toolMessage(inner, s)
		}
		return
	}
	failed := m.Error
	if failed == nil {
		failed = m.IsError
	}
	if !t.answer(cmp.Or(m.ToolCallID, m.ID), content(m.Content), failed) {
		s.skip(reasonNoCall, 1, t.line)
	}
}

func (c toolCall) exchange(m message) exchange {
	e := exchange{id: c.ID, tool: c.Name, arguments: c.Arguments, role: "assistant"}
	if c.Function != nil {
		e.tool, e.arguments = c.Function.Name, c.Function.Arguments
	}
	if c.Requestor == "user" || m.Role == "user" {
		e.role = "user"
	}
	return e
}

// callText reads calls that a message holds as text: JSON, a Python literal of
// the same shape, or call syntax. It reports whether there were any.
func (t *trajectory) callText(raw []byte) bool {
	var call function
	if json.Unmarshal(raw, &call) != nil {
		if literal, err := parseLiteral(string(raw)); err == nil {
			_ = json.Unmarshal(literal, &call) // another shape leaves the name empty
		}
	}
	if call.Name != "" {
		t.call(exchange{tool: call.Name, arguments: call.Arguments})
		return true
	}
	calls, err := parseCalls(string(raw))
	for _, c := range calls {
		t.call(exchange{tool: c.Name, arguments: c.Arguments})
	}
	return err == nil
}

// taggedCalls finds <tool_call>{…}</tool_call> blocks in plain text.
func (t *trajectory) taggedCalls(raw []byte, s *sink) {
	rest := string(raw)
	for {
		_, after, found := strings.Cut(rest, "<tool_call>")
		if !found {
			return
		}
		body, tail, closed := strings.Cut(after, "</tool_call>")
		if !t.callText([]byte(strings.TrimSpace(body))) {
			s.skip(reasonCallText, 1, t.line)
		}
		if !closed {
			return
		}
		rest = tail
	}
}
