package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"understudy/audit"
)

// faulty is the shop with faults injected before or after its sessions' calls.
type faulty struct {
	audit.Environment
	info   func(*audit.EnvironmentInfo)
	open   func(context.Context, audit.Start) error
	listed func(context.Context) error // before Tools
	asked  func(context.Context) error // before a call, which then does not happen
	called func(ctx context.Context, session int, call audit.Call, o *audit.Observation) error
	opened *atomic.Int64
}

func (f faulty) Info() audit.EnvironmentInfo {
	info := f.Environment.Info()
	if f.info != nil {
		f.info(&info)
	}
	return info
}

func (f faulty) Tools(ctx context.Context) ([]audit.Tool, error) {
	if f.listed != nil {
		if err := f.listed(ctx); err != nil {
			return nil, err
		}
	}
	return f.Environment.Tools(ctx)
}

func (f faulty) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	if f.open != nil {
		if err := f.open(ctx, start); err != nil {
			return nil, err
		}
	}
	session, err := f.Environment.Open(ctx, start)
	if err != nil {
		return nil, fmt.Errorf("open the faulty shop: %w", err)
	}
	number := 0
	if f.opened != nil {
		number = int(f.opened.Add(1))
	}
	return faultySession{session, number, f.asked, f.called}, nil
}

// faultySession hides every capability of the session but its state.
type faultySession struct {
	audit.Session
	number int
	asked  func(context.Context) error
	called func(ctx context.Context, session int, call audit.Call, o *audit.Observation) error
}

func (s faultySession) Call(ctx context.Context, call audit.Call) (audit.Observation, error) {
	if s.asked != nil {
		if err := s.asked(ctx); err != nil {
			return audit.Observation{}, err
		}
	}
	o, err := s.Session.Call(ctx, call)
	if err == nil && s.called != nil {
		err = s.called(ctx, s.number, call, &o)
	}
	return o, err
}

func (s faultySession) StateDigest(ctx context.Context) (audit.Digest, error) {
	return s.Session.(audit.Stater).StateDigest(ctx)
}

func (s faultySession) State(ctx context.Context, pointer string) (json.RawMessage, error) {
	return s.Session.(audit.Stater).State(ctx, pointer)
}

// rehearserFunc is a rehearser of one function: the model of these tests.
type rehearserFunc func(context.Context, audit.RehearseRequest) ([]audit.Rehearsal, error)

func (f rehearserFunc) Rehearse(ctx context.Context, req audit.RehearseRequest) ([]audit.Rehearsal, error) {
	return f(ctx, req)
}

var errDown = errors.New("connection refused")
