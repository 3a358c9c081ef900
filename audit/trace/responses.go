package trace

import (
	"cmp"
	"encoding/json"
	"strings"
)

// responsesRecord is an OpenAI Responses rollout as NeMo Gym writes it, one a
// line (facts: protocols 5): the request, the response's output items, and the
// task and rollout indices that name the prompt group.
type responsesRecord struct {
	Request struct {
		Input json.RawMessage `json:"input"`
		Model string          `json:"model"`
	} `json:"responses_create_params"`
	Response struct {
		ID     string          `json:"id"`
		Model  string          `json:"model"`
		Output []responsesItem `json:"output"`
	} `json:"response"`
	Output       []responsesItem `json:"output"` // a bare Responses object
	ID           string          `json:"id"`
	Model        string          `json:"model"`
	Reward       *float64        `json:"reward"`
	TaskIndex    json.RawMessage `json:"_ng_task_index"`
	RolloutIndex json.RawMessage `json:"_ng_rollout_index"`
	FailureClass string          `json:"_ng_failure_class"`
}

type responsesItem struct {
	Type      string          `json:"type"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	CallID    string          `json:"call_id"`
	Output    json.RawMessage `json:"output"`
	Status    string          `json:"status"`
	LogProbs  []float32       `json:"generation_log_probs"`
	Tokens    []int32         `json:"generation_token_ids"`
}

func readResponses(rec record, s *sink) {
	var r responsesRecord
	if err := json.Unmarshal(rec.body, &r); err != nil {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	if r.FailureClass != "" {
		s.skip("rollout failed: "+r.FailureClass, 1, rec.line)
		return
	}
	items := r.Response.Output
	if items == nil {
		items = r.Output
	}
	group := identifier(r.TaskIndex)
	t := trajectory{
		id: cmp.Or(r.Response.ID, r.ID), group: group, wireAPI: "responses", line: rec.line,
		policy: cmp.Or(r.Response.Model, r.Model, r.Request.Model),
	}
	if group != "" {
		t.id = rollout(group, cmp.Or(identifier(r.RolloutIndex), "0"))
	}
	if r.Reward != nil {
		success := *r.Reward > 0
		t.success = &success
	}
	for _, item := range items {
		t.item(item, s)
	}
	s.emit(t)
}

func (t *trajectory) item(item responsesItem, s *sink) {
	switch item.Type {
	case "function_call":
		name := item.Name
		if rest, ok := strings.CutPrefix(name, "mcp__"); ok { // mcp__<server>__<tool>
			if _, tool, ok := strings.Cut(rest, "__"); ok {
				name = tool
			}
		}
		t.call(exchange{id: item.CallID, tool: name, arguments: item.Arguments, tokens: item.Tokens, logProbs: item.LogProbs})
	case "function_call_output":
		var failed *bool
		if item.Status == "failed" {
			failed = new(true)
		}
		if !t.answer(item.CallID, content(item.Output), failed) {
			s.skip(reasonNoCall, 1, t.line)
		}
	}
}
