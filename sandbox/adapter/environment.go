package adapter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"understudy/audit"
)

// Server speaks one protocol to somebody else's environment. Only what differs
// between protocols is behind it; validation, time-outs, limits, probes, tasks
// and evidence are Environment's.
type Server interface {
	// Tools lists what the server offers, as it declares it.
	Tools(ctx context.Context) ([]audit.Tool, error)
	// Begin starts an isolated episode.
	Begin(ctx context.Context, start Begin) (Episode, error)
	// Close releases what the server holds; episodes end.
	Close() error
}

// Episode is one isolated run of the environment. Calls come one after the
// other. Beyond Call and Close an episode may implement audit.Stater,
// audit.Snapshotter, audit.Checker, Forker, Lister and Viewer; those that its
// server really offers are in Server's Capabilities.
type Episode interface {
	// Call makes one call with validated arguments. The error says that no answer
	// came: the call may have happened, and the episode is lost.
	Call(ctx context.Context, tool string, arguments json.RawMessage) (Reply, error)
	Close() error
}

// The optional abilities of a Server and of an Episode.
type (
	// Capable names the capabilities that the server's episodes have.
	Capable interface{ Capabilities() []audit.Capability }
	// Tasker lists the tasks that the server itself has.
	Tasker interface {
		Tasks(ctx context.Context, seed uint64, n int) ([]audit.Task, error)
	}
	// Noter says in words what was found on the way: a declaration that is not kept.
	Noter interface{ Notes() []string }
	// Forker opens another episode in the same state.
	Forker interface {
		Fork(ctx context.Context) (Episode, error)
	}
	// Lister lists the tools that this episode has, which may have changed.
	Lister interface {
		Tools(ctx context.Context) ([]audit.Tool, error)
	}
	// Viewer shows what the protocol itself exports of the state.
	Viewer interface {
		View(ctx context.Context) (json.RawMessage, error)
	}
)

// Begin says how an episode starts on the server.
type Begin struct {
	audit.Start

	Seeding json.RawMessage // what the task's declaration hands to the server's own reset
}

// Reply is what a server answered to a call.
type Reply struct {
	Status audit.Status
	Raw    []byte // the bytes that an agent would see
	Error  *audit.CallError
	Effect *Effect // what the server itself knows of the change; nil = nothing

	Unmoved bool // a fault that is known to have done nothing
}

// silence says why a reply shows nothing of the world; nil = it does, be it by a
// refusal.
func (r Reply) silence() error {
	switch r.Status {
	case audit.StatusOK, audit.StatusRefused, audit.StatusInvalid:
		return nil
	case audit.StatusFault, audit.StatusUnknown:
	}
	if r.Error != nil && r.Error.Message != "" {
		return errors.New(r.Error.Message)
	}
	return errors.New("the server gave the status " + string(r.Status))
}

// Config is what a declaration says of a foreign environment, whatever its
// protocol. The zero value of a field is its default.
type Config struct {
	Name          string
	Version       string // "1"
	Kind          string // of adapter, for people and for the digest
	Deterministic bool   // no clock, ids or randomness outside of the episode
	Policy        string
	Clock         time.Time
	Tools         map[string]ToolConfig // by tool name; others are as the server declares them
	Only          []string              // tools to offer; nil = all
	Declared      []audit.Tool          // tools that the server has and does not list
	Probes        []Probe
	Tasks         []Task
	Timeout       time.Duration            // of one call; 30 s
	OpenTimeout   time.Duration            // of the start of an episode; 30 s
	Source        []byte                   // of the declaration, for the digest
	Hide          func(text string) string // takes secrets out of messages; nil = there are none
	Jail          string                   // what the environment's code is kept from, in words for people
}

// ToolConfig corrects what a server says of a tool.
type ToolConfig struct {
	Effect      audit.Effect
	Role        string
	Description string
	Errors      []audit.Family
	Input       json.RawMessage // JSON Schema of the arguments; the server's own otherwise
}

func (c Config) withDefaults() Config {
	c.Version = cmp.Or(c.Version, "1")
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.OpenTimeout = cmp.Or(c.OpenTimeout, 30*time.Second)
	if c.Hide == nil {
		c.Hide = func(text string) string { return text }
	}
	return c
}

// Environment is a foreign environment behind a Server. It is safe for
// concurrent use.
type Environment struct {
	config    Config
	server    Server
	tools     []audit.Tool
	effects   map[string]audit.Effect
	arguments *Arguments
	rules     *audit.Rules
	info      audit.EnvironmentInfo

	mu     sync.Mutex
	closed bool
	notes  []string // of the declaration
}

