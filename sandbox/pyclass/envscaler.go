package pyclass

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"understudy/audit"
)

// metadataItem is one environment of an EnvScaler metadata file
// (facts: benchmarks 3). Only the fields that we read are named.
type metadataItem struct {
	Class  string `json:"env_class_name"`
	Source string `json:"env_class_code"`
	Tools  []struct {
		Function functionTool `json:"function"`
		functionTool
	} `json:"tools"`
	Structure struct {
		Methods map[string]struct {
			Writes []string `json:"writes"`
		} `json:"methods"`
	} `json:"env_structure"`
}

type functionTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type scenarioItem struct {
	EnvID  string          `json:"env_id"`
	TaskID json.RawMessage `json:"task_id"`
	Task   string          `json:"task"`
	Config json.RawMessage `json:"init_config"`
	Checks []struct {
		Func string `json:"check_func"`
	} `json:"checklist_with_func"`
}

// LoadEnvScaler reads one environment from EnvScaler's metadata and scenario
// files. scenarios may be "": then the environment has no tasks.
func LoadEnvScaler(metadata, scenarios, envID string) (Spec, error) {
	var items map[string]metadataItem
	if err := readJSON(metadata, &items); err != nil {
		return Spec{}, err
	}
	item, found := items[envID]
	if !found {
		names := make([]string, 0, len(items))
		for name := range items {
			names = append(names, name)
		}
		slices.Sort(names)
		return Spec{}, &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("environment %q is not in %s", envID, metadata),
			Hint: fmt.Sprintf("it holds %d, such as %v", len(names), names[:min(len(names), 5)]),
		}
	}
	spec := Spec{Name: envID, Kind: EnvScaler, Class: item.Class, Source: item.Source}
	for _, tool := range item.Tools {
		f := tool.Function
		if f.Name == "" {
			f = tool.functionTool
		}
		spec.Tools = append(spec.Tools, audit.Tool{
			Name: f.Name, Description: f.Description, Input: f.Parameters, Role: "assistant", Effect: item.effect(f.Name),
		})
	}
	if scenarios == "" {
		return spec, nil
	}
	return spec.withScenarios(scenarios, envID)
}

// effect is what the metadata says of a method: one that writes nothing reads.
func (m metadataItem) effect(method string) audit.Effect {
	structure, known := m.Structure.Methods[method]
	switch {
	case !known:
		return audit.UnknownEffect
	case len(structure.Writes) > 0:
		return audit.Write
	default:
		return audit.Read
	}
}

func (s Spec) withScenarios(path, envID string) (Spec, error) {
	var items []scenarioItem
	if err := readJSON(path, &items); err != nil {
		return Spec{}, err
	}
	for _, item := range items {
		if item.EnvID != envID {
			continue
		}
		scenario := Scenario{ID: string(trimQuotes(item.TaskID)), Prompt: item.Task, Config: item.Config}
		for _, check := range item.Checks {
			scenario.Checks = append(scenario.Checks, check.Func)
		}
		s.Tasks = append(s.Tasks, scenario)
	}
	if len(s.Tasks) > 0 {
		s.Config = s.Tasks[0].Config
	}
	return s, nil
}

func trimQuotes(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return json.RawMessage(text)
	}
	return raw
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: "EnvScaler file " + path,
			Hint: "give the metadata and scenario JSON files that EnvScaler publishes", Err: err,
		}
	}
	return nil
}
