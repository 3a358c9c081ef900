package starlark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"understudy/audit"
	"understudy/audit/diff"
)

// replica is the parent's record of one world in a child: enough to build it
// again in another one. It is guarded by the environment's lock.
type replica struct {
	start  audit.Start
	calls  []audit.Call // that changed the world, in order; whoever shares a prefix clips it
	digest audit.Digest // after them
	share  string
	users  int

	id         int // the session in the child
	generation int // of the child that has it
}

// snapshot is a kept prefix of a replica's history.
type snapshot struct {
	calls      []audit.Call
	digest     audit.Digest
	name       string // in the child's session id
	id         int
	generation int
}

// alive reports whether the child session that has the snapshot is the replica's.
func (k snapshot) alive(e *ChildEnvironment, r *replica) bool {
	return e.child != nil && k.generation == e.generation && k.generation == r.generation && k.id == r.id
}

// place makes sure that the running child has the replica, by opening a session
// and replaying the calls.
func (e *ChildEnvironment) place(ctx context.Context, r *replica) error {
	if err := e.revive(ctx); err != nil {
		return err
	}
	if r.generation == e.generation {
		return nil
	}
	var id int
	if err := e.ask(ctx, generateGrace, request{Op: opOpen, Start: &r.start}, &id); err != nil {
		return err
	}
	var digest audit.Digest
	for i := range r.calls {
		var obs audit.Observation
		if err := e.ask(ctx, e.callWall(), request{Op: opCall, Session: id, Call: &r.calls[i]}, &obs); err != nil {
			return fmt.Errorf("replay call %d of a session: %w", i, err)
		}
		digest = obs.After
	}
	if len(r.calls) > 0 && digest != r.digest {
		return fmt.Errorf("replay a session: the state differs after %d calls: the domain is not deterministic", len(r.calls))
	}
	if r.digest.IsZero() {
		if err := e.ask(ctx, e.callWall(), request{Op: opDigest, Session: id}, &r.digest); err != nil {
			return err
		}
	}
	r.id, r.generation = id, e.generation
	return nil
}

// ChildSession is a session of a domain that runs in a child process.
type ChildSession struct {
	env       *ChildEnvironment
	replica   *replica
	snapshots map[audit.SnapshotID]snapshot // guarded by env.mu, as is what follows
	next      int
	closed    bool
}

var (
	_ audit.Session     = (*ChildSession)(nil)
	_ audit.DryRunner   = (*ChildSession)(nil)
	_ audit.Snapshotter = (*ChildSession)(nil)
	_ audit.Forker      = (*ChildSession)(nil)
	_ audit.Stater      = (*ChildSession)(nil)
	_ audit.Prober      = (*ChildSession)(nil)
	_ audit.Checker     = (*ChildSession)(nil)
	_ audit.Inspector   = (*ChildSession)(nil)
)

// ask sends a request of this session; the environment's lock is held.
func (s *ChildSession) ask(ctx context.Context, req request, body any) error {
	if s.closed {
		return errClosed
	}
	if err := s.env.place(ctx, s.replica); err != nil {
		return err
	}
	req.Session = s.replica.id
	wall := s.env.callWall()
	if req.Op == opCheck || req.Op == opViolations { // they have an engine's limit of their own
		wall = generateGrace
	}
	return s.env.ask(ctx, wall, req, body)
}

// asking is ask for callers that do not hold the lock.
func (s *ChildSession) asking(ctx context.Context, req request, body any) error {
	s.env.mu.Lock()
	defer s.env.mu.Unlock()
	return s.ask(ctx, req, body)
}

// observe makes a call. A child that dies under it is a fault without effect: the
// world is rebuilt as it was before.
func (s *ChildSession) observe(ctx context.Context, req request) (audit.Observation, error) {
	var obs audit.Observation
	err := s.ask(ctx, req, &obs)
	if errors.Is(err, errChildDied) {
		message := err.Error()
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": audit.Internal, "message": message}})
		return audit.Observation{
			Status: audit.StatusFault, Raw: body, Evidence: audit.EvidenceExact, Delta: diff.Patch{},
			Error:  &audit.CallError{Family: audit.Internal, Message: message},
			Before: s.replica.digest, After: s.replica.digest,
		}, nil
	}
	return obs, err
}

// Call implements audit.Session.
func (s *ChildSession) Call(ctx context.Context, call audit.Call) (audit.Observation, error) {
	s.env.mu.Lock()
	defer s.env.mu.Unlock()
	obs, err := s.observe(ctx, request{Op: opCall, Call: &call})
	if err == nil && obs.Status == audit.StatusOK && obs.After != obs.Before {
		r := s.replica
		r.calls, r.digest = append(r.calls, call), obs.After
	}
	return obs, err
}

