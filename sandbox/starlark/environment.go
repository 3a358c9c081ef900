package starlark

import (
	"context"
	"fmt"
	"sync"

	"understudy/audit"
)

// Environment runs a domain in this process.
type Environment struct {
	domain *Domain

	mu     sync.Mutex
	shares map[string]*world
	closed bool
}

var (
	_ audit.Environment = (*Environment)(nil)
	_ audit.Tasker      = (*Environment)(nil)
)

// NewEnvironment opens a domain as an environment with every capability.
func NewEnvironment(d *Domain) *Environment {
	return &Environment{domain: d, shares: map[string]*world{}}
}

// Domain is the domain that the environment runs.
func (e *Environment) Domain() *Domain { return e.domain }

// Info implements audit.Environment.
func (e *Environment) Info() audit.EnvironmentInfo { return e.domain.info() }

func (d *Domain) info() audit.EnvironmentInfo {
	return audit.EnvironmentInfo{
		Name: d.Manifest.Name, Version: d.Label(), Digest: d.Digest, Deterministic: true, Policy: d.Policy,
		Capabilities: []audit.Capability{
			audit.CanDryRun, audit.CanSnapshot, audit.CanFork, audit.CanState, audit.CanProbe, audit.CanCheck,
			audit.CanSeed, audit.CanShare,
		},
	}
}

// Tools implements audit.Environment.
func (e *Environment) Tools(context.Context) ([]audit.Tool, error) { return e.domain.Tools(), nil }

// Tasks implements audit.Tasker.
func (e *Environment) Tasks(ctx context.Context, seed uint64, n int) ([]audit.Task, error) {
	tasks, err := e.domain.taskList(ctx, taskList{seed: seed, n: n})
	if err != nil {
		return nil, err
	}
	out := make([]audit.Task, len(tasks))
	for i, t := range tasks {
		out[i] = t.Task
	}
	return out, nil
}

// Open implements audit.Environment.
func (e *Environment) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	w, err := e.world(ctx, start)
	if err != nil {
		return nil, err
	}
	return e.session(w, start.Task), nil
}

// session opens a session on w. Tasks are found by id when they are checked.
func (e *Environment) session(w *world, task string) *Session {
	return &Session{env: e, world: w, task: task}
}

// world finds the shared world that start names, or makes one.
func (e *Environment) world(ctx context.Context, start audit.Start) (*world, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("open %s: the environment is closed", e.domain.Manifest.Name)
	}
	if w := e.shares[start.Shared]; w != nil {
		w.users++
		return w, nil
	}
	root, err := e.domain.initial(ctx, start)
	if err != nil {
		return nil, err
	}
	w := &world{root: root, initial: root, share: start.Shared, users: 1}
	if start.Shared != "" {
		e.shares[start.Shared] = w
	}
	return w, nil
}

// leave ends one session's use of a world; a share ends with its last user.
func (e *Environment) leave(w *world) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w.users--; w.users == 0 && w.share != "" {
		delete(e.shares, w.share)
	}
}

// Close implements audit.Environment.
func (e *Environment) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	clear(e.shares)
	return nil
}
