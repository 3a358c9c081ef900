package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"understudy/audit"
)

// Offer is an environment offered as an MCP server. Every client session has a
// world of its own, which ends with it; a client that knows the extension opens
// as many as it likes. It is safe for concurrent use.
type Offer struct {
	env   audit.Environment
	start audit.Start // of the world that a client finds
	roles map[string]string
	tools []*mcp.Tool

	mu      sync.Mutex
	clients map[*mcp.ServerSession]*client
	serial  uint64
	closed  bool
	waiting sync.WaitGroup // for clients to leave
}

// client is what one client session holds.
type client struct {
	worlds map[string]audit.Session // "" = the one that it finds
}

// mostWorlds bounds what one client may hold open.
const mostWorlds = 1000

// NewOffer prepares an environment for clients. Each finds a world that begins
// as start says.
func NewOffer(ctx context.Context, env audit.Environment, start audit.Start) (*Offer, error) {
	o := &Offer{env: env, start: start, roles: map[string]string{}, clients: map[*mcp.ServerSession]*client{}}
	tools, err := env.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the tools of %s: %w", env.Info().Name, err)
	}
	for _, t := range tools {
		o.roles[t.Name] = t.Role
		o.tools = append(o.tools, declared(t))
	}
	return o, nil
}

// declared is a tool as MCP clients see it.
func declared(t audit.Tool) *mcp.Tool {
	input := t.Input
	if len(input) == 0 {
		input = json.RawMessage(`{"type":"object"}`)
	}
	out := &mcp.Tool{
		Name: t.Name, Description: t.Description, InputSchema: input,
		Meta: mcp.Meta{"understudy/tool": audit.Tool{Name: t.Name, Effect: t.Effect, Role: t.Role, Errors: t.Errors, Echo: t.Echo}},
	}
	if t.Effect != audit.UnknownEffect {
		out.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: t.Effect == audit.Read}
	}
	return out
}

// Serve speaks MCP over a transport until the client leaves or ctx ends.
func (o *Offer) Serve(ctx context.Context, transport mcp.Transport) error {
	server, err := o.server(nil)
	if err != nil {
		return err
	}
	return server.Run(ctx, transport)
}

// ServeStdio speaks MCP over this process's stdin and stdout, until what stdin
// brought is answered.
func (o *Offer) ServeStdio(ctx context.Context) error {
	return o.Serve(ctx, drained{&mcp.StdioTransport{}})
}

// idle is how long a client over HTTP may be silent before its worlds end.
const idle = 30 * time.Minute

// Handler speaks streamable HTTP. It offers the protocol's versions that have
// sessions: a world must belong to somebody.
func (o *Offer) Handler() (http.Handler, error) {
	server, err := o.server([]string{"2025-11-25", "2025-06-18", "2025-03-26"})
	if err != nil {
		return nil, err
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{SessionTimeout: idle}), nil
}

func (o *Offer) server(versions []string) (*mcp.Server, error) {
	info := o.env.Info()
	s := mcp.NewServer(&mcp.Implementation{Name: "understudy-" + info.Name, Version: info.Version}, &mcp.ServerOptions{
		Instructions: info.Policy, SupportedProtocolVersions: versions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Extensions: map[string]any{extension: extensionInfo{
			Version: 1, Name: info.Name, Label: info.Version, Digest: info.Digest,
			Capabilities: info.Capabilities, Deterministic: info.Deterministic, Policy: info.Policy,
		}}},
	})
	for _, tool := range o.tools {
		s.AddTool(tool, o.call)
	}
	for method, run := range map[string]func(context.Context, *client, audit.Session, *handle) (*answer, error){
		methodSnapshot: snapshot, methodRestore: restore, methodDrop: drop, methodState: state, methodCheck: check,
		methodFork: o.fork, methodClose: o.leave,
	} {
		err := mcp.AddReceivingCustomMethod(s, method, func(ctx context.Context, ss *mcp.ServerSession, p *handle) (*answer, error) {
			c, world, err := o.world(ctx, ss, p.Session)
			if err != nil {
				return nil, wireError(err)
			}
			a, err := run(ctx, c, world, p)
			return a, wireError(err)
		})
		if err != nil {
			return nil, err
		}
	}
	return s, errors.Join(
		mcp.AddReceivingCustomMethod(s, methodOpen, o.open),
		mcp.AddReceivingCustomMethod(s, methodTasks, o.tasks),
	)
}

