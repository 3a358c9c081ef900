package synth

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"understudy/audit"
	"understudy/sandbox/pyclass"
	"understudy/sandbox/starlark"
)

//go:embed prelude.py
var pythonPrelude string

// The files that WritePython writes, in EnvScaler's format.
const (
	PythonMetadata  = "env_metadata.json"
	PythonScenarios = "scenario_metadata.json"
)

// pythonEnvironment is an item of EnvScaler's metadata file.
type pythonEnvironment struct {
	Summary      string       `json:"environment_summary"`
	Introduction string       `json:"environment_introduction"`
	State        []Category   `json:"state_space_definition"`
	Rules        []string     `json:"constraints_rules"`
	Operations   []Operation  `json:"operation_list"`
	Class        string       `json:"env_class_name"`
	Code         string       `json:"env_class_code"`
	Tools        []pythonTool `json:"tools"`
	Structure    struct {
		Methods map[string]pythonMethod `json:"methods"`
	} `json:"env_structure"`
}

type pythonTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

type pythonMethod struct {
	Reads  []string `json:"reads"`
	Writes []string `json:"writes"`
}

// pythonScenario is an item of EnvScaler's scenario file.
type pythonScenario struct {
	Environment string          `json:"env_id"`
	Class       string          `json:"env_class_name"`
	ID          string          `json:"task_id"`
	Config      json.RawMessage `json:"init_config"`
	Task        string          `json:"task"`
	Checks      []pythonCheck   `json:"checklist_with_func"`
}

type pythonCheck struct {
	Item string `json:"check_item"`
	Func string `json:"check_func"`
}

// WritePython writes the domains of a synthesis folder as EnvScaler's Python
// classes: the same functions over a prelude, since Starlark is Python's syntax.
// Each class is then mounted and called as the trial and the solutions did; one
// that answers otherwise than its sandbox is left out, and refused says why.
func WritePython(ctx context.Context, folder string) (written, refused []string, err error) {
	reports, err := filepath.Glob(filepath.Join(folder, "*", reportFile))
	if err != nil {
		return nil, nil, fmt.Errorf("list the domains of %s: %w", folder, err)
	}
	environments, scenarios := map[string]pythonEnvironment{}, []pythonScenario{}
	for _, report := range reports {
		name := filepath.Base(filepath.Dir(report))
		p := port{folder: folder, name: name}
		difference, err := p.try(ctx)
		if err != nil {
			return written, refused, fmt.Errorf("try %s in Python: %w", name, err)
		}
		if difference != "" {
			refused = append(refused, name+": "+difference)
			continue
		}
		environments[name] = p.environment
		scenarios = append(scenarios, p.scenarios...)
		written = append(written, name)
	}
	err = errors.Join(writeJSON(filepath.Join(folder, PythonMetadata), environments), writeJSON(filepath.Join(folder, PythonScenarios), scenarios))
	return written, refused, err
}

// port carries one domain over.
type port struct {
	folder, name string

	report      Environment
	sandbox     *starlark.ChildEnvironment
	tools       []audit.Tool
	tasks       []audit.Task
	environment pythonEnvironment
	scenarios   []pythonScenario
}

// try writes the domain in Python and says where it differs from its sandbox first.
func (p *port) try(ctx context.Context) (difference string, err error) {
	p.sandbox, err = starlark.NewChildEnvironment(ctx, os.DirFS(p.folder), p.name, starlark.ChildOptions{})
	if err != nil {
		return "", err
	}
	defer func() { _ = p.sandbox.Close() }()
	if err := p.read(ctx); err != nil {
		return "", err
	}
	return p.compare(ctx)
}

// read collects the domain's files and what its sandbox says of itself.
func (p *port) read(ctx context.Context) (err error) {
	files := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(p.folder, p.name, name)) }
	var plan Plan
	for name, into := range map[string]any{reportFile: &p.report, "plan.json": &plan} {
		text, err := files(name)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return fmt.Errorf("read %s of %s: %w", name, p.name, err)
		}
	}
	if p.tools, err = p.sandbox.Tools(ctx); err != nil {
		return err
	}
	if p.tasks, err = p.sandbox.Tasks(ctx, 0, 0); err != nil {
		return err
	}
	var code strings.Builder
	code.WriteString(pythonPrelude)
	sources := []string{"state.star", "rules.star"}
	for _, t := range p.tools {
		sources = append(sources, "tool_"+t.Name+".star")
	}
	for _, name := range sources {
		text, err := files(name)
		if err != nil {
			return fmt.Errorf("read %s of %s: %w", name, p.name, err)
		}
		code.WriteString("\n\n" + strings.TrimSpace(string(text)) + "\n")
	}
	class := className(p.name)
	p.environment = pythonEnvironment{
		Summary: plan.Summary, Introduction: plan.Summary, State: plan.State, Rules: plan.Rules, Operations: plan.Operations,
		Class: class, Code: code.String() + p.class(class, plan),
	}
	p.environment.Structure.Methods = map[string]pythonMethod{}
	for _, t := range p.tools {
		p.environment.add(t)
	}
	return p.readScenarios(ctx, files)
}

func (e *pythonEnvironment) add(t audit.Tool) {
	tool := pythonTool{Type: "function"}
	tool.Function.Name, tool.Function.Description, tool.Function.Parameters = t.Name, t.Description, t.Input
	e.Tools = append(e.Tools, tool)
	method := pythonMethod{Reads: []string{}, Writes: []string{}}
	if t.Effect == audit.Write {
		for _, c := range e.State {
			method.Writes = append(method.Writes, c.Name)
		}
	}
	e.Structure.Methods[t.Name] = method
}

