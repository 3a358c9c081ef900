package trace

import "encoding/json"

// openEnvRecord is one line of OpenEnv collect's results.jsonl (facts: protocols 5).
type openEnvRecord struct {
	EpisodeID string   `json:"episode_id"`
	Reward    *float64 `json:"reward"`
	ToolTrace []struct {
		Tool      string          `json:"tool_name"`
		Arguments json.RawMessage `json:"arguments"`
		Result    *struct {
			Data  json.RawMessage `json:"data"`
			Error json.RawMessage `json:"error"`
		} `json:"result"`
	} `json:"tool_trace"`
	Task json.RawMessage `json:"task"`
}

func readOpenEnv(rec record, s *sink) {
	var r openEnvRecord
	if err := json.Unmarshal(rec.body, &r); err != nil {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	t := trajectory{id: r.EpisodeID, group: openEnvTask(r.Task), line: rec.line}
	if r.Reward != nil {
		success := *r.Reward > 0
		t.success = &success
	}
	for _, call := range r.ToolTrace {
		e := exchange{tool: call.Tool, arguments: call.Arguments}
		if call.Result != nil {
			failed := len(call.Result.Error) > 0 && string(call.Result.Error) != "null"
			e.answered, e.failed, e.answer = true, &failed, content(call.Result.Data)
			if failed {
				e.answer = content(call.Result.Error)
			}
		}
		t.call(e)
	}
	s.emit(t)
}

// openEnvTask is the task's name: a string, or the id of a task object.
func openEnvTask(raw json.RawMessage) string {
	var object struct {
		ID   json.RawMessage `json:"id"`
		Name string          `json:"name"`
	}
	if json.Unmarshal(raw, &object) == nil {
		if id := identifier(object.ID); id != "" {
			return id
		}
		return object.Name
	}
	return identifier(raw)
}