// call is the handler of every tool.
func (o *Offer) call(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	name, _ := req.Params.Meta[metaSession].(string)
	_, world, err := o.world(ctx, req.Session, name)
	if err != nil {
		return nil, wireError(err)
	}
	call := audit.Call{Tool: req.Params.Name, Arguments: req.Params.Arguments, Role: o.roles[req.Params.Name]}
	seen, err := world.Call(ctx, call)
	if err != nil {
		return nil, wireError(err)
	}
	text := string(seen.Raw)
	if text == "" && seen.Error != nil {
		text = seen.Error.Message
	}
	res := &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: seen.Status != audit.StatusOK,
		Meta: mcp.Meta{metaStatus: seen.Status},
	}
	if seen.Error != nil {
		res.Meta[metaError] = seen.Error
	}
	if seen.Evidence == audit.EvidenceExact {
		res.Meta[metaDelta], res.Meta[metaBefore], res.Meta[metaAfter] = seen.Delta, seen.Before, seen.After
	}
	return res, nil
}

// wireError carries our own errors through JSON-RPC, hint and all.
func wireError(err error) error {
	if err == nil {
		return nil
	}
	data, encodeErr := json.Marshal(map[string]any{"code": audit.ErrorCode(err), "hint": audit.ErrorHint(err)})
	if encodeErr != nil {
		data = nil
	}
	code := int64(jsonrpc.CodeInternalError)
	if c := audit.ErrorCode(err); c == audit.CodeInvalid || c == audit.CodeNotFound || c == audit.CodeConflict {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: err.Error(), Data: data}
}

// world finds a world of a client; the one without a name is made when it is
// first asked for.
func (o *Offer) world(ctx context.Context, ss *mcp.ServerSession, name string) (*client, audit.Session, error) {
	o.mu.Lock()
	c, err := o.client(ss)
	if err != nil {
		o.mu.Unlock()
		return nil, nil, err
	}
	world := c.worlds[name]
	o.mu.Unlock()
	switch {
	case world != nil:
		return c, world, nil
	case name != "":
		return nil, nil, &audit.Error{Code: audit.CodeNotFound, Message: "no session " + strconv.Quote(name), Hint: "open one with " + methodOpen}
	}
	world, err = o.env.Open(ctx, o.start)
	if err != nil {
		return nil, nil, err
	}
	world, err = o.keep(c, "", world)
	return c, world, err
}

// client is the record of a client session, made when it is first seen. It is
// called with the lock held.
func (o *Offer) client(ss *mcp.ServerSession) (*client, error) {
	if o.closed {
		return nil, &audit.Error{Code: audit.CodeConflict, Message: "the server is stopping", Hint: "connect again later"}
	}
	c := o.clients[ss]
	if c == nil {
		c = &client{worlds: map[string]audit.Session{}}
		o.clients[ss] = c
		o.waiting.Go(func() {
			_ = ss.Wait() // how it left does not matter
			o.forget(ss)
		})
	}
	return c, nil
}

// forget ends the worlds of a client that left.
func (o *Offer) forget(ss *mcp.ServerSession) {
	o.mu.Lock()
	c := o.clients[ss]
	delete(o.clients, ss)
	var worlds []audit.Session
	if c != nil {
		for _, w := range c.worlds {
			worlds = append(worlds, w)
		}
		c.worlds = nil
	}
	o.mu.Unlock()
	for _, w := range worlds {
		_ = w.Close() // nobody is left to be told
	}
}

// keep remembers a world under a name and returns the one that has it: of two
// calls that found none, the first to come here made it. A client that has left
// cannot keep any.
func (o *Offer) keep(c *client, name string, world audit.Session) (audit.Session, error) {
	o.mu.Lock()
	var err error
	kept := c.worlds[name]
	switch {
	case kept != nil:
	case c.worlds == nil:
		err = errors.New("the client has left")
	case len(c.worlds) >= mostWorlds:
		err = &audit.Error{
			Code: audit.CodeLimit, Message: fmt.Sprintf("%d sessions are open", len(c.worlds)), Hint: "close some with " + methodClose,
		}
	default:
		kept = world
		c.worlds[name] = world
	}
	o.mu.Unlock()
	if kept != world {
		err = errors.Join(err, world.Close())
	}
	return kept, err
}

