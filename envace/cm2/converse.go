package cm2

import (
	"encoding/json"
	"fmt"
	"slices"

	"understudy/audit"
	"understudy/envace"
)

// converse reads the reference conversation. Answers are matched with calls by their
// id, else by their order.
func (s *Sample) converse(messages []message) *flaw {
	var open []pending
	for i, m := range messages {
		text := ""
		if m.Content != nil {
			text = *m.Content
		}
		if len(open) > 0 && m.Role != "tool" {
			return at(i, fmt.Sprintf("%d calls before it have no answer", len(open)), "record an answer for every call")
		}
		switch m.Role {
		case "system":
			if i > 0 {
				return at(i, "the system speaks after the conversation began", "put what it says first")
			}
			s.Told = text
		case "user":
			if text == "" {
				return at(i, "the user says nothing", "leave the message out")
			}
			s.hear(text)
		case "assistant":
			if s.Task.Prompt == "" {
				return at(i, "the agent speaks before the user", "begin with the user's request")
			}
			open = s.act(text, m.Calls)
		case "tool":
			var wrong string
			if open, wrong = s.answer(open, m.CallID, text); wrong != "" {
				return at(i, wrong, "put each answer after the call that it is for")
			}
		default:
			return at(i, fmt.Sprintf("the role is %q", m.Role), "roles are system, user, assistant and tool")
		}
	}
	switch {
	case s.Task.Prompt == "":
		return &flaw{"nobody asks for anything", "the conversation needs a user's message"}
	case len(open) > 0:
		return &flaw{fmt.Sprintf("its last %d calls have no answer", len(open)), "record an answer for every call"}
	}
	return nil
}

func at(message int, text, hint string) *flaw {
	return &flaw{fmt.Sprintf("message %d: %s", message+1, text), hint}
}

// pending is a call that waits for its answer.
type pending struct {
	id   string
	call audit.Call
}

func (s *Sample) hear(text string) {
	if s.Task.Prompt == "" {
		s.Task.Prompt = text
		return
	}
	s.Users = append(s.Users, text)
	s.Items = append(s.Items, envace.Item{User: text})
}

// act reads a message of the agent: thinking and reply from its text, calls apart.
func (s *Sample) act(text string, calls []writtenCall) []pending {
	read := envace.ParseAct(text)
	act := envace.Act{Thinking: read.Thinking, Reply: read.Reply}
	var open []pending
	for _, c := range calls {
		call := audit.Call{Tool: c.Function.Name, Arguments: c.Function.Arguments}
		var inner string
		if json.Unmarshal(call.Arguments, &inner) == nil { // as the API writes them
			call.Arguments = json.RawMessage(inner)
		}
		if len(call.Arguments) == 0 {
			call.Arguments = json.RawMessage("{}")
		}
		act.Calls = append(act.Calls, call)
		open = append(open, pending{c.ID, call})
	}
	s.Items = append(s.Items, envace.Item{Act: &act})
	return open
}

func (s *Sample) answer(open []pending, id, text string) (_ []pending, wrong string) {
	at := 0
	if id != "" {
		at = slices.IndexFunc(open, func(p pending) bool { return p.id == id })
	}
	if at < 0 || at >= len(open) {
		return open, "it answers no call"
	}
	turn := audit.Turn{Call: open[at].call, Answer: []byte(text)}
	s.Turns = append(s.Turns, turn)
	s.Items = append(s.Items, envace.Item{Answer: &envace.Answer{Call: turn.Call, Raw: turn.Answer}})
	return slices.Delete(open, at, at+1), ""
}