// class is the text of the Python class: its methods are the domain's functions
// over the instance's attributes.
func (p *port) class(name string, plan Plan) string {
	var out strings.Builder
	fmt.Fprintf(&out, "\n\nclass %s:\n    %q\n\n    def __init__(self, init_config):\n        self.__dict__.update(_copy.deepcopy(init_config))\n", name, plan.Summary)
	for _, t := range p.tools {
		fmt.Fprintf(&out, "\n    def %s(self, **arguments):\n        return _answer(self, %s, {**_json.loads(%q), **arguments})\n", t.Name, t.Name, defaults(t.Input))
	}
	return out.String()
}

// defaults are the values of the parameters that a call may leave out.
func defaults(input json.RawMessage) string {
	var schema struct {
		Properties map[string]struct {
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(input, &schema) // our own schema
	values := map[string]json.RawMessage{}
	for name, property := range schema.Properties {
		if !slices.Contains(schema.Required, name) {
			values[name] = json.RawMessage("null")
			if property.Default != nil {
				values[name] = property.Default
			}
		}
	}
	text, _ := json.Marshal(values) // valid parts
	return string(text)
}

func className(name string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		if word != "" {
			out.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return "World" + out.String()
}

func (p *port) readScenarios(ctx context.Context, files func(string) ([]byte, error)) error {
	for _, task := range p.tasks {
		session, err := p.sandbox.Open(ctx, audit.Start{Task: task.ID})
		if err != nil {
			return err
		}
		config, err := session.(audit.Stater).State(ctx, "")
		if err = errors.Join(err, session.Close()); err != nil {
			return err
		}
		code, err := files("check_" + task.ID + ".star")
		if err != nil {
			return fmt.Errorf("read the checks of %s: %w", task.ID, err)
		}
		s := pythonScenario{Environment: p.name, Class: p.environment.Class, ID: task.ID, Config: config, Task: task.Prompt}
		for _, c := range task.Checks {
			s.Checks = append(s.Checks, pythonCheck{Item: c.Check, Func: pythonPrelude + "\n\n" + string(code) +
				"\n\ndef check_func(final_state):\n    return bool(" + c.Check + "(initial_state, final_state))\n"})
		}
		p.scenarios = append(p.scenarios, s)
	}
	return nil
}

// compare calls the class as its sandbox was called in the trial, and as each
// solution does, and says where the two differ first.
func (p *port) compare(ctx context.Context) (string, error) {
	session, err := p.sandbox.Open(ctx, audit.Start{})
	if err != nil {
		return "", err
	}
	config, err := session.(audit.Stater).State(ctx, "")
	if err = errors.Join(err, session.Close()); err != nil {
		return "", err
	}
	spec := pyclass.Spec{
		Name: p.name, Kind: pyclass.EnvScaler, Class: p.environment.Class, Source: p.environment.Code, Tools: p.tools, Config: config,
	}
	for _, s := range p.scenarios {
		scenario := pyclass.Scenario{ID: s.ID, Prompt: s.Task, Config: s.Config}
		for _, c := range s.Checks {
			scenario.Checks = append(scenario.Checks, c.Func)
		}
		spec.Tasks = append(spec.Tasks, scenario)
	}
	class, err := pyclass.New(ctx, spec)
	if err != nil {
		return err.Error(), nil // a class that cannot be mounted is the answer
	}
	defer func() { _ = class.Close() }()
	var trial []audit.Call
	for _, s := range p.report.Steps {
		if json.Valid([]byte(s.Arguments)) {
			trial = append(trial, audit.Call{Tool: s.Tool, Arguments: json.RawMessage(s.Arguments)})
		}
	}
	difference, err := p.compareCalls(ctx, class, "", trial)
	for i := 0; i < len(p.tasks) && err == nil && difference == ""; i++ {
		difference, err = p.compareCalls(ctx, class, p.tasks[i].ID, p.tasks[i].Solution)
	}
	return difference, err
}

// compareCalls makes the same calls on both and compares outcomes, answers and, at
// the end of a task, its checks.
func (p *port) compareCalls(ctx context.Context, class audit.Environment, task string, calls []audit.Call) (difference string, err error) {
	ours, err := p.sandbox.Open(ctx, audit.Start{Task: task})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, ours.Close()) }()
	theirs, err := class.Open(ctx, audit.Start{Task: task})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, theirs.Close()) }()
	for _, call := range calls {
		want, err := ours.Call(ctx, call)
		if err != nil {
			return "", err
		}
		got, err := theirs.Call(ctx, call)
		if err != nil {
			return "", err
		}
		if want.Status != got.Status || want.Status == audit.StatusOK && !sameAnswer(want.Raw, got.Raw) {
			return fmt.Sprintf("%s %s: the sandbox answers (%s) %s, the class (%s) %s",
				call.Tool, call.Arguments, want.Status, shorten(string(want.Raw), 300), got.Status, shorten(string(got.Raw), 300)), nil
		}
	}
	if task == "" {
		return "", nil
	}
	want, err := ours.(audit.Checker).Check(ctx, task)
	if err != nil {
		return "", err
	}
	got, err := theirs.(audit.Checker).Check(ctx, task)
	if err == nil && want.Passed != got.Passed {
		difference = fmt.Sprintf("task %s: %d checks pass in the sandbox, %d in Python", task, want.Passed, got.Passed)
	}
	return difference, err
}

// sameAnswer compares the sandbox's answer with the data of the class's.
func sameAnswer(ours, theirs []byte) bool {
	var a any
	var b struct {
		Data any `json:"data"`
	}
	return json.Unmarshal(ours, &a) == nil && json.Unmarshal(theirs, &b) == nil && reflect.DeepEqual(a, b.Data)
}
