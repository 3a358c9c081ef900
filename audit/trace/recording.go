package trace

import (
	"encoding/json"
	"strings"
)

// recording reads tool calls that were executed on a real toolkit, one a line,
// the calls of an episode in order (the shape of our own conformance data).
type recording struct {
	t trajectory
}

type recordedCall struct {
	Episode   string          `json:"episode"`
	Step      int             `json:"step"`
	Role      string          `json:"role"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Error     *bool           `json:"error"`
	Content   json.RawMessage `json:"content"`
}

func (r *recording) read(rec record, s *sink) {
	var call recordedCall
	if err := json.Unmarshal(rec.body, &call); err != nil || call.Episode == "" {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	if call.Episode != r.t.id {
		r.flush(s)
		r.t = trajectory{id: call.Episode, line: rec.line, environment: recordedDomain(call.Episode), stepped: true}
	}
	r.t.call(exchange{
		step: call.Step, role: call.Role, tool: call.Tool, arguments: call.Arguments,
		answer: content(call.Content), answered: true, failed: call.Error,
	})
}

func (r *recording) flush(s *sink) {
	if r.t.id != "" {
		s.emit(r.t)
	}
}

// recordedDomain reads the domain off an episode's name (retail-walk-0).
func recordedDomain(episode string) string {
	domain, _, _ := strings.Cut(episode, "-")
	return "tau2:" + domain
}
