package openenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

// Spec says where a server is.
type Spec struct {
	URL     string            // ws://host:port/ws
	Headers map[string]string // of the handshake
	Reset   json.RawMessage   // further fields of every reset, an object
}

// New mounts an OpenEnv server.
func New(ctx context.Context, spec Spec, config adapter.Config) (*adapter.Environment, error) {
	if !strings.HasPrefix(spec.URL, "ws://") && !strings.HasPrefix(spec.URL, "wss://") {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("OpenEnv environment %s: %q is no WebSocket", config.Name, audit.ShownURL(spec.URL)),
			Hint: "name the server's /ws: ws://127.0.0.1:8000/ws; its HTTP routes keep no state",
		}
	}
	reader, err := adapter.NewResultReader()
	if err != nil {
		return nil, err
	}
	return adapter.New(ctx, &server{spec: spec, reader: reader, notes: map[string]bool{}}, config)
}

// server is a mounted OpenEnv server: adapter.Server.
type server struct {
	spec   Spec
	reader *adapter.ResultReader

	mu    sync.Mutex
	notes map[string]bool
}

func (s *server) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[text] = true
}

// Notes implements adapter.Noter.
func (s *server) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.notes))
}

// Close implements adapter.Server. Episodes own their connections.
func (s *server) Close() error { return nil }

// Capabilities implements adapter.Capable.
func (s *server) Capabilities() []audit.Capability { return nil }

// reserved are the words of the protocol, which no tool may have as its name.
func reserved() []string { return []string{"reset", "step", "state", "close"} }

// Tools implements adapter.Server.
func (s *server) Tools(ctx context.Context) ([]audit.Tool, error) {
	e, err := s.begin(ctx, adapter.Begin{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = e.Close() }() //nolint:contextcheck // a good-bye outlives the caller's context
	tools, err := e.Tools(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		if slices.Contains(reserved(), t.Name) {
			return nil, &audit.Error{
				Code: audit.CodeInvalid, Message: fmt.Sprintf("the OpenEnv server has a tool named %q, which is a word of its protocol", t.Name),
				Hint: "rename the tool; reset, step, state and close are reserved",
			}
		}
	}
	return tools, nil
}

// Begin implements adapter.Server.
func (s *server) Begin(ctx context.Context, start adapter.Begin) (adapter.Episode, error) {
	return s.begin(ctx, start)
}

// retryAfter is how long to wait for a place on a server that is full.
const retryAfter = 200 * time.Millisecond

// begin connects and resets. A server that is full is asked again until ctx ends:
// another episode may end meanwhile.
func (s *server) begin(ctx context.Context, start adapter.Begin) (*episode, error) {
	var full error // what it said last
	for {
		e, err := s.dial(ctx)
		if err == nil {
			if err = e.reset(ctx, start); err == nil {
				return e, nil
			}
			_ = e.Close() //nolint:contextcheck // a good-bye outlives the caller's context
		}
		if refusal, ok := errors.AsType[*serverError](err); ok && refusal.Code == "CAPACITY_REACHED" {
			full = refusal
			s.note("the server was full; episodes waited for a place (raise its max_concurrent_envs, or audit with a smaller --in-flight)")
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
				continue
			}
		}
		if full != nil && ctx.Err() != nil { // the time may also have run out while it was asked again
			return nil, fmt.Errorf("the server stayed full (raise its max_concurrent_envs): %w", full)
		}
		return nil, err
	}
}

func (s *server) dial(ctx context.Context) (*episode, error) {
	header := http.Header{}
	for name, value := range s.spec.Headers {
		header.Set(name, value)
	}
	c, resp, err := websocket.Dial(ctx, s.spec.URL, &websocket.DialOptions{HTTPHeader: header}) //nolint:bodyclose // the library owns the body
	if err != nil {
		if resp != nil {
			return nil, fmt.Errorf("the handshake was answered with %s: %w", resp.Status, audit.ShownError(err))
		}
		return nil, audit.ShownError(err)
	}
	c.SetReadLimit(adapter.MaxTransfer)
	return &episode{server: s, conn: c}, nil
}
