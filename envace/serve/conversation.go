package serve

import (
	"encoding/json"
	"slices"
	"strings"

	"understudy/gpu/chat"
)

// chatRequest is a body of /v1/chat/completions.
type chatRequest struct {
	options
	Messages       []chatMessage     `json:"messages"`
	Tools          []json.RawMessage `json:"tools"`
	ToolChoice     json.RawMessage   `json:"tool_choice"`
	ParallelCalls  *bool             `json:"parallel_tool_calls"`
	ResponseFormat *responseFormat   `json:"response_format"`
	LogProbs       bool              `json:"logprobs"`
	TopLogProbs    int               `json:"top_logprobs"`
	TemplateArgs   struct {
		EnableThinking *bool `json:"enable_thinking"`
	} `json:"chat_template_kwargs"`
	// Functions are refused: tools replaced them.
	Functions []json.RawMessage `json:"functions"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// chatMessage is a message as clients write it.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Thinking  string          `json:"reasoning_content"`
	ToolCalls []struct {
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"` // JSON in a string; some send the object
		} `json:"function"`
	} `json:"tool_calls"`
}

// conversation checks the messages and brings them into one form.
func (r *chatRequest) conversation() (chat.Conversation, error) {
	c := chat.Conversation{Tools: r.Tools, Generate: true}
	if len(r.Messages) == 0 {
		return c, badRequest("messages", "messages is empty")
	}
	for i, m := range r.Messages {
		role := m.Role
		if role == "developer" {
			role = chat.System
		}
		if !slices.Contains([]string{chat.System, chat.User, chat.Assistant, chat.Tool}, role) {
			return c, badRequest("messages", "messages[%d].role is %q: it must be system, developer, user, assistant or tool", i, m.Role)
		}
		content, ok := contentText(m.Content)
		if !ok {
			return c, badRequest("messages", "messages[%d].content must be a text, null, or parts of type text", i)
		}
		out := chat.Message{Role: role, Content: content, Thinking: m.Thinking}
		for k, call := range m.ToolCalls {
			arguments, ok := callArguments(call.Function.Arguments)
			if call.Function.Name == "" || !ok {
				return c, badRequest("messages", "messages[%d].tool_calls[%d] needs a function with a name and arguments in JSON", i, k)
			}
			out.Calls = append(out.Calls, chat.Call{Name: call.Function.Name, Arguments: arguments})
		}
		c.Messages = append(c.Messages, out)
	}
	return c, nil
}

// contentText reads a text, null, or a list of text parts.
func contentText(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", true
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one, true
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		b.WriteString(p.Text)
	}
	return b.String(), true
}

// callArguments reads JSON that stands in a string, or as it is.
func callArguments(raw json.RawMessage) (json.RawMessage, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if len(raw) == 0 {
		raw = json.RawMessage(`{}`)
	}
	return raw, json.Valid(raw)
}
