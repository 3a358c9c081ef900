package envace

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Narrate tells items as JSON lines, for a judge or for a memory: one object a line,
// so that nothing that was said can pass for somebody else's line. Thinking is told
// only where asked for.
func Narrate(items []Item, thinking bool) (string, error) {
	var out strings.Builder
	for _, item := range items {
		line, err := marshal(told(item, thinking))
		if err != nil {
			return "", fmt.Errorf("narrate a conversation: %w", err)
		}
		out.Write(line)
	}
	return out.String(), nil
}

func told(item Item, thinking bool) map[string]any {
	switch {
	case item.Answer != nil:
		return map[string]any{"answer": shown(item.Answer.Raw), "to": item.Answer.Call.Tool}
	case item.Act == nil:
		return map[string]any{"user": item.User}
	}
	act := map[string]any{}
	if item.Act.Reply != "" {
		act["agent"] = item.Act.Reply
	}
	if thinking && item.Act.Thinking != "" {
		act["thinking"] = item.Act.Thinking
	}
	var calls []any
	for _, call := range item.Act.Calls {
		calls = append(calls, map[string]any{"name": call.Tool, "arguments": shown(call.Arguments)})
	}
	if calls != nil {
		act["calls"] = calls
	}
	if item.Act.Fault != FaultNone {
		act["fault"] = item.Act.Fault
	}
	return act
}

// shown is JSON as it is, and anything else as a text.
func shown(raw []byte) any {
	if json.Valid(raw) {
		return json.RawMessage(raw)
	}
	return string(raw)
}
