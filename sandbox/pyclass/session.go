package pyclass

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/sandbox/adapter"
)

// session is one instance of each class. Its log holds what rebuilds it in a new
// runner: how it was opened, and every call that was carried through.
type session struct {
	environment *Environment
	name        string
	task        string
	initial     adapter.World

	mu     sync.Mutex
	world  adapter.World
	log    []request
	born   uint64 // generation of the runner that holds the instance
	stale  bool   // the instance is not what the log leads to: it is rebuilt before anything else
	kept   map[audit.SnapshotID]kept
	closed bool
}

// request is one logged request; fields never hold the session's name.
type request struct {
	op     string
	fields map[string]any
}

// kept is a snapshot: the world, the log that leads to it, and the runner that
// holds the instance. A newer runner rebuilds it from the log.
type kept struct {
	world adapter.World
	log   []request
	born  uint64
}

var (
	_ audit.DryRunner   = (*session)(nil)
	_ audit.Snapshotter = (*session)(nil)
	_ audit.Forker      = (*session)(nil)
	_ audit.Stater      = (*session)(nil)
	_ audit.Checker     = (*session)(nil)
)

// result is the runner's answer to a call.
type result struct {
	Status  audit.Status `json:"status"`
	Raw     string       `json:"raw"`
	Message string       `json:"message"`
	Changed bool         `json:"changed"`
	State   string       `json:"state"`
}

func (s *session) Call(ctx context.Context, call audit.Call) (audit.Observation, error) {
	return s.run(ctx, "call", call)
}

func (s *session) DryRun(ctx context.Context, call audit.Call) (audit.Observation, error) {
	return s.run(ctx, "dry_run", call)
}

func (s *session) run(ctx context.Context, op string, call audit.Call) (audit.Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return audit.Observation{}, context.Cause(ctx)
	}
	if err := s.ready(ctx); err != nil {
		return audit.Observation{}, err
	}
	arguments, refusal := s.environment.arguments.Check(call)
	if refusal != nil {
		refusal.Before, refusal.After = s.world.Digest(), s.world.Digest()
		return *refusal, nil
	}
	began := time.Now()
	fields := map[string]any{"tool": call.Tool, "arguments": arguments}
	var r result
	err := s.ask(ctx, op, fields, &r)
	fault, broke := errors.AsType[*faultError](err)
	switch {
	case broke: // what the method answered or left behind cannot be shown
		r = result{Status: audit.StatusFault, Message: fault.message}
	case isLost(err):
		// The instance is rebuilt without this call: it did not happen.
		return adapter.Fault(audit.StatusFault, err.Error()), nil
	case err != nil:
		return audit.Observation{}, err
	}
	o, after := s.observe(r)
	if op == "call" {
		if o.Status == audit.StatusFault {
			return o, s.rebuild(ctx) // the method may have raised halfway through a change
		}
		s.world = after
		s.log = append(s.log, request{op, fields})
	}
	o.Cost.Wall = time.Since(began)
	return o, nil
}

// observe turns an answer into an observation and the world after it.
func (s *session) observe(r result) (audit.Observation, adapter.World) {
	if r.Status == audit.StatusFault {
		return adapter.Fault(audit.StatusFault, r.Message), s.world
	}
	o := audit.Observation{Status: r.Status, Raw: []byte(r.Raw)}
	if r.Status == audit.StatusRefused {
		o.Error = &audit.CallError{Family: audit.DefaultInference().Text(r.Message), Message: r.Message}
	}
	var text []byte
	if r.Changed {
		text = []byte(r.State)
	}
	after, delta, err := s.world.Move(text)
	if err != nil {
		return adapter.Fault(audit.StatusFault, err.Error()), s.world
	}
	s.world.Observe(&o, delta, after)
	return o, after
}

// ready makes sure that a live runner holds the instance.
func (s *session) ready(ctx context.Context) error {
	if s.closed {
		return &audit.Error{Code: audit.CodeConflict, Message: "session is closed", Hint: "open another one"}
	}
	_, born, err := s.environment.process(ctx)
	if err != nil {
		return err
	}
	if s.stale || born != s.born {
		return s.rebuild(ctx)
	}
	return nil
}

// rebuild opens the instance in the current runner and replays its calls. A
// class that answers otherwise than before is not deterministic, and an error.
func (s *session) rebuild(ctx context.Context) error {
	p, born, err := s.environment.process(ctx)
	if err != nil {
		return err
	}
	s.stale = true // until the whole log was replayed
	replayed, err := s.environment.replay(ctx, p, s.name, s.log)
	if err != nil {
		return err
	}
	if s.born != 0 && replayed.Digest() != s.world.Digest() {
		return &audit.Error{
			Code: audit.CodeInternal, Message: fmt.Sprintf("Python class %s came to another state when its calls were replayed", s.environment.spec.label()),
			Hint: "the class is not deterministic: it reads something outside its instance",
		}
	}
	s.world, s.born, s.stale = replayed, born, false
	return nil
}

