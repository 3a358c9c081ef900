package mount

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"understudy/audit"
	"understudy/sandbox/adapter"
	"understudy/sandbox/mcp"
	"understudy/sandbox/openapi"
	"understudy/sandbox/openenv"
	"understudy/sandbox/pyclass"
)

// Lookup finds an environment variable, as os.LookupEnv does.
type Lookup func(name string) (string, bool)

// Open opens an environment. Texts of the declaration that came from variables
// are in no error.
func (f *File) Open(ctx context.Context, name string, lookup Lookup) (audit.Environment, error) {
	e, ok := f.entries[name]
	if !ok {
		return nil, &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("no environment %q is declared", name),
			Hint: "the file declares " + strings.Join(f.Names(), ", "),
		}
	}
	x := &expander{lookup: lookup}
	e = x.entry(e)
	if x.err() != nil {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("environment %s (line %d)", name, e.line),
			Hint: "set the variable in the environment of this program", Err: x.err(),
		}
	}
	env, err := f.mount(ctx, name, e, x.hide)
	if err != nil {
		return nil, x.redact(err)
	}
	return env, nil
}

func (f *File) mount(ctx context.Context, name string, e entry, hide func(string) string) (audit.Environment, error) {
	if e.Adapter == "python-class" {
		return f.class(ctx, name, e)
	}
	config := e.config(name)
	config.Hide = hide
	elsewhere := "none of ours: the server runs elsewhere; what it may do is its operator's to limit"
	switch e.Adapter {
	case "mcp-stdio":
		config.Jail = "WEAKER THAN ASKED: a program of yours that runs as this user, with its network and files; " +
			"it sees PATH, HOME, LANG, TMPDIR and the declared variables, and ends with its episode"
		return mcp.New(ctx, mcp.Spec{Command: f.command(e.Command), Dir: f.path(cmp.Or(e.Dir, ".")), Env: e.Env}, config)
	case "mcp-http":
		config.Jail = elsewhere
		return mcp.New(ctx, mcp.Spec{URL: e.URL, Headers: e.Headers, SessionHeader: e.SessionHeader}, config)
	case "openenv-ws":
		config.Jail = elsewhere
		return openenv.New(ctx, openenv.Spec{URL: e.URL, Headers: e.Headers, Reset: e.Reset}, config)
	case "nemo-gym":
		config.Jail = elsewhere
		return openapi.New(ctx, nemoGym(e), config)
	case "openapi-http":
		config.Jail = elsewhere
		spec := e.backend()
		if !strings.Contains(spec.Document, "://") {
			spec.Document = f.path(spec.Document)
		}
		return openapi.New(ctx, spec, config)
	}
	return nil, &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("environment %s: there is no adapter %s", name, e.Adapter), Hint: "understudy sandbox schema lists them"}
}

// path is a relative path of the file, from where the file is.
func (f *File) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(f.dir, path)
}

// command finds a program that is named by a relative path with a slash.
func (f *File) command(argv []string) []string {
	argv = slices.Clone(argv)
	if strings.Contains(argv[0], "/") {
		argv[0] = f.path(argv[0])
	}
	return argv
}

// config is what is declared, whatever the adapter.
func (e entry) config(name string) adapter.Config {
	source, err := json.Marshal(e.identity())
	if err != nil {
		source = nil // what was read from JSON always encodes
	}
	c := adapter.Config{
		Name: name, Version: e.Version, Kind: e.Adapter, Deterministic: e.Deterministic, Policy: e.Policy, Clock: e.Clock,
		Only: e.Only, Timeout: duration(e.Timeout), OpenTimeout: duration(e.OpenTimeout), Source: source,
		Tools: map[string]adapter.ToolConfig{},
	}
	for _, tool := range slices.Sorted(maps.Keys(e.Tools)) {
		t := e.Tools[tool]
		c.Tools[tool] = adapter.ToolConfig{Effect: t.Effect, Role: t.Role, Description: t.Description, Errors: t.Errors, Input: t.Input}
		if len(t.Input) > 0 {
			c.Declared = append(c.Declared, audit.Tool{Name: tool, Input: t.Input})
		}
	}
	for _, p := range e.Probes {
		c.Probes = append(c.Probes, p.probe())
	}
	for _, t := range e.Tasks {
		task := adapter.Task{ID: t.ID, Prompt: t.Prompt, Seeding: t.Seeding, Setup: t.Setup, Solution: t.Solution}
		for _, check := range t.Checks {
			task.Checks = append(task.Checks, adapter.Check(check))
		}
		c.Tasks = append(c.Tasks, task)
	}
	return c
}

// identity is what of a declaration makes the environment another one: neither
// where it runs nor how long it may take, nor any secret.
func (e entry) identity() map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, key := range []string{"adapter", "command", "document", "reset", "kind", "class", "classes", "config", "outcomes", "only", "clock"} {
		if raw, ok := e.given[key]; ok {
			out[key] = raw
		}
	}
	return out
}

