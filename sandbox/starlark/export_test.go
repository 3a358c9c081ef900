package starlark

import (
	"context"

	"go.starlark.net/starlark"

	"understudy/audit"
)

// Break gives a domain an after-call hook and an invariant that panic in Go, as a
// defect of a builtin would, the hook only once db["total"] is no longer 7.
func Break(d *Domain) {
	d.after = append(d.after, starlark.NewBuiltin("hook", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		if total, _, err := runOf(thread).tx.Root().Get(starlark.String("total")); err != nil || total != starlark.Value(starlark.MakeInt(7)) {
			return brokenBuiltin(nil), err
		}
		return starlark.None, nil
	}))
	d.invariants = append(d.invariants, starlark.NewBuiltin("broken", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		return brokenBuiltin(nil), nil
	}))
}

// brokenBuiltin dereferences nil when it is given nothing.
func brokenBuiltin(none *starlark.Int) starlark.Value { return *none }

// Served answers calls of one session as a child process does.
type Served struct{ server *server }

// Serve is a child's server with a domain that is loaded already.
func Serve(d *Domain) *Served {
	return &Served{&server{env: NewEnvironment(d), sessions: map[int]*Session{}}}
}

// Open opens a session as a child does.
func (s *Served) Open(ctx context.Context) (int, error) {
	body, err := s.server.answer(ctx, request{Op: opOpen, Start: &audit.Start{}})
	if err != nil {
		return 0, err
	}
	return body.(int), nil
}

// Call makes a call as a child does.
func (s *Served) Call(ctx context.Context, session int, call audit.Call) (audit.Observation, error) {
	body, err := s.server.answer(ctx, request{Op: opCall, Session: session, Call: &call})
	if err != nil {
		return audit.Observation{}, err
	}
	return body.(audit.Observation), nil
}

// Malformed sends a call request that has no call.
func (s *Served) Malformed(ctx context.Context, session int) error {
	_, err := s.server.answer(ctx, request{Op: opCall, Session: session})
	return err
}

// TaskLists is how many lists of tasks a domain keeps.
func TaskLists(e *Environment) int { return len(e.domain.tasks.vals) }