var (
	_ audit.Environment = (*Environment)(nil)
	_ audit.Tasker      = (*Environment)(nil)
)

// New asks the server for its tools and checks the declaration against them.
// The environment owns the server from here on, also when New fails.
func New(ctx context.Context, server Server, config Config) (*Environment, error) {
	e := &Environment{config: config.withDefaults(), server: server}
	if err := e.connect(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return e, nil
}

func (e *Environment) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.config.OpenTimeout)
	defer cancel()
	offered, err := e.server.Tools(ctx)
	if err != nil {
		return e.unavailable("list the tools of", err)
	}
	if e.rules, err = audit.NewRules(audit.RulesSpec{}, nil, nil); err != nil {
		return err
	}
	if err := e.declare(offered); err != nil {
		return err
	}
	if e.arguments, err = NewArguments(e.tools); err != nil {
		return err
	}
	if err := errors.Join(e.config.validate(e.effects)...); err != nil {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: "environment " + e.config.Name,
			Hint: "correct its declaration; understudy sandbox tools " + e.config.Name + " lists what the server offers", Err: err,
		}
	}
	declared, err := json.Marshal([]any{e.tools, e.config.Tasks, e.config.Probes})
	if err != nil {
		return fmt.Errorf("encode the declaration of %s: %w", e.config.Name, err)
	}
	e.info = audit.EnvironmentInfo{
		Name: e.config.Name, Version: e.config.Version, Policy: e.config.Policy, Deterministic: e.config.Deterministic,
		Digest:       DigestOf([]byte(e.config.Kind), []byte(e.config.Version), e.config.Source, declared),
		Capabilities: e.capabilities(),
	}
	return nil
}

// declare makes the tool list from what is offered and what is declared.
func (e *Environment) declare(offered []audit.Tool) error {
	e.effects = make(map[string]audit.Effect, len(offered))
	for _, d := range e.config.Declared {
		if !slices.ContainsFunc(offered, func(t audit.Tool) bool { return t.Name == d.Name }) {
			offered = append(slices.Clip(offered), d)
		}
	}
	for _, tool := range offered {
		if len(e.config.Only) > 0 && !slices.Contains(e.config.Only, tool.Name) {
			continue
		}
		c := e.config.Tools[tool.Name]
		tool.Effect = cmp.Or(c.Effect, tool.Effect, audit.UnknownEffect)
		tool.Role = cmp.Or(c.Role, tool.Role, "assistant")
		tool.Description = cmp.Or(c.Description, tool.Description)
		if c.Errors != nil {
			tool.Errors = c.Errors
		}
		if len(c.Input) > 0 {
			e.compare(tool, c.Input)
			tool.Input = c.Input
		}
		if _, twice := e.effects[tool.Name]; twice {
			return &audit.Error{
				Code: audit.CodeInvalid, Message: fmt.Sprintf("environment %s offers two tools named %s", e.config.Name, tool.Name),
				Hint: "rename one of them in the server",
			}
		}
		e.effects[tool.Name] = tool.Effect
		e.tools = append(e.tools, tool)
	}
	if len(e.tools) == 0 {
		return &audit.Error{
			Code: audit.CodeInvalid, Message: "environment " + e.config.Name + " offers no tools",
			Hint: "check that the server is the right one, and the list of tools in the declaration",
		}
	}
	return nil
}

