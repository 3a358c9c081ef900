package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

// episode is one connection to the server, or one session of the extension on a
// connection that its forks share.
type episode struct {
	server     *server
	connection *connection
	handle     string        // of the extension; "" = none
	uses       *atomic.Int32 // episodes on the connection
}

var (
	_ adapter.Episode   = (*episode)(nil)
	_ adapter.Forker    = (*episode)(nil)
	_ adapter.Lister    = (*episode)(nil)
	_ audit.Snapshotter = (*episode)(nil)
	_ audit.Stater      = (*episode)(nil)
	_ audit.Checker     = (*episode)(nil)
)

// Call implements adapter.Episode.
func (e *episode) Call(ctx context.Context, tool string, arguments json.RawMessage) (adapter.Reply, error) {
	c := e.connection
	c.calls.Lock()
	defer c.calls.Unlock()
	if c.changed.Swap(false) {
		if err := e.compareTools(ctx); err != nil {
			return adapter.Reply{}, err
		}
	}
	params := &mcp.CallToolParams{Name: tool, Arguments: arguments}
	if e.handle != "" {
		params.Meta = mcp.Meta{metaSession: e.handle}
	}
	c.tap.reset(e.handle == "") // our extension says what the call did beside the answer
	_, err := c.session.CallTool(ctx, params)
	response, oversize := c.tap.take(), c.tap.beginning()
	if ctx.Err() != nil {
		return adapter.Reply{}, context.Cause(ctx)
	}
	if oversize != nil {
		return adapter.Reply{Status: audit.StatusOK, Raw: oversize}, nil
	}
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && response == nil {
		response = &jsonrpc.Response{Error: wire}
	}
	if response == nil {
		return adapter.Reply{}, c.explain(orLost(err))
	}
	reply, note := read(e.server.reader, tool, response)
	if note != "" {
		e.server.note(note)
	}
	return reply, nil
}

func orLost(err error) error {
	if err == nil {
		return errors.New("the server's answer was lost")
	}
	return err
}

// compareTools refuses to go on where the server changed its tools on the way.
func (e *episode) compareTools(ctx context.Context) error {
	tools, err := e.connection.tools(ctx)
	if err != nil {
		return err
	}
	e.server.note("the server announced other tools during an episode")
	if changed := adapter.ChangedTools(e.server.tools, tools); changed != "" {
		return errors.New("the server changed its tools during the episode: " + changed)
	}
	return nil
}

// Tools implements adapter.Lister.
func (e *episode) Tools(ctx context.Context) ([]audit.Tool, error) { return e.connection.tools(ctx) }

// closeTimeout bounds a good-bye, which outlives the caller's context.
const closeTimeout = 5 * time.Second

// Close implements adapter.Episode.
func (e *episode) Close() error {
	last := e.uses.Add(-1) == 0
	if e.handle != "" && (!last || e.connection.process == nil) {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_, _ = ask(ctx, e.connection, methodClose, &handle{Session: e.handle}) // the server forgets it in time
	}
	if last {
		e.connection.close()
	}
	return nil
}

// ask makes a call of the extension.
func ask[P interface {
	*T
	mcp.Params
}, T any](ctx context.Context, c *connection, method string, params P) (*answer, error) {
	c.calls.Lock()
	defer c.calls.Unlock()
	a, err := mcp.CallCustomMethod[P, *answer](ctx, c.session, method, params)
	if err == nil {
		return a, nil
	}
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, typed(wire)
	}
	return nil, fmt.Errorf("%s: %w", method, c.explain(err))
}

// typed makes our own error again of one that our server sent.
func typed(wire *jsonrpc.Error) error {
	var own audit.Error
	var sent struct {
		Code audit.Code `json:"code"`
		Hint string     `json:"hint"`
	}
	if json.Unmarshal(wire.Data, &sent) == nil && sent.Code != "" {
		own = audit.Error{Code: sent.Code, Message: wire.Message, Hint: sent.Hint}
		return &own
	}
	return wire
}

// Fork implements adapter.Forker.
func (e *episode) Fork(ctx context.Context) (adapter.Episode, error) {
	a, err := ask(ctx, e.connection, methodFork, &handle{Session: e.handle})
	if err != nil {
		return nil, err
	}
	e.uses.Add(1)
	return &episode{server: e.server, connection: e.connection, handle: a.Session, uses: e.uses}, nil
}

// Snapshot implements audit.Snapshotter.
func (e *episode) Snapshot(ctx context.Context) (audit.SnapshotID, error) {
	a, err := ask(ctx, e.connection, methodSnapshot, &handle{Session: e.handle})
	if err != nil {
		return "", err
	}
	return a.Snapshot, nil
}

// Restore implements audit.Snapshotter.
func (e *episode) Restore(ctx context.Context, id audit.SnapshotID) error {
	_, err := ask(ctx, e.connection, methodRestore, &handle{Session: e.handle, Snapshot: id})
	return err
}

// Drop implements audit.Snapshotter.
func (e *episode) Drop(id audit.SnapshotID) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_, _ = ask(ctx, e.connection, methodDrop, &handle{Session: e.handle, Snapshot: id}) // kept longer than needed, at worst
}

// StateDigest implements audit.Stater.
func (e *episode) StateDigest(ctx context.Context) (audit.Digest, error) {
	a, err := ask(ctx, e.connection, methodState, &handle{Session: e.handle, Digest: true})
	if err != nil {
		return audit.Digest{}, err
	}
	return a.Digest, nil
}

// State implements audit.Stater.
func (e *episode) State(ctx context.Context, pointer string) (json.RawMessage, error) {
	a, err := ask(ctx, e.connection, methodState, &handle{Session: e.handle, Pointer: pointer})
	if err != nil {
		return nil, err
	}
	return a.State, nil
}

// Check implements audit.Checker.
func (e *episode) Check(ctx context.Context, task string) (audit.CheckResult, error) {
	a, err := ask(ctx, e.connection, methodCheck, &handle{Session: e.handle, Task: task})
	if err != nil {
		return audit.CheckResult{}, err
	}
	if a.Check == nil {
		return audit.CheckResult{}, errors.New("the server answered " + methodCheck + " without a result")
	}
	return *a.Check, nil
}
