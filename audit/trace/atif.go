package trace

import (
	"cmp"
	"encoding/json"
)

// atifTrajectory is Harbor's agent trajectory interchange format, v1.0 to v1.7
// (facts: protocols 5). It has no error flag.
type atifTrajectory struct {
	SchemaVersion string     `json:"schema_version"`
	SessionID     string     `json:"session_id"`
	TrajectoryID  string     `json:"trajectory_id,omitempty"`
	Agent         atifAgent  `json:"agent"`
	Steps         []atifStep `json:"steps"`
	Extra         any        `json:"extra,omitempty"`
}

type atifAgent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Model   string `json:"model_name,omitempty"`
}

type atifStep struct {
	ID          int              `json:"step_id"`
	Source      string           `json:"source"`
	Message     json.RawMessage  `json:"message,omitempty"`
	ToolCalls   []atifCall       `json:"tool_calls,omitempty"`
	Observation *atifObservation `json:"observation,omitempty"`
	Extra       any              `json:"extra,omitempty"`
}

type atifCall struct {
	ID        string          `json:"tool_call_id"`
	Function  string          `json:"function_name"`
	Arguments json.RawMessage `json:"arguments"`
}

type atifObservation struct {
	Results []atifResult `json:"results"`
}

type atifResult struct {
	CallID  string          `json:"source_call_id,omitempty"`
	Content json.RawMessage `json:"content,omitempty"`
}

func readATIF(rec record, s *sink) {
	var a atifTrajectory
	if err := json.Unmarshal(rec.body, &a); err != nil {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	t := trajectory{
		id: cmp.Or(a.TrajectoryID, a.SessionID), group: a.SessionID, line: rec.line,
		policy: cmp.Or(a.Agent.Model, a.Agent.Name),
	}
	for _, step := range a.Steps {
		for _, c := range step.ToolCalls {
			t.call(exchange{id: c.ID, tool: c.Function, arguments: c.Arguments, role: atifRole(step.Source)})
		}
		if step.Observation == nil {
			continue
		}
		for _, result := range step.Observation.Results {
			if len(result.Content) == 0 {
				s.skip("observation without content (sub-agent)", 1, rec.line)
				continue
			}
			if !t.answer(result.CallID, content(result.Content), nil) {
				s.skip(reasonNoCall, 1, rec.line)
			}
		}
	}
	s.emit(t)
}

func atifRole(source string) string {
	if source == "user" {
		return "user"
	}
	return "assistant"
}