func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0 // nothing was said: the schema has seen to the rest
	}
	return d
}

// probe writes args_from out.
func (p probeEntry) probe() adapter.Probe {
	arguments := maps.Clone(p.Arguments)
	for _, from := range p.From {
		steps := strings.Split(from.Path, ".")
		if arguments == nil {
			arguments = map[string]json.RawMessage{}
		}
		path, err := json.Marshal(from.Path)
		if err == nil {
			arguments[cmp.Or(from.As, steps[len(steps)-1])] = path
		}
	}
	out := adapter.Probe{Call: p.Call, On: p.On, At: p.At, State: p.State}
	if len(arguments) > 0 {
		text, err := json.Marshal(arguments)
		if err == nil {
			out.Arguments = text
		}
	}
	return out
}

func (e entry) backend() openapi.Spec {
	s := openapi.Spec{
		Document: e.Document, URL: e.URL, Headers: e.Headers, LastSegment: e.ToolNames == "last_segment",
		SessionHeader: e.SessionHeader, SeedPath: e.SeedPath, SeedSession: e.SeedSession, EndPath: e.EndPath,
		Exclude: slices.Clone(e.Exclude), Outcomes: map[string]openapi.Outcome{},
	}
	for _, path := range []string{e.SeedPath, e.EndPath} {
		if path != "" {
			s.Exclude = append(s.Exclude, path)
		}
	}
	for status, text := range e.Outcomes {
		what, family, _ := strings.Cut(text, "/")
		s.Outcomes[status] = openapi.Outcome{Status: audit.Status(what), Family: audit.Family(family)}
	}
	return s
}

// nemoGym is a resources server: POST /seed_session starts an episode and sets
// its cookie, POST /TOOL calls, the rest is the trainer's.
func nemoGym(e entry) openapi.Spec {
	s := e.backend()
	s.LastSegment = true
	s.SeedPath = cmp.Or(s.SeedPath, "/seed_session")
	if s.Document == "" && len(e.Tools) == 0 {
		s.Document = strings.TrimSuffix(e.URL, "/") + "/openapi.json"
	}
	s.Exclude = append(s.Exclude, s.SeedPath, "/verify", "/aggregate_metrics", "/reset", "/step", "/run", "/health", "/mcp")
	return s
}

// class is a Python class, EnvScaler's or one that is declared in full.
func (f *File) class(ctx context.Context, name string, e entry) (audit.Environment, error) {
	spec := pyclass.Spec{Kind: pyclass.Kind(e.Kind), Class: e.Class, Config: e.Config}
	if e.File != "" {
		spec.File = f.path(e.File)
	}
	for _, c := range e.Classes {
		spec.Classes = append(spec.Classes, pyclass.Class{Name: c.Class, File: f.path(c.File), Tools: c.Tools})
	}
	if e.Metadata != "" {
		scenario := e.Scenario
		if scenario != "" {
			scenario = f.path(scenario)
		}
		var err error
		if spec, err = pyclass.LoadEnvScaler(f.path(e.Metadata), scenario, e.EnvID); err != nil {
			return nil, err
		}
	}
	spec.Name, spec.Version, spec.Clock = name, e.Version, e.Clock
	spec.Python, spec.Memory, spec.Timeout = e.Python, e.Memory, duration(e.Timeout)
	for _, path := range e.Path {
		spec.Path = append(spec.Path, f.path(path))
	}
	for _, tool := range slices.Sorted(maps.Keys(e.Tools)) {
		spec.Tools = declare(spec.Tools, tool, e.Tools[tool])
	}
	for _, t := range e.Tasks {
		spec.Tasks = append(spec.Tasks, pyclass.Scenario{
			ID: t.ID, Prompt: t.Prompt, Config: orElse(t.Seeding, spec.Config), Checks: t.Functions, Solution: t.Solution,
		})
	}
	return pyclass.New(ctx, spec)
}

func orElse(a, b json.RawMessage) json.RawMessage {
	if len(a) > 0 {
		return a
	}
	return b
}

// declare adds a tool, or corrects what is known of it.
func declare(tools []audit.Tool, name string, t toolEntry) []audit.Tool {
	at := slices.IndexFunc(tools, func(known audit.Tool) bool { return known.Name == name })
	if at < 0 {
		tools = append(tools, audit.Tool{Name: name, Role: "assistant", Effect: audit.UnknownEffect})
		at = len(tools) - 1
	}
	known := &tools[at]
	known.Effect, known.Role = cmp.Or(t.Effect, known.Effect), cmp.Or(t.Role, known.Role)
	known.Description = cmp.Or(t.Description, known.Description)
	if len(t.Input) > 0 {
		known.Input = t.Input
	}
	if t.Errors != nil {
		known.Errors = t.Errors
	}
	return tools
}
