package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"understudy/audit"
)

// session is one episode with what our side adds to it. A session whose episode
// was lost answers every further call with a fault: the world is gone or unknown.
type session struct {
	environment *Environment
	episode     Episode
	task        *Task
	initial     []bool // which checks held before anything was done

	mu     sync.Mutex
	lost   error
	closed bool
}

var (
	_ audit.DryRunner   = (*session)(nil)
	_ audit.Snapshotter = (*session)(nil)
	_ audit.Forker      = (*session)(nil)
	_ audit.Stater      = (*session)(nil)
	_ audit.Prober      = (*session)(nil)
	_ audit.Checker     = (*session)(nil)
)

// prepare compares the episode's tools with the environment's and makes the
// task's setup.
func (s *session) prepare(ctx context.Context) error {
	if lister, ok := s.episode.(Lister); ok {
		offered, err := lister.Tools(ctx)
		if err != nil {
			return err
		}
		now := Environment{config: s.environment.config}
		if err := now.declare(offered); err != nil {
			return fmt.Errorf("the server's tools changed: %w", err)
		}
		if changed := ChangedTools(s.environment.tools, now.tools); changed != "" {
			return errors.New("the server's tools changed: " + changed)
		}
	}
	if s.task == nil {
		return nil
	}
	return s.setup(ctx)
}

// ChangedTools says which tool is another one, new or gone, the first in the order
// of names; "" = none.
func ChangedTools(before, now []audit.Tool) string {
	was, is := inputs(before), inputs(now)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if input, found := is[name]; !found {
			return name + " is gone"
		} else if input != was[name] {
			return name + " has another schema"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, found := was[name]; !found {
			return name + " is new"
		}
	}
	return ""
}

func inputs(tools []audit.Tool) map[string]string {
	out := make(map[string]string, len(tools))
	for _, t := range tools {
		out[t.Name] = string(t.Input)
	}
	return out
}

func (s *session) Call(ctx context.Context, call audit.Call) (audit.Observation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call(ctx, call)
}

func (s *session) call(ctx context.Context, call audit.Call) (audit.Observation, error) {
	if ctx.Err() != nil {
		return audit.Observation{}, context.Cause(ctx)
	}
	if s.closed {
		return audit.Observation{}, errClosed()
	}
	arguments, refusal := s.environment.arguments.Check(call)
	if refusal != nil {
		if st, ok := s.episode.(audit.Stater); ok && s.lost == nil && s.environment.can(audit.CanState) {
			digest, err := st.StateDigest(ctx)
			if err == nil {
				refusal.Before, refusal.After = digest, digest
			}
		}
		return *refusal, nil
	}
	if s.lost != nil {
		return Fault(audit.StatusFault, "the episode was lost before this call: "+s.lost.Error()), nil
	}
	began := time.Now()
	timed, cancel := context.WithTimeout(ctx, s.environment.config.Timeout)
	defer cancel()
	o, err := s.observe(timed, audit.Call{Tool: call.Tool, Arguments: arguments})
	if err != nil {
		s.lost = err
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return audit.Observation{}, context.Cause(ctx)
		}
		o = Fault(audit.StatusUnknown, "no answer, it may have happened: "+describe(err, timed, s.environment.config.Timeout))
	}
	if o.Error != nil {
		o.Error.Message = s.environment.config.Hide(o.Error.Message)
	}
	o.Cost.Wall = time.Since(began)
	return o, nil
}

func errClosed() error {
	return &audit.Error{Code: audit.CodeConflict, Message: "session is closed", Hint: "open another one"}
}

// describe says in words why no answer came.
func describe(err error, ctx context.Context, timeout time.Duration) string { //nolint:revive // the error is what it is about
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "nothing within " + timeout.String()
	}
	return err.Error()
}

