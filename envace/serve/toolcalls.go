package serve

import (
	"encoding/json"
	"strings"

	"understudy/gpu/chat"
	"understudy/gpu/grammar"
)

// toolCall is a call that was written.
type toolCall struct {
	id, name  string
	arguments json.RawMessage
}

// callReader finds tool calls in text as it comes. What cannot be a call is
// content, as it was written.
type callReader struct {
	calls  *grammar.Calls // nil = all is content
	held   string         // may begin a call, or is white space after one
	inside bool           // held is a call after its trigger
	found  int
}

// write gives the content and the calls that are certain now.
func (c *callReader) write(text string) (content string, calls []toolCall) {
	if c.calls == nil {
		return text, nil
	}
	c.held += text
	for {
		if !c.inside {
			before, after, triggered := strings.Cut(c.held, c.trigger())
			if !triggered {
				return content + c.release(), calls
			}
			content += c.trimmed(before)
			c.held, c.inside = after, true
		}
		call, after, closed := chat.CutCall(c.held)
		if !closed {
			return content, calls
		}
		if call.Err == nil {
			c.found++
			calls = append(calls, toolCall{id: newID("call_"), name: call.Name, arguments: call.Arguments})
		} else {
			content += c.trigger() + c.held[:len(c.held)-len(after)]
		}
		c.held, c.inside = after, false
	}
}

func (c *callReader) trigger() string { return c.calls.Trigger }

// trimmed drops the white space between calls.
func (c *callReader) trimmed(content string) string {
	if c.found > 0 && strings.TrimSpace(content) == "" {
		return ""
	}
	return content
}

// release gives out what is held but for what may begin a trigger, and for white
// space that a call may follow.
func (c *callReader) release() string {
	keep := 0
	trigger := c.trigger()
	for n := min(len(trigger)-1, len(c.held)); n > 0; n-- {
		if strings.HasSuffix(c.held, trigger[:n]) {
			keep = n
			break
		}
	}
	out := c.held[:len(c.held)-keep]
	if c.found > 0 && strings.TrimSpace(out) == "" {
		return ""
	}
	c.held = c.held[len(out):]
	return out
}

// close gives out what is left: a call that never ended is content.
func (c *callReader) close() string {
	out := c.held
	c.held = ""
	switch {
	case c.calls == nil:
		return ""
	case c.inside:
		return c.trigger() + out
	}
	return c.trimmed(out)
}
