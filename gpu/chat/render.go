package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Render writes a conversation. It refuses roles, tools and calls that the format does
// not have, rather than leaving them out as templates do.
func (t *Template) Render(c Conversation) (Prompt, error) {
	if err := t.check(c); err != nil {
		return nil, fmt.Errorf("render %s prompt: %w", t.format, err)
	}
	c.Generate = c.Generate || t.always
	var p Prompt
	switch t.format {
	case Qwen3:
		p.qwen3(c)
	case Llama3:
		p.llama3(c, t.begin)
	case SmolLM2:
		if c.Messages[0].Role != System {
			p.control("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n")
		}
		p.chatML(c)
	case ChatML:
		p.chatML(c)
	}
	return p, nil
}

func (t *Template) check(c Conversation) error {
	if len(c.Messages) == 0 {
		return errors.New("there are no messages")
	}
	if len(c.Tools) > 0 && !t.HasTools() {
		return errors.New("the format has no tools")
	}
	for i, tool := range c.Tools {
		if !json.Valid(tool) {
			return fmt.Errorf("tool %d is no JSON", i)
		}
	}
	for i, m := range c.Messages {
		switch m.Role {
		case System, User:
		case Assistant:
			if len(m.Calls) > 0 && !t.HasTools() {
				return fmt.Errorf("message %d calls tools, which the format does not have", i)
			}
		case Tool:
			if !t.HasTools() {
				return fmt.Errorf("message %d is a tool's, and the format has no tools", i)
			}
		default:
			return fmt.Errorf("message %d has the role %q", i, m.Role)
		}
		if m.Role != Assistant && (len(m.Calls) > 0 || m.Thinking != "") {
			return fmt.Errorf("message %d of the %s calls tools or thinks", i, m.Role)
		}
	}
	return nil
}

// turn is a whole ChatML turn.
func (p *Prompt) turn(role, content string) {
	p.control("<|im_start|>" + role + "\n")
	p.plain(content)
	p.control("<|im_end|>\n")
}

func (p *Prompt) chatML(c Conversation) {
	for _, m := range c.Messages {
		p.turn(m.Role, m.Content)
	}
	if c.Generate {
		p.control("<|im_start|>assistant\n")
	}
}

func (p *Prompt) llama3(c Conversation, begin string) {
	header := func(role string) string { return "<|start_header_id|>" + role + "<|end_header_id|>\n\n" }
	p.control(begin)
	for _, m := range c.Messages {
		p.control(header(m.Role))
		p.plain(strings.TrimFunc(m.Content, pythonSpace))
		p.control("<|eot_id|>")
	}
	if c.Generate {
		p.control(header(Assistant))
	}
}

// pythonSpace is what Python's strip takes away: white space and four separators.
func pythonSpace(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f }

func (p *Prompt) qwen3(c Conversation) {
	messages, last := c.Messages, lastQuery(c.Messages)
	p.qwen3System(c)
	for i, m := range messages {
		switch m.Role {
		case System:
			if i > 0 { // the first is in the head already
				p.turn(m.Role, m.Content)
			}
		case User:
			p.turn(m.Role, m.Content)
		case Assistant:
			p.qwen3Assistant(m, i > last, i == len(messages)-1)
		case Tool:
			if i == 0 || messages[i-1].Role != Tool {
				p.control("<|im_start|>user")
			}
			p.control("\n<tool_response>\n")
			p.plain(m.Content)
			p.control("\n</tool_response>")
			if i == len(messages)-1 || messages[i+1].Role != Tool {
				p.control("<|im_end|>\n")
			}
		}
	}
	if c.Generate {
		p.control("<|im_start|>assistant\n")
		if c.NoThinking {
			p.control("<think>\n\n</think>\n\n")
		}
	}
}

// lastQuery is the place of the last question of the user that is no tool's response in
// disguise: what the assistant thought up to there is not shown again.
func lastQuery(messages []Message) int {
	for i, m := range slices.Backward(messages) {
		isResponse := strings.HasPrefix(m.Content, "<tool_response>") && strings.HasSuffix(m.Content, "</tool_response>")
		if m.Role == User && !isResponse {
			return i
		}
	}
	return len(messages) - 1
}

func (p *Prompt) qwen3System(c Conversation) {
	first := c.Messages[0]
	if len(c.Tools) == 0 {
		if first.Role == System {
			p.turn(System, first.Content)
		}
		return
	}
	p.control("<|im_start|>system\n")
	if first.Role == System {
		p.plain(first.Content)
		p.control("\n\n")
	}
	p.control("# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>")
	for _, tool := range c.Tools {
		p.control("\n")
		p.plain(pythonJSON(tool))
	}
	p.control("\n</tools>\n\nFor each function call, return a json object with function name and arguments " +
		"within <tool_call></tool_call> XML tags:\n<tool_call>\n" +
		`{"name": <function-name>, "arguments": <args-json-object>}` + "\n</tool_call><|im_end|>\n")
}

// qwen3Assistant writes an assistant's turn; current ones, after the last query, with
// their thinking.
func (p *Prompt) qwen3Assistant(m Message, current, last bool) {
	content, thinking := m.Content, m.Thinking
	if before, _, found := strings.Cut(m.Content, "</think>"); thinking == "" && found {
		parts := strings.Split(m.Content, "</think>")
		content = strings.TrimLeft(parts[len(parts)-1], "\n")
		parts = strings.Split(strings.TrimRight(before, "\n"), "<think>")
		thinking = strings.TrimLeft(parts[len(parts)-1], "\n")
	}
	p.control("<|im_start|>assistant\n")
	if current && (last || thinking != "") {
		p.control("<think>\n")
		p.plain(strings.Trim(thinking, "\n"))
		p.control("\n</think>\n\n")
		p.plain(strings.TrimLeft(content, "\n"))
	} else {
		p.plain(content)
	}
	for i, call := range m.Calls {
		if i > 0 || content != "" {
			p.control("\n")
		}
		p.control("<tool_call>\n{\"name\": \"")
		p.plain(call.Name)
		p.control(`", "arguments": `)
		p.plain(arguments(call.Arguments))
		p.control("}\n</tool_call>")
	}
	p.control("<|im_end|>\n")
}

// arguments are a call's arguments as text.
func arguments(raw json.RawMessage) string {
	var text string
	switch {
	case len(raw) == 0:
		return "{}"
	case json.Unmarshal(raw, &text) == nil && raw[0] != 'n': // not null
		return text
	case json.Valid(raw):
		return pythonJSON(raw)
	}
	return string(raw)
}