// observe makes the call, with probes around it where it may write and the
// server does not say itself what changed.
func (s *session) observe(ctx context.Context, call audit.Call) (audit.Observation, error) {
	effect := s.environment.effects[call.Tool]
	probing := effect != audit.Read && len(s.environment.config.Probes) > 0
	var before glance
	var unseen error
	if probing {
		if before, unseen = s.look(ctx, call); isSilent(unseen) {
			s.lost = unseen // and the call was never sent
			return Fault(audit.StatusFault, "the episode was lost before this call: "+describe(unseen, ctx, s.environment.config.Timeout)), nil
		}
	}
	reply, err := s.episode.Call(ctx, call.Tool, call.Arguments)
	if err != nil {
		return audit.Observation{}, err
	}
	o := audit.Observation{Status: reply.Status, Raw: Cut(reply.Raw), Error: reply.Error, Evidence: audit.EvidenceResponse}
	switch {
	case reply.Effect != nil:
		o.Evidence, o.Delta, o.Before, o.After = audit.EvidenceExact, reply.Effect.Delta, reply.Effect.Before, reply.Effect.After
	case probing && unseen == nil && len(before.sights) > 0:
		s.compare(ctx, &o, before)
	}
	if o.Status == audit.StatusFault {
		return faulted(o, effect, reply.Unmoved), nil
	}
	return o, nil
}

// silentError says that a probe got no answer at all: the episode is lost.
type silentError struct{ err error }

func (e *silentError) Error() string { return e.err.Error() }
func (e *silentError) Unwrap() error { return e.err }

func isSilent(err error) bool {
	_, silent := errors.AsType[*silentError](err)
	return silent
}

// compare makes the probes again and notes what changed in what they cover.
func (s *session) compare(ctx context.Context, o *audit.Observation, before glance) {
	after, err := s.again(ctx, before)
	if err != nil {
		return // the answer stands; what it did is not known
	}
	o.Evidence, o.Delta = audit.EvidenceProbed, before.changed(after)
	for _, seen := range before.sights {
		o.Scope = append(o.Scope, seen.at)
	}
}

// faulted is what a call that broke in the server leaves: unless it only reads,
// or the server itself knows that nothing changed, it may have happened half.
func faulted(o audit.Observation, effect audit.Effect, unmoved bool) audit.Observation {
	o.Raw = []byte{}
	if unmoved || effect == audit.Read || o.Evidence == audit.EvidenceExact && len(o.Delta) == 0 {
		return o
	}
	o.Status, o.Evidence, o.Delta, o.Scope = audit.StatusUnknown, audit.EvidenceNone, nil, nil
	if o.Error != nil {
		o.Error.Message = "the server broke on a call that may write: " + o.Error.Message
	}
	return o
}

func (s *session) Probes(write audit.Call) []audit.Call {
	var calls []audit.Call
	for _, p := range s.environment.config.Probes {
		if seen, ok := p.aim(write, nil); ok && !seen.view {
			calls = append(calls, seen.call)
		}
	}
	return calls
}