// replay runs a log in the runner under a name and returns the state it leads to.
func (e *Environment) replay(ctx context.Context, p *process, name string, log []request) (adapter.World, error) {
	var world adapter.World
	for _, step := range log {
		fields := maps.Clone(step.fields)
		fields["session"] = name
		var r result
		err := p.ask(ctx, e.spec.Timeout, step.op, fields, &r)
		if isLost(err) {
			e.discard(p)
		}
		if fault, ok := errors.AsType[*faultError](err); ok {
			return world, &audit.Error{
				Code: audit.CodeInvalid, Message: "open a session of Python class " + e.spec.label(),
				Hint: "the initial configuration does not fit the class", Err: fault,
			}
		}
		if err != nil {
			return world, err
		}
		if step.op == "open" || r.Changed {
			if world, err = adapter.NewWorld([]byte(r.State)); err != nil {
				return world, err
			}
		}
	}
	return world, nil
}

// ask sends a request about this session to the current runner.
func (s *session) ask(ctx context.Context, op string, fields map[string]any, into any) error {
	p, _, err := s.environment.process(ctx)
	if err != nil {
		return err
	}
	fields = maps.Clone(fields)
	fields["session"] = s.name
	err = p.ask(ctx, s.environment.spec.Timeout, op, fields, into)
	if isLost(err) {
		s.environment.discard(p)
	}
	return err
}

func (s *session) Snapshot(ctx context.Context) (audit.SnapshotID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return "", err
	}
	id := audit.SnapshotID(s.environment.name())
	if err := s.ask(ctx, "snapshot", map[string]any{"snapshot": id}, nil); err != nil {
		return "", err
	}
	if s.kept == nil {
		s.kept = map[audit.SnapshotID]kept{}
	}
	s.kept[id] = kept{s.world, slices.Clone(s.log), s.born}
	return id, nil
}

func (s *session) Restore(ctx context.Context, id audit.SnapshotID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	snapshot, found := s.kept[id]
	if !found {
		return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("snapshot %s is not known", id), Hint: "take it in this session first"}
	}
	if snapshot.born == s.born {
		if err := s.ask(ctx, "restore", map[string]any{"snapshot": id}, nil); err != nil {
			return err
		}
		s.world, s.log = snapshot.world, slices.Clone(snapshot.log)
		return nil
	}
	s.world, s.log = snapshot.world, slices.Clone(snapshot.log)
	return s.rebuild(ctx)
}

func (s *session) Drop(id audit.SnapshotID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, found := s.kept[id]; found {
		delete(s.kept, id)
		s.release("drop", map[string]any{"snapshot": id})
	}
}

func (s *session) Fork(ctx context.Context) (audit.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	fork := &session{
		environment: s.environment, name: s.environment.name(), task: s.task,
		initial: s.initial, world: s.world, log: slices.Clone(s.log), born: s.born,
	}
	if err := s.ask(ctx, "fork", map[string]any{"target": fork.name}, nil); err != nil {
		return nil, err
	}
	return fork, nil
}

func (s *session) StateDigest(context.Context) (audit.Digest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.world.Digest(), nil
}

func (s *session) State(_ context.Context, pointer string) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := s.world.Value().Lookup(pointer)
	if !found {
		return nil, &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("state has nothing at %q", pointer), Hint: `"" is the whole state`}
	}
	return at.JSON(), nil
}

// Check runs the task's check functions over the final state, and over the
// initial one to see what a do-nothing agent would be given. An empty task is the
// one that the session was opened with.
func (s *session) Check(ctx context.Context, task string) (audit.CheckResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scenario, err := s.environment.task(cmp.Or(task, s.task))
	if err != nil {
		return audit.CheckResult{}, err
	}
	passed := func(final diff.Value) ([]bool, error) {
		var reply struct {
			Results []bool `json:"results"`
		}
		err := s.ask(ctx, "check", map[string]any{
			"checks": scenario.Checks, "initial": s.initial.Value().String(), "final": final.String(),
		}, &reply)
		if err == nil && len(reply.Results) != len(scenario.Checks) {
			err = fmt.Errorf("task %s has %d checks, and the runner answered %d", scenario.ID, len(scenario.Checks), len(reply.Results))
		}
		return reply.Results, err
	}
	final, err := passed(s.world.Value())
	if err != nil {
		return audit.CheckResult{}, err
	}
	initial, err := passed(s.initial.Value())
	if err != nil {
		return audit.CheckResult{}, err
	}
	out := audit.CheckResult{Checks: len(scenario.Checks)}
	for i := range final {
		if initial[i] {
			out.Initial++
		}
		if final[i] {
			out.Passed++
		} else {
			out.Failed = append(out.Failed, fmt.Sprintf("check %d", i+1))
		}
	}
	return out, nil
}

// Close lets the instance go. It never fails: a runner that is gone holds nothing.
func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for id := range s.kept {
		s.release("drop", map[string]any{"snapshot": id})
	}
	s.release("close", map[string]any{})
	return nil
}

// releaseTimeout bounds clean-up, which outlives the caller's context.
const releaseTimeout = 5 * time.Second

func (s *session) release(op string, fields map[string]any) {
	s.environment.mu.Lock()
	p, born := s.environment.runner, s.environment.born
	s.environment.mu.Unlock()
	if p == nil || born != s.born {
		return
	}
	fields["session"] = s.name
	if err := p.ask(context.Background(), releaseTimeout, op, fields, nil); isLost(err) {
		s.environment.discard(p)
	}
}