// name keeps a world under a new name.
func (o *Offer) name(c *client, world audit.Session) (*answer, error) {
	o.mu.Lock()
	o.serial++
	name := "w" + strconv.FormatUint(o.serial, 10)
	o.mu.Unlock()
	_, err := o.keep(c, name, world)
	return &answer{Session: name}, err
}

// Close ends every world and waits for clients that are still there.
func (o *Offer) Close() error {
	o.mu.Lock()
	o.closed = true
	var open []*mcp.ServerSession
	for ss := range o.clients {
		open = append(open, ss)
	}
	o.mu.Unlock()
	for _, ss := range open {
		_ = ss.Close()
	}
	o.waiting.Wait()
	return nil
}

func (o *Offer) open(ctx context.Context, ss *mcp.ServerSession, p *openParams) (*answer, error) {
	o.mu.Lock()
	c, err := o.client(ss)
	o.mu.Unlock()
	if err != nil {
		return nil, wireError(err)
	}
	world, err := o.env.Open(ctx, audit.Start{Task: p.Task, State: p.State, Seed: p.Seed, Clock: p.Clock, Shared: p.Shared})
	if err != nil {
		return nil, wireError(err)
	}
	a, err := o.name(c, world)
	return a, wireError(err)
}

func (o *Offer) tasks(ctx context.Context, _ *mcp.ServerSession, p *tasksParams) (*answer, error) {
	tasker, ok := o.env.(audit.Tasker)
	if !ok {
		return &answer{}, nil
	}
	tasks, err := tasker.Tasks(ctx, p.Seed, p.N)
	return &answer{Tasks: tasks}, wireError(err)
}

func (o *Offer) fork(ctx context.Context, c *client, world audit.Session, _ *handle) (*answer, error) {
	forker, ok := world.(audit.Forker)
	if !ok {
		return nil, lacks(audit.CanFork)
	}
	fork, err := forker.Fork(ctx)
	if err != nil {
		return nil, err
	}
	return o.name(c, fork)
}

func (o *Offer) leave(_ context.Context, c *client, world audit.Session, p *handle) (*answer, error) {
	o.mu.Lock()
	delete(c.worlds, p.Session)
	o.mu.Unlock()
	return &answer{}, world.Close()
}

func lacks(c audit.Capability) error {
	return &audit.Error{Code: audit.CodeInvalid, Message: "the environment has no " + string(c), Hint: "see the capabilities of the extension"}
}

func snapshot(ctx context.Context, _ *client, world audit.Session, _ *handle) (*answer, error) {
	snapshots, ok := world.(audit.Snapshotter)
	if !ok {
		return nil, lacks(audit.CanSnapshot)
	}
	id, err := snapshots.Snapshot(ctx)
	return &answer{Snapshot: id}, err
}

func restore(ctx context.Context, _ *client, world audit.Session, p *handle) (*answer, error) {
	snapshots, ok := world.(audit.Snapshotter)
	if !ok {
		return nil, lacks(audit.CanSnapshot)
	}
	return &answer{}, snapshots.Restore(ctx, p.Snapshot)
}

func drop(_ context.Context, _ *client, world audit.Session, p *handle) (*answer, error) {
	snapshots, ok := world.(audit.Snapshotter)
	if !ok {
		return nil, lacks(audit.CanSnapshot)
	}
	snapshots.Drop(p.Snapshot)
	return &answer{}, nil
}

func state(ctx context.Context, _ *client, world audit.Session, p *handle) (*answer, error) {
	stater, ok := world.(audit.Stater)
	if !ok {
		return nil, lacks(audit.CanState)
	}
	digest, err := stater.StateDigest(ctx)
	if err != nil || p.Digest {
		return &answer{Digest: digest}, err
	}
	text, err := stater.State(ctx, p.Pointer)
	return &answer{Digest: digest, State: text}, err
}

func check(ctx context.Context, _ *client, world audit.Session, p *handle) (*answer, error) {
	checker, ok := world.(audit.Checker)
	if !ok {
		return nil, lacks(audit.CanCheck)
	}
	checked, err := checker.Check(ctx, p.Task)
	return &answer{Check: &checked}, err
}
