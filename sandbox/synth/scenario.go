package synth

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

//go:embed prompts/scenario.md
var scenarioPrompt string

// Scenario is a task in a world, with a solution that was run and checks that were
// seen to fail before it and to pass after it.
type Scenario struct {
	ID       string          `json:"id"`
	Task     string          `json:"task"`
	State    json.RawMessage `json:"state,omitempty"` // nil = the domain's own
	Solution []audit.Call    `json:"solution"`
	Checks   []CheckCode     `json:"checks"`
}

// CheckCode is one check function over the initial and the final records.
type CheckCode struct {
	Name string `json:"name"`
	Code string `json:"code"`
}

// scenarioAnswer is a scenario as the author writes it: free JSON is in strings,
// since a strict schema cannot leave it open.
type scenarioAnswer struct {
	Task     string `json:"task"`
	State    string `json:"state"`
	Solution []struct {
		Tool      string `json:"tool"`
		Arguments string `json:"arguments"`
	} `json:"solution"`
	Checks []CheckCode `json:"checks"`
}

// checkCode is the file of the scenario's checks.
func (s Scenario) checkCode() string {
	var out strings.Builder
	for _, c := range s.Checks {
		fmt.Fprintf(&out, "%s\n\ncheck(%s)\n\n", strings.TrimSpace(c.Code), c.Name)
	}
	return out.String()
}

// tasksFile is the domain's tasks.json.
func tasksFile(scenarios []Scenario) ([]byte, error) {
	type call struct {
		Tool      string          `json:"tool"`
		Arguments json.RawMessage `json:"arguments"`
	}
	type named struct {
		Check string `json:"check"`
	}
	type task struct {
		ID       string          `json:"id"`
		Prompt   string          `json:"prompt"`
		State    json.RawMessage `json:"state,omitempty"`
		Solution []call          `json:"solution"`
		Checks   []named         `json:"checks"`
	}
	tasks := make([]task, len(scenarios))
	for i, s := range scenarios {
		tasks[i] = task{ID: s.ID, Prompt: s.Task, State: s.State, Solution: []call{}, Checks: []named{}}
		for _, c := range s.Solution {
			tasks[i].Solution = append(tasks[i].Solution, call{c.Tool, c.Arguments})
		}
		for _, c := range s.Checks {
			tasks[i].Checks = append(tasks[i].Checks, named{c.Name})
		}
	}
	text, err := json.MarshalIndent(tasks, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the tasks: %w", err)
	}
	return text, nil
}

// imagine asks for one more scenario of the draft and keeps it if it holds.
func imagine(ctx context.Context, a *author, d draft) (draft, error) {
	id := fmt.Sprintf("s%d", len(d.scenarios)+1)
	user, err := scenarioQuestion(ctx, d, id)
	if err != nil {
		return d, err
	}
	with := d
	_, err = ask(ctx, a, Prompt{System: scenarioPrompt, User: user, Schema: scenarioSchema(), Temperature: 0.9}, func(answer *scenarioAnswer) error {
		s, err := answer.scenario(id)
		if err != nil {
			return err
		}
		with = d
		with.scenarios = append(append([]Scenario(nil), d.scenarios...), s)
		return with.try(ctx, func(env *starlark.ChildEnvironment) error { return s.hold(ctx, env) })
	})
	if err != nil {
		return d, fmt.Errorf("scenario %s: %w", id, err)
	}
	return with, nil
}

