package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/envace"
)

// finSample is a FinMCP-style sample: a whole conversation in which experts called
// tools, in OpenAI's messages, and the tools.
type finSample struct {
	ID       string       `json:"id"`
	Messages []finMessage `json:"messages"`
	ToolList []Function   `json:"tool_list"`
	Tools    []Function   `json:"tools"`
}

type finMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Calls   []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
	CallID string `json:"tool_call_id"`
}

// ReadFinMCP reads a file of FinMCP-style samples. A sample is played against its own
// recording: the user says what they said, a call that was recorded gets the answer
// that it had, any other one a refusal. Figures compare the sets of tools that were
// called with those of the recording; success is that they are the same.
func ReadFinMCP(text []byte, rules *audit.Rules) ([]Task, error) {
	samples, err := readLines[finSample](text, "the samples")
	if err != nil {
		return nil, err
	}
	out := make([]Task, len(samples))
	for i, s := range samples {
		if s.ID == "" {
			s.ID = fmt.Sprintf("sample_%d", i+1)
		}
		if out[i], err = s.task(rules); err != nil {
			return nil, fmt.Errorf("sample %s: %w", s.ID, err)
		}
	}
	return out, nil
}

func (s finSample) task(rules *audit.Rules) (Task, error) {
	task := Task{Rules: rules, Task: audit.Task{ID: s.ID}}
	for _, f := range append(slices.Clone(s.ToolList), s.Tools...) {
		tool, err := f.Tool()
		if err != nil {
			return task, err
		}
		task.Tools = append(task.Tools, tool)
	}
	var users, reference []string
	var turns []audit.Turn
	pending := map[string]int{}
	last := -1
	for i, m := range s.Messages {
		content := plainText(m.Content)
		switch m.Role {
		case "system":
			task.Told = content
		case "user":
			users = append(users, content)
		case "assistant":
			for _, c := range m.Calls {
				call := audit.Call{Tool: c.Function.Name, Arguments: unquoted(c.Function.Arguments)}
				pending[c.ID] = len(turns)
				turns, reference = append(turns, audit.Turn{Call: call}), append(reference, call.Tool)
			}
		case "tool":
			at, known := pending[m.CallID]
			if !known {
				at = last + 1
			}
			if at >= len(turns) {
				return task, fmt.Errorf("message %d answers no call", i+1)
			}
			last, turns[at].Answer = at, []byte(content)
		default:
			return task, fmt.Errorf("message %d has the unknown role %q", i+1, m.Role)
		}
	}
	if len(users) == 0 {
		return task, errors.New("nobody asks for anything")
	}
	task.Prompt = users[0]
	for _, t := range turns {
		task.Solution = append(task.Solution, t.Call)
	}
	task.Limits.UserTurns = len(users)
	task.Begin = func() Sample {
		return Sample{
			Source: envace.Recorded{Turns: map[string][]audit.Turn{s.ID: turns}}, User: envace.Scripted(users[1:]), Private: envace.Scripted(users[1:]),
			Grade: func(_ context.Context, t *envace.Trajectory) (Verdict, error) { return byTools(t, reference), nil },
		}
	}
	return task, nil
}

// byTools compares the tools that were called with the reference's.
func byTools(t *envace.Trajectory, reference []string) Verdict {
	var called []string
	for _, answer := range t.Calls() {
		called = append(called, answer.Call.Tool)
	}
	use := UseOf(reference, called)
	v := Verdict{Success: use.Exact(), Tools: &use, Initial: len(reference) == 0}
	if use.Reference+use.Called > 0 {
		v.Score = 2 * float64(use.Both) / float64(use.Reference+use.Called)
	} else {
		v.Score = 1
	}
	return v
}

// plainText is a message's content: a text, or OpenAI's list of parts.
func plainText(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) == nil {
		var all strings.Builder
		for _, p := range parts {
			all.WriteString(p.Text)
		}
		return all.String()
	}
	return string(content)
}

// unquoted are arguments, which OpenAI's API writes as JSON inside a text.
func unquoted(arguments json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(arguments, &text) == nil && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return arguments
}
