package starlark

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"understudy/audit"
	"understudy/sandbox/state"
)

// world is one state that one or several sessions act on, one call at a time.
type world struct {
	mu      sync.Mutex
	root    *state.Object
	initial *state.Object // after the task's setup
	share   string
	users   int // guarded by Environment.mu
}

// Session is one isolated copy of a domain's world, or one view of a shared one.
// It is safe for concurrent use; calls are made one after the other.
type Session struct {
	env   *Environment
	world *world
	task  string

	mu        sync.Mutex // guards what follows; taken before world.mu
	snapshots map[audit.SnapshotID]*state.Object
	next      int
	closed    bool
}

var (
	_ audit.Session     = (*Session)(nil)
	_ audit.DryRunner   = (*Session)(nil)
	_ audit.Snapshotter = (*Session)(nil)
	_ audit.Forker      = (*Session)(nil)
	_ audit.Stater      = (*Session)(nil)
	_ audit.Prober      = (*Session)(nil)
	_ audit.Checker     = (*Session)(nil)
	_ audit.Inspector   = (*Session)(nil)
)

// enter locks the session and its world for one operation, which leave ends.
func (s *Session) enter() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	s.world.mu.Lock()
	return nil
}

func (s *Session) leave() {
	s.world.mu.Unlock()
	s.mu.Unlock()
}

// Call implements audit.Session.
func (s *Session) Call(ctx context.Context, call audit.Call) (audit.Observation, error) {
	if err := s.enter(); err != nil {
		return audit.Observation{}, err
	}
	defer s.leave()
	if err := ctx.Err(); err != nil {
		return audit.Observation{}, fmt.Errorf("call %s: %w", call.Tool, err)
	}
	obs, after, err := s.env.domain.execute(ctx, s.world.root, call)
	s.world.root = after
	return obs, err
}

// DryRun implements audit.DryRunner.
func (s *Session) DryRun(ctx context.Context, call audit.Call) (audit.Observation, error) {
	if err := s.enter(); err != nil {
		return audit.Observation{}, err
	}
	root := s.world.root
	s.leave() // the root is frozen: a dry run blocks nobody
	if err := ctx.Err(); err != nil {
		return audit.Observation{}, fmt.Errorf("call %s: %w", call.Tool, err)
	}
	obs, _, err := s.env.domain.execute(ctx, root, call)
	return obs, err
}

// Snapshot implements audit.Snapshotter by keeping the root.
func (s *Session) Snapshot(context.Context) (audit.SnapshotID, error) {
	if err := s.enter(); err != nil {
		return "", err
	}
	defer s.leave()
	if s.snapshots == nil {
		s.snapshots = map[audit.SnapshotID]*state.Object{}
	}
	s.next++
	id := audit.SnapshotID(strconv.Itoa(s.next))
	s.snapshots[id] = s.world.root
	return id, nil
}

// Restore implements audit.Snapshotter.
func (s *Session) Restore(_ context.Context, id audit.SnapshotID) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	root := s.snapshots[id]
	if root == nil {
		return &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("no snapshot %q in this session", id),
			Hint: "snapshots belong to the session that made them and end when they are dropped",
		}
	}
	s.world.root = root
	return nil
}

// Drop implements audit.Snapshotter.
func (s *Session) Drop(id audit.SnapshotID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.snapshots, id)
}

// Fork implements audit.Forker by copying the root pointer. The fork is never shared.
func (s *Session) Fork(context.Context) (audit.Session, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	fork := &struct { // one allocation
		session Session
		world   world
	}{world: world{root: s.world.root, initial: s.world.initial, users: 1}}
	fork.session.env, fork.session.world, fork.session.task = s.env, &fork.world, s.task
	return &fork.session, nil
}

// StateDigest implements audit.Stater.
func (s *Session) StateDigest(context.Context) (audit.Digest, error) {
	root, err := s.root()
	if err != nil {
		return audit.Digest{}, err
	}
	return state.Digest(root), nil
}

// State implements audit.Stater.
func (s *Session) State(_ context.Context, pointer string) (json.RawMessage, error) {
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	v, err := state.At(root, pointer)
	if err != nil {
		return nil, &audit.Error{
			Code: audit.CodeNotFound, Message: "read state: " + err.Error(),
			Hint: `a JSON Pointer starts with / and names keys and indices; "" is the whole state`,
		}
	}
	text, err := s.env.domain.limited(state.Compact()).Append(nil, v)
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeLimit, Message: "read state " + pointer, Err: err, Hint: "ask for a part of it by a longer pointer"}
	}
	return text, nil
}

func (s *Session) root() (*state.Object, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.world.root, nil
}

// Close implements audit.Session. Closing twice is allowed.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		clear(s.snapshots)
		s.env.leave(s.world)
	}
	return nil
}