func (e *Environment) capabilities() []audit.Capability {
	var all []audit.Capability
	if c, ok := e.server.(Capable); ok {
		all = slices.Clone(c.Capabilities())
	}
	if slices.Contains(all, audit.CanFork) || slices.Contains(all, audit.CanSnapshot) {
		all = append(all, audit.CanDryRun)
	}
	if len(e.config.Probes) > 0 {
		all = append(all, audit.CanProbe)
	}
	if len(e.config.Tasks) > 0 {
		all = append(all, audit.CanCheck)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// can reports whether episodes have a capability.
func (e *Environment) can(c audit.Capability) bool { return slices.Contains(e.info.Capabilities, c) }

// unavailable is a server that does not do what it must; an *audit.Error passes.
func (e *Environment) unavailable(doing string, err error) error {
	if _, typed := errors.AsType[*audit.Error](err); typed {
		return err
	}
	if hidden := e.config.Hide(err.Error()); hidden != err.Error() {
		err = errors.New(hidden)
	}
	return &audit.Error{
		Code: audit.CodeInfrastructure, Message: doing + " environment " + e.config.Name,
		Hint: "see that its server runs and that the declaration names it rightly", Err: err,
	}
}

// Info describes the environment.
func (e *Environment) Info() audit.EnvironmentInfo { return e.info }

// Kind is the adapter, as the declaration names it.
func (e *Environment) Kind() string { return e.config.Kind }

// Jail says what the environment's code is kept from.
func (e *Environment) Jail(context.Context) (string, error) { return e.config.Jail, nil }

// Tools lists the tools in the server's order.
func (e *Environment) Tools(context.Context) ([]audit.Tool, error) { return e.tools, nil }

// Notes says what was found on the way: declarations that the server does not keep.
func (e *Environment) Notes() []string {
	if n, ok := e.server.(Noter); ok {
		return append(n.Notes(), e.notes...)
	}
	return slices.Clone(e.notes)
}

// compare notes arguments whose type the server gives otherwise than the
// declaration: a server that declares lists as text refuses what agents send.
func (e *Environment) compare(tool audit.Tool, declared json.RawMessage) {
	type schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	var theirs, ours schema
	if json.Unmarshal(tool.Input, &theirs) != nil || json.Unmarshal(declared, &ours) != nil {
		return
	}
	for name, p := range ours.Properties {
		if q, ok := theirs.Properties[name]; ok && q.Type != nil && fmt.Sprint(q.Type) != fmt.Sprint(p.Type) {
			e.notes = append(e.notes, fmt.Sprintf("tool %s: the server says %s is %v, the declaration %v", tool.Name, name, q.Type, p.Type))
		}
	}
	slices.Sort(e.notes)
}

// Tasks lists the declared tasks, or those that the server has.
func (e *Environment) Tasks(ctx context.Context, seed uint64, n int) ([]audit.Task, error) {
	if t, ok := e.server.(Tasker); ok && len(e.config.Tasks) == 0 {
		return t.Tasks(ctx, seed, n)
	}
	tasks := make([]audit.Task, 0, len(e.config.Tasks))
	for _, t := range e.config.Tasks {
		tasks = append(tasks, t.task())
	}
	if n > 0 {
		tasks = tasks[:min(n, len(tasks))]
	}
	return tasks, nil
}

// Open starts an isolated session.
func (e *Environment) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, &audit.Error{Code: audit.CodeConflict, Message: "environment " + e.config.Name + " is closed", Hint: "open it again"}
	}
	task, err := e.admit(start)
	if err != nil {
		return nil, err
	}
	if start.Clock.IsZero() {
		start.Clock = e.config.Clock
	}
	ctx, cancel := context.WithTimeout(ctx, e.config.OpenTimeout)
	defer cancel()
	began := Begin{Start: start}
	if task != nil {
		began.Seeding = task.Seeding
	}
	episode, err := e.server.Begin(ctx, began)
	if err != nil {
		return nil, e.unavailable("start an episode of", err)
	}
	s := &session{environment: e, episode: episode, task: task}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(e.unavailable("start an episode of", err), s.Close())
	}
	return s, nil
}

// admit refuses starts that no episode can have.
func (e *Environment) admit(start audit.Start) (*Task, error) {
	if start.Shared != "" && !e.can(audit.CanShare) {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: "episodes of " + e.config.Name + " cannot share a state",
			Hint: "open the sessions without Shared",
		}
	}
	if len(start.State) > 0 && !e.can(audit.CanState) {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: "environment " + e.config.Name + " cannot start in a given state",
			Hint: "its protocol has no way to set one; name a task, or start without a state",
		}
	}
	if start.Task == "" || len(e.config.Tasks) == 0 && e.hasTasks() {
		return nil, nil //nolint:nilnil // no task is a task that asks for nothing
	}
	for i := range e.config.Tasks {
		if e.config.Tasks[i].ID == start.Task {
			return &e.config.Tasks[i], nil
		}
	}
	return nil, &audit.Error{
		Code: audit.CodeNotFound, Message: fmt.Sprintf("environment %s has no task %q", e.config.Name, start.Task),
		Hint: fmt.Sprintf("its declaration has %d tasks", len(e.config.Tasks)),
	}
}

func (e *Environment) hasTasks() bool {
	_, ok := e.server.(Tasker)
	return ok
}

// Close ends the server and with it every session.
func (e *Environment) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	return e.server.Close()
}