func scenarioQuestion(ctx context.Context, d draft, id string) (string, error) {
	var user strings.Builder
	err := d.try(ctx, func(env *starlark.ChildEnvironment) error {
		session, err := env.Open(ctx, audit.Start{})
		if err != nil {
			return err
		}
		state, err := session.(audit.Stater).State(ctx, "")
		if err != nil {
			return err
		}
		tools, err := env.Tools(ctx)
		fmt.Fprintf(&user, "%s\n\nThe tools:\n", d.policy())
		for _, t := range tools {
			fmt.Fprintf(&user, "%s (%s): %s\n  %s\n", t.Name, t.Effect, t.Description, t.Input)
		}
		fmt.Fprintf(&user, "\nThe initial records:\n%s\n\nTasks that exist already:\n", shorten(string(state), shownState))
		return errors.Join(err, session.Close())
	})
	for _, s := range d.scenarios {
		fmt.Fprintf(&user, "- %s\n", s.Task)
	}
	fmt.Fprintf(&user, "\nWrite another one. The prefix of its checks is %s.", id)
	return user.String(), err
}

// scenario reads the author's answer.
func (a *scenarioAnswer) scenario(id string) (Scenario, error) {
	s := Scenario{ID: id, Task: strings.TrimSpace(a.Task), Checks: a.Checks}
	switch {
	case s.Task == "":
		return s, errors.New("the task is empty")
	case len(a.Solution) == 0:
		return s, errors.New("the solution is empty")
	case len(a.Checks) == 0:
		return s, errors.New("there are no checks")
	}
	if state := strings.TrimSpace(a.State); state != "" {
		if !json.Valid([]byte(state)) {
			return s, errors.New("the state is no JSON")
		}
		s.State = json.RawMessage(state)
	}
	for _, c := range a.Solution {
		if !json.Valid([]byte(c.Arguments)) {
			return s, fmt.Errorf("the arguments of %s are no JSON", c.Tool)
		}
		s.Solution = append(s.Solution, audit.Call{Tool: c.Tool, Arguments: json.RawMessage(c.Arguments)})
	}
	for _, c := range s.Checks {
		if !identifier().MatchString(c.Name) || !strings.HasPrefix(c.Name, id+"_") {
			return s, fmt.Errorf("check %q: its name begins with %s_", c.Name, id)
		}
	}
	return s, nil
}

// hold runs the scenario: every check fails at first, every call of the solution
// succeeds, and then every check passes.
func (s Scenario) hold(ctx context.Context, env audit.Environment) error {
	session, err := env.Open(ctx, audit.Start{Task: s.ID})
	if err != nil {
		return err
	}
	return errors.Join(s.run(ctx, session), session.Close())
}

func (s Scenario) run(ctx context.Context, session audit.Session) error {
	checker, ok := session.(audit.Checker)
	if !ok {
		return errors.New("the sandbox cannot check")
	}
	before, err := checker.Check(ctx, s.ID)
	if err != nil {
		return err
	}
	if before.Passed > 0 {
		return fmt.Errorf("%d of %d checks pass before anything is done; only %s fail", before.Passed, before.Checks, before.Failed)
	}
	for i, call := range s.Solution {
		seen, err := session.Call(ctx, call)
		if err != nil {
			return err
		}
		if seen.Status != audit.StatusOK {
			return fmt.Errorf("call %d of the solution, %s %s, is answered (%s) %s", i+1, call.Tool, call.Arguments, seen.Status, shorten(string(seen.Raw), 500))
		}
	}
	after, err := checker.Check(ctx, s.ID)
	if err == nil && !after.Success() {
		err = fmt.Errorf("after the solution these checks still fail: %s", after.Failed)
	}
	return err
}

func scenarioSchema() json.RawMessage {
	const text = `{"type":"string"}`
	object := func(required, properties string) string {
		return `{"type":"object","additionalProperties":false,"required":[` + required + `],"properties":{` + properties + `}}`
	}
	call := object(`"tool","arguments"`, `"tool":`+text+`,"arguments":`+text)
	check := object(`"name","code"`, `"name":`+text+`,"code":`+text)
	return json.RawMessage(object(`"task","state","solution","checks"`, `"task":`+text+`,"state":`+text+
		`,"solution":{"type":"array","items":`+call+`},"checks":{"type":"array","items":`+check+`}`))
}
