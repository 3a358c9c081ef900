package trace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// bfclRecord is one line of a BFCL result file (facts: protocols 5). Only the
// inference log holds what was executed; it is a list of turns, each an object
// of steps, each a list of messages.
type bfclRecord struct {
	ID  string            `json:"id"`
	Log []json.RawMessage `json:"inference_log"`
}

type bfclMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Decoded json.RawMessage `json:"model_response_decoded"`
}

func readBFCL(rec record, s *sink) {
	var r bfclRecord
	if err := json.Unmarshal(rec.body, &r); err != nil {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	t := trajectory{id: r.ID, group: r.ID, line: rec.line}
	for _, turn := range r.Log {
		var steps map[string]json.RawMessage
		if json.Unmarshal(turn, &steps) != nil {
			continue // state_info and other logs are lists
		}
		for _, name := range stepNames(steps) {
			var messages []bfclMessage
			if json.Unmarshal(steps[name], &messages) == nil {
				t.bfclStep(messages, s)
			}
		}
	}
	s.emit(t)
}

// stepNames sorts step_0 … step_10 by number.
func stepNames(steps map[string]json.RawMessage) []string {
	number := func(name string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(name, "step_"))
		if err != nil {
			return -1
		}
		return n
	}
	var names []string
	for name := range steps {
		if number(name) >= 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b)) })
	return names
}

func (t *trajectory) bfclStep(messages []bfclMessage, s *sink) {
	for _, m := range messages {
		switch m.Role {
		case "handler_log":
			t.bfclCalls(m.Decoded, s)
		case "tool":
			if !t.answer("", content(m.Content), nil) {
				s.skip(reasonNoCall, 1, t.line)
			}
		}
	}
}

// bfclCalls reads the decoded calls: Python call text, or {name: arguments}.
func (t *trajectory) bfclCalls(decoded json.RawMessage, s *sink) {
	var items []json.RawMessage
	if len(decoded) == 0 || json.Unmarshal(decoded, &items) != nil {
		return
	}
	for _, item := range items {
		if byName, ok := members(item); ok { // in the order of their answers
			for _, m := range byName {
				t.call(exchange{tool: m.name, arguments: m.value})
			}
			continue
		}
		calls, err := parseCalls(text(item))
		if err != nil {
			s.skip(reasonCallText, 1, t.line)
			continue
		}
		for _, c := range calls {
			t.call(exchange{tool: c.Name, arguments: c.Arguments})
		}
	}
}

type member struct {
	name  string
	value json.RawMessage
}

// members are those of a JSON object, in the order in which they are written; ok is
// false where the text is none.
func members(text json.RawMessage) (list []member, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, false
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, false
		}
		m := member{}
		if m.name, ok = name.(string); !ok || decoder.Decode(&m.value) != nil {
			return nil, false
		}
		list = append(list, m)
	}
	return list, true
}
