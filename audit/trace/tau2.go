package trace

import (
	"encoding/json"
	"strconv"
)

// tau2Results is tau2-bench's results.json; the directory format has one
// simulation a file (facts: protocols 5).
type tau2Results struct {
	Info struct {
		Environment struct {
			Domain string `json:"domain_name"`
		} `json:"environment_info"`
		Agent struct {
			Model string `json:"llm"`
		} `json:"agent_info"`
	} `json:"info"`
	Tasks []struct {
		ID           string          `json:"id"`
		InitialState json.RawMessage `json:"initial_state"`
	} `json:"tasks"`
	Simulations []tau2Simulation `json:"simulations"`
}

type tau2Simulation struct {
	ID          string          `json:"id"`
	TaskID      string          `json:"task_id"`
	Trial       json.RawMessage `json:"trial"`
	Termination string          `json:"termination_reason"`
	Messages    []message       `json:"messages"`
	Reward      *struct {
		Reward *float64 `json:"reward"`
	} `json:"reward_info"`
}

func readTau2(rec record, s *sink) {
	var results tau2Results
	if err := json.Unmarshal(rec.body, &results); err != nil {
		s.skip(reasonNotAnswers, 1, rec.line)
		return
	}
	if results.Simulations == nil {
		var one tau2Simulation
		if json.Unmarshal(rec.body, &one) == nil {
			results.Simulations = []tau2Simulation{one}
		}
	}
	own := map[string]bool{} // tasks that start from a state of their own
	for _, task := range results.Tasks {
		own[task.ID] = len(task.InitialState) > 0 && string(task.InitialState) != "null"
	}
	domain := results.Info.Environment.Domain
	for i, sim := range results.Simulations {
		t := sim.trajectory(s)
		t.policy, t.line = results.Info.Agent.Model, rec.line
		if domain != "" {
			t.environment = "tau2:" + domain
		}
		if own[sim.TaskID] {
			t.start.Task = sim.TaskID
		}
		if t.id == "" {
			t.id = strconv.Itoa(i)
		}
		s.emit(t)
	}
}

func (sim tau2Simulation) trajectory(s *sink) trajectory {
	t := trajectory{id: sim.ID, group: sim.TaskID}
	if t.id == "" && sim.TaskID != "" {
		t.id = rollout(sim.TaskID, identifier(sim.Trial))
	}
	if sim.Reward != nil && sim.Reward.Reward != nil {
		success := *sim.Reward.Reward >= 1
		t.success = &success
	}
	for _, m := range sim.Messages {
		t.message(m, s)
	}
	return t
}
