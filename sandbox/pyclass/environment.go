package pyclass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

// Environment runs Python classes. It is safe for concurrent use; its runner
// answers one request at a time.
type Environment struct {
	spec      Spec
	arguments *adapter.Arguments
	digest    audit.Digest
	seeded    bool // the class may use the session's randomness

	mu     sync.Mutex
	runner *process // nil = to be started at the next use
	born   uint64   // generation of runner: sessions of an older one replay their calls
	names  uint64   // sessions and snapshots so far
	closed bool
}

var (
	_ audit.Environment = (*Environment)(nil)
	_ audit.Tasker      = (*Environment)(nil)
)

// New checks the classes by loading them once; a class that does not load is an
// *audit.Error that says why.
func New(ctx context.Context, spec Spec) (*Environment, error) {
	spec = spec.withDefaults()
	if err := spec.validate(); err != nil {
		return nil, err
	}
	arguments, err := adapter.NewArguments(spec.Tools)
	if err != nil {
		return nil, err
	}
	digest, err := spec.digest()
	if err != nil {
		return nil, err
	}
	e := &Environment{spec: spec, arguments: arguments, seeded: spec.drawsFromSeed(), digest: digest}
	if _, _, err := e.process(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// Jail says, in words, what the running class is kept from.
func (e *Environment) Jail(ctx context.Context) (string, error) {
	p, _, err := e.process(ctx)
	if err != nil {
		return "", err
	}
	return p.holds, nil
}

// Kind is the adapter, as a declaration names it.
func (e *Environment) Kind() string { return "python-class" }

// Info describes the environment.
func (e *Environment) Info() audit.EnvironmentInfo {
	capabilities := []audit.Capability{audit.CanDryRun, audit.CanSnapshot, audit.CanFork, audit.CanState}
	if e.seeded {
		capabilities = append(capabilities, audit.CanSeed)
	}
	if len(e.spec.Tasks) > 0 {
		capabilities = append(capabilities, audit.CanCheck)
	}
	return audit.EnvironmentInfo{
		Name: e.spec.Name, Version: e.spec.Version, Digest: e.digest, Capabilities: capabilities,
		Deterministic: true, // clock, seed and hash order are the session's own
	}
}

// Tools lists the declared tools.
func (e *Environment) Tools(context.Context) ([]audit.Tool, error) { return e.spec.Tools, nil }

// Tasks lists the scenarios; EnvScaler's have no reference solution. seed plays
// no part, n cuts the list.
func (e *Environment) Tasks(_ context.Context, _ uint64, n int) ([]audit.Task, error) {
	tasks := make([]audit.Task, 0, len(e.spec.Tasks))
	for _, s := range e.spec.Tasks {
		tasks = append(tasks, audit.Task{ID: s.ID, Prompt: s.Prompt, Solution: s.Solution})
	}
	if n > 0 {
		tasks = tasks[:min(n, len(tasks))]
	}
	return tasks, nil
}

// Open starts a session on a copy of the initial configuration.
func (e *Environment) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	if start.Shared != "" {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: "a Python class cannot be shared by sessions",
			Hint: "open the sessions without Shared",
		}
	}
	config, err := e.config(start)
	if err != nil {
		return nil, err
	}
	clock := start.Clock
	if clock.IsZero() {
		clock = e.spec.Clock
	}
	s := &session{environment: e, name: e.name(), task: start.Task}
	s.log = []request{{op: "open", fields: map[string]any{
		"config": config, "seed": start.Seed, "clock": float64(clock.UnixNano()) / 1e9,
	}}}
	if err := s.rebuild(ctx); err != nil {
		return nil, err
	}
	s.initial = s.world
	return s, nil
}

func (e *Environment) config(start audit.Start) (json.RawMessage, error) {
	if len(start.State) > 0 {
		return start.State, nil
	}
	if start.Task == "" {
		return e.spec.Config, nil
	}
	task, err := e.task(start.Task)
	return task.Config, err
}

func (e *Environment) task(id string) (Scenario, error) {
	for _, s := range e.spec.Tasks {
		if s.ID == id {
			return s, nil
		}
	}
	return Scenario{}, &audit.Error{
		Code: audit.CodeNotFound, Message: fmt.Sprintf("environment %s has no task %q", e.spec.Name, id),
		Hint: fmt.Sprintf("it has %d tasks", len(e.spec.Tasks)),
	}
}

// Close ends the runner and with it every session.
func (e *Environment) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.runner != nil {
		e.runner.kill()
		e.runner = nil
	}
	return nil
}

// process returns the live runner and its generation, starting one if need be.
func (e *Environment) process(ctx context.Context) (*process, uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, 0, &audit.Error{Code: audit.CodeConflict, Message: "environment " + e.spec.Name + " is closed", Hint: "open it again"}
	}
	if e.runner == nil {
		p, err := start(ctx, e.spec)
		if err != nil {
			return nil, 0, err
		}
		e.runner = p
		e.born++
	}
	return e.runner, e.born, nil
}

// discard forgets a runner that was lost, unless it has been replaced already.
func (e *Environment) discard(p *process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runner == p {
		e.runner = nil
	}
}

func (e *Environment) name() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names++
	return strconv.FormatUint(e.names, 10)
}

func isLost(err error) bool { return errors.Is(err, errDied) || errors.Is(err, errTimeout) }
