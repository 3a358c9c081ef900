package tau2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"understudy/audit"
	engine "understudy/sandbox/starlark"
)

// sourceTask is the part of a tau2-bench task that has a meaning here.
type sourceTask struct {
	ID           string          `json:"id"`
	Ticket       string          `json:"ticket"`
	UserScenario json.RawMessage `json:"user_scenario"`
	InitialState *struct {
		Actions []sourceCall `json:"initialization_actions"`
	} `json:"initial_state"`
	Criteria struct {
		Actions    []sourceCall `json:"actions"`
		Assertions []sourceCall `json:"env_assertions"`
		Basis      []string     `json:"reward_basis"`
	} `json:"evaluation_criteria"`
}

// sourceCall is an action, an initialization call or an assertion.
type sourceCall struct {
	Name      string          `json:"name"`
	Function  string          `json:"func_name"`
	Requestor string          `json:"requestor"`
	Env       string          `json:"env_type"`
	Arguments json.RawMessage `json:"arguments"`
	Expected  *bool           `json:"assert_value"`
}

// readTasks reads the task files that are there; a domain may have none.
func readTasks(data fs.FS, name string) ([]sourceTask, error) {
	for _, file := range []string{"tasks.json", "tasks_small.json"} {
		text, err := fs.ReadFile(data, path.Join(name, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s/%s: %w", name, file, err)
		}
		var tasks []sourceTask
		if err := json.Unmarshal(text, &tasks); err != nil {
			return nil, fmt.Errorf("read %s/%s: %w", name, file, err)
		}
		return tasks, nil
	}
	return nil, nil
}

// convertTasks writes tasks.json. What a task's database must look like in the end
// is what its reference actions change, found by running them.
func convertTasks(ctx context.Context, d *engine.Domain, sources []sourceTask) ([]byte, error) {
	env := engine.NewEnvironment(d)
	defer env.Close()
	roles := map[string]string{}
	for _, t := range d.Tools() {
		roles[t.Name] = t.Role
	}
	tasks := make([]map[string]any, len(sources))
	for i, s := range sources {
		t, err := s.convert(ctx, env, roles)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", s.ID, err)
		}
		tasks[i] = t
	}
	text, err := json.Marshal(tasks)
	if err != nil {
		return nil, fmt.Errorf("write tasks: %w", err)
	}
	return text, nil
}

func (s sourceTask) convert(ctx context.Context, env audit.Environment, roles map[string]string) (map[string]any, error) {
	setup, solution := []audit.Call{}, []audit.Call{}
	if s.InitialState != nil {
		for _, a := range s.InitialState.Actions {
			setup = append(setup, a.prepare(roles))
		}
	}
	for _, a := range s.Criteria.Actions {
		role := a.Requestor
		if role == "" {
			role = "assistant"
		}
		solution = append(solution, audit.Call{Tool: a.Name, Arguments: a.Arguments, Role: role})
	}
	checks := []map[string]any{}
	for _, a := range s.Criteria.Assertions {
		if a.Expected != nil && !*a.Expected { // left out, it would make the task easier than it is
			return nil, fmt.Errorf("assertion %s: assert_value false is not understood", a.Function)
		}
		checks = append(checks, map[string]any{"check": a.Function, "params": a.Arguments})
	}
	if slices.Contains(s.Criteria.Basis, "DB") {
		expected, err := changes(ctx, env, setup, solution)
		if err != nil {
			return nil, err
		}
		checks = append(checks, map[string]any{"check": "state_changes", "params": map[string]any{"expected": expected}})
	}
	return map[string]any{
		"id": strings.ReplaceAll(s.ID, "~", "-"), "prompt": s.prompt(), "user": s.UserScenario,
		"setup": setup, "solution": solution, "checks": checks,
	}, nil
}

// prepare is an initialization call: of a tool where it is one, else of a
// function that only tasks may use.
func (c sourceCall) prepare(roles map[string]string) audit.Call {
	role := roles[c.Function]
	if role == "" {
		role = "setup"
	}
	return audit.Call{Tool: c.Function, Arguments: c.Arguments, Role: role}
}

// prompt is what the user wants, as far as the task says it in words.
func (s sourceTask) prompt() string {
	var scenario struct {
		Instructions json.RawMessage `json:"instructions"`
	}
	var parts struct {
		Reason string `json:"reason_for_call"`
		Known  string `json:"known_info"`
		Task   string `json:"task_instructions"`
	}
	if json.Unmarshal(s.UserScenario, &scenario) != nil || json.Unmarshal(scenario.Instructions, &parts) != nil {
		return s.Ticket
	}
	return strings.TrimSpace(strings.Join([]string{parts.Reason, parts.Known, parts.Task}, "\n\n"))
}

// changes runs the reference actions and returns every cell that they change.
func changes(ctx context.Context, env audit.Environment, setup, solution []audit.Call) (json.RawMessage, error) {
	session, err := env.Open(ctx, audit.Start{})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	if err := play(ctx, session, setup); err != nil {
		return nil, err
	}
	initial, err := session.(audit.Forker).Fork(ctx)
	if err != nil {
		return nil, err
	}
	defer initial.Close()
	if err := play(ctx, session, solution); err != nil {
		return nil, err
	}
	patch, err := engine.Changes(initial, session)
	if err != nil {
		return nil, err
	}
	return json.Marshal(patch)
}

// play makes calls that may be refused, as some of the reference's are, but not break.
func play(ctx context.Context, session audit.Session, calls []audit.Call) error {
	for _, call := range calls {
		obs, err := session.Call(ctx, call)
		if err != nil {
			return err
		}
		if obs.Status == audit.StatusFault || obs.Status == audit.StatusUnknown {
			return fmt.Errorf("%s %s: %s %s", call.Tool, call.Arguments, obs.Status, obs.Raw)
		}
	}
	return nil
}