// ready locks the session for something that needs a live episode.
func (s *session) ready() (unlock func(), err error) {
	s.mu.Lock()
	switch {
	case s.closed:
		err = errClosed()
	case s.lost != nil:
		err = &audit.Error{Code: audit.CodeInfrastructure, Message: "the episode was lost", Hint: "open another session", Err: s.lost}
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	return s.mu.Unlock, nil
}

// lacks says which ability the environment does not have.
func (s *session) lacks(c audit.Capability) error {
	return &audit.Error{
		Code: audit.CodeInvalid, Message: fmt.Sprintf("environment %s has no %s", s.environment.config.Name, c),
		Hint: "its protocol does not offer it",
	}
}

// as finds an optional ability of the episode.
func as[T any](s *session, c audit.Capability) (T, error) {
	able, ok := s.episode.(T)
	if !ok || !s.environment.can(c) {
		var none T
		return none, s.lacks(c)
	}
	return able, nil
}

func (s *session) DryRun(ctx context.Context, call audit.Call) (o audit.Observation, err error) {
	if s.environment.can(audit.CanFork) {
		fork, err := s.Fork(ctx)
		if err != nil {
			return o, err
		}
		defer func() { err = errors.Join(err, fork.Close()) }()
		return fork.Call(ctx, call)
	}
	unlock, err := s.ready()
	if err != nil {
		return o, err
	}
	defer unlock()
	snapshots, err := as[audit.Snapshotter](s, audit.CanSnapshot)
	if err != nil {
		return o, err
	}
	id, err := snapshots.Snapshot(ctx)
	if err != nil {
		return o, err
	}
	defer snapshots.Drop(id)
	o, err = s.call(ctx, call)
	return o, errors.Join(err, snapshots.Restore(ctx, id))
}

func (s *session) Snapshot(ctx context.Context) (audit.SnapshotID, error) {
	unlock, err := s.ready()
	if err != nil {
		return "", err
	}
	defer unlock()
	snapshots, err := as[audit.Snapshotter](s, audit.CanSnapshot)
	if err != nil {
		return "", err
	}
	return snapshots.Snapshot(ctx)
}

func (s *session) Restore(ctx context.Context, id audit.SnapshotID) error {
	unlock, err := s.ready()
	if err != nil {
		return err
	}
	defer unlock()
	snapshots, err := as[audit.Snapshotter](s, audit.CanSnapshot)
	if err != nil {
		return err
	}
	return snapshots.Restore(ctx, id)
}

func (s *session) Drop(id audit.SnapshotID) {
	unlock, err := s.ready()
	if err != nil {
		return
	}
	defer unlock()
	if snapshots, err := as[audit.Snapshotter](s, audit.CanSnapshot); err == nil {
		snapshots.Drop(id)
	}
}

func (s *session) Fork(ctx context.Context) (audit.Session, error) {
	unlock, err := s.ready()
	if err != nil {
		return nil, err
	}
	defer unlock()
	forker, err := as[Forker](s, audit.CanFork)
	if err != nil {
		return nil, err
	}
	episode, err := forker.Fork(ctx)
	if err != nil {
		return nil, s.environment.unavailable("fork an episode of", err)
	}
	return &session{environment: s.environment, episode: episode, task: s.task, initial: s.initial}, nil
}

func (s *session) StateDigest(ctx context.Context) (audit.Digest, error) {
	unlock, err := s.ready()
	if err != nil {
		return audit.Digest{}, err
	}
	defer unlock()
	stater, err := as[audit.Stater](s, audit.CanState)
	if err != nil {
		return audit.Digest{}, err
	}
	return stater.StateDigest(ctx)
}

func (s *session) State(ctx context.Context, pointer string) (json.RawMessage, error) {
	unlock, err := s.ready()
	if err != nil {
		return nil, err
	}
	defer unlock()
	stater, err := as[audit.Stater](s, audit.CanState)
	if err != nil {
		return nil, err
	}
	return stater.State(ctx, pointer)
}

// Check makes the reads of the task's checks, or asks the server that has its own.
func (s *session) Check(ctx context.Context, task string) (audit.CheckResult, error) {
	unlock, err := s.ready()
	if err != nil {
		return audit.CheckResult{}, err
	}
	defer unlock()
	if checker, ok := s.episode.(audit.Checker); ok && s.task == nil && s.environment.can(audit.CanCheck) {
		return checker.Check(ctx, task)
	}
	if s.task == nil || s.task.ID != task {
		return audit.CheckResult{}, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("the session was not started with task %q", task), Hint: "open it with Start.Task",
		}
	}
	holds, err := s.verify(ctx)
	if err != nil {
		return audit.CheckResult{}, err
	}
	out := audit.CheckResult{Checks: len(holds)}
	for i := range holds {
		if s.initial[i] {
			out.Initial++
		}
		if holds[i] {
			out.Passed++
		} else {
			out.Failed = append(out.Failed, s.task.Checks[i].text())
		}
	}
	return out, nil
}

func (s *session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.episode.Close()
}
