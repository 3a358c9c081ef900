package trace

import (
	"encoding/json"
	"strings"
)

// apiBank reads an API-Bank dialogue: one turn a line, the whole file one
// dialogue. API turns hold the call and its answer together.
type apiBank struct {
	t trajectory
}

type apiBankTurn struct {
	Role    string          `json:"role"`
	APIName string          `json:"api_name"`
	Params  json.RawMessage `json:"param_dict"`
	Result  *struct {
		Name      string          `json:"api_name"`
		Input     json.RawMessage `json:"input"`
		Output    json.RawMessage `json:"output"`
		Exception json.RawMessage `json:"exception"`
	} `json:"result"`
}

func (a *apiBank) read(rec record, s *sink) {
	var turn apiBankTurn
	if err := json.Unmarshal(rec.body, &turn); err != nil {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	if !strings.EqualFold(turn.Role, "API") {
		return
	}
	e := exchange{tool: turn.APIName, arguments: turn.Params}
	if r := turn.Result; r != nil {
		failed := len(r.Exception) > 0 && string(r.Exception) != "null"
		e.answered, e.failed, e.answer = true, &failed, content(r.Output)
		if failed {
			e.answer = content(r.Exception)
		}
		if e.tool == "" {
			e.tool, e.arguments = r.Name, r.Input
		}
	}
	if a.t.line == 0 {
		a.t.line = rec.line
	}
	a.t.call(e)
}

func (a *apiBank) flush(s *sink) { s.emit(a.t) }
