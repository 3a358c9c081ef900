package trace

import "encoding/json"

// toolACERecord is one ToolACE dialogue: calls in Python-like text, tool turns
// as a JSON list of {name, results}.
type toolACERecord struct {
	ID            json.RawMessage `json:"id"`
	Conversations []struct {
		From  string `json:"from"`
		Value string `json:"value"`
	} `json:"conversations"`
}

func readToolACE(rec record, s *sink) {
	var r toolACERecord
	if err := json.Unmarshal(rec.body, &r); err != nil {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	t := trajectory{id: identifier(r.ID), line: rec.line}
	for _, turn := range r.Conversations {
		switch turn.From {
		case "assistant", "gpt", "function_call":
			if !t.callText([]byte(turn.Value)) {
				t.taggedCalls([]byte(turn.Value), s)
			}
		case "tool", "observation", "function_response":
			t.toolACEAnswers(turn.Value, s)
		}
	}
	s.emit(t)
}

func (t *trajectory) toolACEAnswers(value string, s *sink) {
	var named []struct {
		Name    string          `json:"name"`
		Results json.RawMessage `json:"results"`
	}
	if json.Unmarshal([]byte(value), &named) != nil || len(named) == 0 || named[0].Results == nil {
		if !t.answer("", []byte(value), nil) {
			s.skip(reasonNoCall, 1, t.line)
		}
		return
	}
	for _, n := range named {
		if !t.answer("", content(n.Results), nil) {
			s.skip(reasonNoCall, 1, t.line)
		}
	}
}
