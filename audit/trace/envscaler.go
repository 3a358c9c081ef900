package trace

import (
	"encoding/json"
)

// envScalerResult is EnvScaler's result JSON (facts: protocols 5, 3.6): one
// action a step with an OpenAI-like tool call, the observation a Python repr.
type envScalerResult struct {
	TaskInfo struct {
		TaskID json.RawMessage `json:"task_id"`
		EnvID  json.RawMessage `json:"env_id"`
	} `json:"task_info"`
	Model      string          `json:"model"`
	Trajectory []envScalerStep `json:"trajectory"`
	Reward     *float64        `json:"total_reward"`
}

type envScalerStep struct {
	Action      json.RawMessage `json:"action"`
	Observation json.RawMessage `json:"observation"`
}

func readEnvScaler(rec record, s *sink) {
	var r envScalerResult
	if err := json.Unmarshal(rec.body, &r); err != nil {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	t := trajectory{
		group: identifier(r.TaskInfo.TaskID), environment: identifier(r.TaskInfo.EnvID), policy: r.Model, line: rec.line,
	}
	if t.group != "" {
		t.id = rollout(t.group, rec.line)
	}
	if r.Reward != nil {
		success := *r.Reward >= 1
		t.success = &success
	}
	for _, step := range r.Trajectory {
		t.envScalerStep(step, s)
	}
	s.emit(t)
}

// envScalerStep uses the first call of an action only, because EnvScaler
// executes no other.
func (t *trajectory) envScalerStep(step envScalerStep, s *sink) {
	var action struct {
		ToolCalls []toolCall      `json:"tool_calls"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	before := len(t.exchanges)
	switch raw := step.Action; {
	case len(raw) > 0 && raw[0] == '"':
		t.taggedCalls([]byte(text(raw)), s)
	case json.Unmarshal(raw, &action) == nil && len(action.ToolCalls) > 0:
		for _, c := range action.ToolCalls {
			t.call(c.exchange(message{}))
		}
	case action.Name != "":
		t.call(exchange{tool: action.Name, arguments: action.Arguments})
	}
	if len(t.exchanges) == before {
		return // a message to the user
	}
	if extra := len(t.exchanges) - before - 1; extra > 0 {
		s.skip("further calls of one message, which EnvScaler does not execute", extra, t.line)
		t.exchanges = t.exchanges[:before+1]
	}
	var observation struct {
		Content json.RawMessage `json:"content"`
	}
	raw := step.Observation
	if json.Unmarshal(raw, &observation) == nil && observation.Content != nil {
		raw = observation.Content
	}
	e := &t.exchanges[before]
	e.answer, e.answered = content(raw), len(raw) > 0
	t.answeredLast = true
}