// DryRun implements audit.DryRunner.
func (s *ChildSession) DryRun(ctx context.Context, call audit.Call) (audit.Observation, error) {
	s.env.mu.Lock()
	defer s.env.mu.Unlock()
	return s.observe(ctx, request{Op: opDryRun, Call: &call})
}

// Snapshot implements audit.Snapshotter.
func (s *ChildSession) Snapshot(ctx context.Context) (audit.SnapshotID, error) {
	s.env.mu.Lock()
	defer s.env.mu.Unlock()
	kept := snapshot{}
	if err := s.ask(ctx, request{Op: opSnapshot}, &kept.name); err != nil {
		return "", err
	}
	r := s.replica
	kept.calls, kept.digest, kept.id, kept.generation = slices.Clip(r.calls), r.digest, r.id, r.generation
	s.next++
	id := audit.SnapshotID(strconv.Itoa(s.next))
	s.snapshots[id] = kept
	return id, nil
}

// Restore implements audit.Snapshotter. A snapshot that died with its child is
// rebuilt from the calls that led to it.
func (s *ChildSession) Restore(ctx context.Context, id audit.SnapshotID) error {
	s.env.mu.Lock()
	defer s.env.mu.Unlock()
	kept, ok := s.snapshots[id]
	if !ok {
		return &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("no snapshot %q in this session", id),
			Hint: "snapshots belong to the session that made them and end when they are dropped",
		}
	}
	r := s.replica
	if kept.alive(s.env, r) {
		if err := s.ask(ctx, request{Op: opRestore, Name: kept.name}, nil); err != nil {
			return err
		}
		r.calls, r.digest = kept.calls, kept.digest
		return nil
	}
	r.calls, r.digest, r.generation = kept.calls, kept.digest, 0
	return s.env.place(ctx, r)
}

// Drop implements audit.Snapshotter.
func (s *ChildSession) Drop(id audit.SnapshotID) {
	s.env.mu.Lock()
	defer s.env.mu.Unlock()
	kept, ok := s.snapshots[id]
	delete(s.snapshots, id)
	if ok && kept.alive(s.env, s.replica) {
		_ = s.ask(context.Background(), request{Op: opDrop, Name: kept.name}, nil) // a dead child has none
	}
}

// Fork implements audit.Forker.
func (s *ChildSession) Fork(ctx context.Context) (audit.Session, error) {
	s.env.mu.Lock()
	defer s.env.mu.Unlock()
	r := &replica{start: s.replica.start, calls: slices.Clip(s.replica.calls), digest: s.replica.digest, users: 1}
	if err := s.ask(ctx, request{Op: opFork}, &r.id); err != nil {
		return nil, err
	}
	r.generation = s.env.generation
	return s.env.session(r), nil
}

// StateDigest implements audit.Stater.
func (s *ChildSession) StateDigest(ctx context.Context) (audit.Digest, error) {
	var d audit.Digest
	err := s.asking(ctx, request{Op: opDigest}, &d)
	return d, err
}

// State implements audit.Stater.
func (s *ChildSession) State(ctx context.Context, pointer string) (json.RawMessage, error) {
	var text json.RawMessage
	err := s.asking(ctx, request{Op: opState, Name: pointer}, &text)
	return text, err
}

// Probes implements audit.Prober.
func (s *ChildSession) Probes(call audit.Call) []audit.Call {
	var probes []audit.Call
	if err := s.asking(context.Background(), request{Op: opProbes, Call: &call}, &probes); err != nil {
		return nil // no probes are known when the child cannot answer
	}
	return probes
}

// Check implements audit.Checker.
func (s *ChildSession) Check(ctx context.Context, task string) (audit.CheckResult, error) {
	if task == "" {
		task = s.replica.start.Task
	}
	var result audit.CheckResult
	err := s.asking(ctx, request{Op: opCheck, Name: task}, &result)
	return result, err
}

// Violations implements audit.Inspector.
func (s *ChildSession) Violations(ctx context.Context) ([]string, error) {
	var violations []string
	err := s.asking(ctx, request{Op: opViolations}, &violations)
	return violations, err
}

// Close implements audit.Session. Closing twice is allowed.
func (s *ChildSession) Close() error {
	s.env.mu.Lock()
	defer s.env.mu.Unlock()
	if s.closed {
		return nil
	}
	r := s.replica
	if r.users--; r.users == 0 {
		delete(s.env.shares, r.share)
		if s.env.child != nil && r.generation == s.env.generation {
			_ = s.ask(context.Background(), request{Op: opClose}, nil) // a dead child has none
		}
	}
	s.closed = true
	return nil
}
