package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

// Spec says where a server is: a command, or a URL.
type Spec struct {
	Command []string          // speaks over stdin and stdout; one process an episode
	Dir     string            // to run it in
	Env     map[string]string // added to PATH, HOME, LANG and TMPDIR

	URL           string            // of a streamable HTTP endpoint
	Headers       map[string]string // of every request
	SessionHeader string            // gets a random value, another one for each episode
	Shared        bool              // the server keeps one world: episodes are not isolated
}

// defaultOpen is how long a server may take to start: longer than the slowest
// interpreter with its libraries.
const defaultOpen = 30 * time.Second

// New mounts an MCP server.
func New(ctx context.Context, spec Spec, config adapter.Config) (*adapter.Environment, error) {
	if (len(spec.Command) == 0) == (spec.URL == "") {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: "MCP environment " + config.Name + " needs a command or a URL, and not both",
			Hint: `write command: ["python3", "server.py"] or url: http://127.0.0.1:8000/mcp`,
		}
	}
	r, err := adapter.NewResultReader()
	if err != nil {
		return nil, err
	}
	s := &server{spec: spec, reader: r, notes: map[string]int{}}
	timed, cancel := context.WithTimeout(ctx, cmp.Or(config.OpenTimeout, defaultOpen))
	defer cancel()
	if err := s.discover(timed); err != nil {
		return nil, &audit.Error{
			Code: audit.CodeInfrastructure, Message: "connect to the MCP server of environment " + config.Name,
			Hint: s.hint(), Err: err,
		}
	}
	if info := s.info; info != nil {
		config.Deterministic = config.Deterministic || info.Deterministic
		if config.Policy == "" {
			config.Policy = info.Policy
		}
		config.Source = append(config.Source, info.Digest[:]...)
	}
	return adapter.New(ctx, s, config)
}

// server is a mounted MCP server: adapter.Server.
type server struct {
	spec   Spec
	reader *adapter.ResultReader

	tools []audit.Tool
	info  *extensionInfo // nil: the server has no extension
	era   string         // protocol version that was agreed on

	mu    sync.Mutex
	notes map[string]int // what was found on the way, and how often
}

func (s *server) hint() string {
	if s.spec.URL != "" {
		return "see that it runs at " + audit.ShownURL(s.spec.URL) + " and speaks streamable HTTP"
	}
	return "run it by hand: " + strings.Join(s.spec.Command, " ") + "; it must speak MCP on stdin and stdout and print nothing else there"
}

// discover connects once to see what the server is.
func (s *server) discover(ctx context.Context) error {
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	s.tools, err = c.tools(ctx)
	init := c.session.InitializeResult()
	s.era = init.ProtocolVersion
	if settings, ok := init.Capabilities.Extensions[extension]; ok {
		s.info = readExtension(settings)
	}
	if s.spec.URL != "" && s.info == nil && s.spec.SessionHeader == "" && c.session.ID() == "" {
		s.note("the server keeps no sessions (protocol " + s.era + "): episodes may share one world; name a session_header that it honours")
	}
	return err
}

func readExtension(settings any) *extensionInfo {
	text, err := json.Marshal(settings)
	if err != nil {
		return nil
	}
	var info extensionInfo
	if json.Unmarshal(text, &info) != nil || info.Version != 1 {
		return nil
	}
	return &info
}

func (s *server) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[text]++
}

// Notes implements adapter.Noter.
func (s *server) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := []string{"speaks MCP " + s.era}
	for _, text := range slices.Sorted(maps.Keys(s.notes)) {
		if n := s.notes[text]; n > 1 {
			text += fmt.Sprintf(" (%d times)", n)
		}
		notes = append(notes, text)
	}
	return notes
}

// Capabilities implements adapter.Capable.
func (s *server) Capabilities() []audit.Capability {
	if s.info == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.info.Capabilities), func(c audit.Capability) bool {
		return c == audit.CanDryRun || c == audit.CanProbe || c == audit.CanShare && s.spec.URL == "" // a process is shared by nobody
	})
}

// Tools implements adapter.Server.
func (s *server) Tools(context.Context) ([]audit.Tool, error) { return s.tools, nil }

// Tasks implements adapter.Tasker.
func (s *server) Tasks(ctx context.Context, seed uint64, n int) ([]audit.Task, error) {
	if s.info == nil {
		return nil, nil
	}
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	a, err := ask(ctx, c, methodTasks, &tasksParams{Seed: seed, N: n})
	if err != nil {
		return nil, err
	}
	return a.Tasks, nil
}

// Begin implements adapter.Server.
func (s *server) Begin(ctx context.Context, start adapter.Begin) (adapter.Episode, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	e := &episode{server: s, connection: c, uses: &atomic.Int32{}}
	e.uses.Store(1)
	if s.info == nil {
		return e, nil
	}
	a, err := ask(ctx, c, methodOpen, &openParams{Task: start.Task, State: start.State, Seed: start.Seed, Clock: start.Clock, Shared: start.Shared})
	if err != nil {
		return nil, errors.Join(err, e.Close()) //nolint:contextcheck // a good-bye outlives the caller's context
	}
	e.handle = a.Session
	return e, nil
}

// Close implements adapter.Server. Episodes own their connections.
func (s *server) Close() error { return nil }

// connection is one conversation with the server.
type connection struct {
	session *mcp.ClientSession
	calls   sync.Mutex // one at a time, also of forks: the tap keeps one answer
	tap     *tap
	process *process // nil over HTTP
	client  *http.Client
	changed atomic.Bool // the server announced other tools
}

// connect starts a process or a conversation over HTTP.
func (s *server) connect(ctx context.Context) (*connection, error) {
	c := &connection{tap: &tap{}}
	transport, err := s.transport(c)
	if err != nil {
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "understudy", Version: "1"}, &mcp.ClientOptions{
		Capabilities:           &mcp.ClientCapabilities{}, // neither roots, sampling nor elicitation: nothing can be asked of us
		MultiRoundTrip:         &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.changed.Store(true) },
	})
	for _, method := range []string{methodClose, methodSnapshot, methodRestore, methodDrop, methodFork, methodState, methodCheck} {
		err = errors.Join(err, mcp.AddSendingCustomMethod[*handle, *answer](client, method))
	}
	err = errors.Join(err, mcp.AddSendingCustomMethod[*openParams, *answer](client, methodOpen),
		mcp.AddSendingCustomMethod[*tasksParams, *answer](client, methodTasks))
	if err != nil {
		return nil, err
	}
	if c.session, err = client.Connect(ctx, transport, nil); err != nil {
		err = c.explain(err)
		c.close()
		return nil, err
	}
	return c, nil
}

func (s *server) transport(c *connection) (mcp.Transport, error) {
	if s.spec.URL == "" {
		p, err := start(s.spec, c.tap)
		if err != nil {
			return nil, err
		}
		c.process = p
		return tapTransport{&mcp.IOTransport{Reader: p.lines, Writer: p.stdin, MaxLineLength: adapter.MaxTransfer}, c.tap}, nil
	}
	headers := maps.Clone(s.spec.Headers)
	if s.spec.SessionHeader != "" {
		if headers == nil {
			headers = map[string]string{}
		}
		headers[s.spec.SessionHeader] = rand.Text()
	}
	c.client = &http.Client{Transport: tapRoundTripper{next: http.DefaultTransport.(*http.Transport).Clone(), headers: headers, tap: c.tap}, CheckRedirect: adapter.Stay} //nolint:forcetypeassert // of the standard library
	return &mcp.StreamableClientTransport{Endpoint: s.spec.URL, HTTPClient: c.client, MaxRetries: -1, DisableStandaloneSSE: true}, nil
}

// explain adds how the process ended.
func (c *connection) explain(err error) error {
	if c.process == nil {
		return audit.ShownError(err)
	}
	if words := c.process.lastWords(); words != "" {
		return fmt.Errorf("%s (%w)", words, err)
	}
	return err
}

// close ends the conversation and the process. The SDK's own close may wait for
// a server that does not answer; the process is ended first, then.
func (c *connection) close() {
	if c.process != nil {
		c.process.end()
	}
	if c.session != nil {
		_ = c.session.Close() // a server that is gone cannot say good-bye
	}
	if c.client != nil {
		c.client.CloseIdleConnections()
	}
}

// tools lists the tools from the bytes of the answers.
func (c *connection) tools(ctx context.Context) ([]audit.Tool, error) {
	var tools []audit.Tool
	params := &mcp.ListToolsParams{}
	const pages = 100 // a server whose pages never end is broken
	for range pages {
		c.tap.reset(false)
		page, err := c.session.ListTools(ctx, params)
		if err != nil {
			return nil, fmt.Errorf("tools/list: %w", c.explain(err))
		}
		raw, err := rawTools(c.tap)
		if err != nil {
			return nil, err
		}
		tools = append(tools, raw...)
		if page.NextCursor == "" {
			return tools, nil
		}
		params = &mcp.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, fmt.Errorf("tools/list: more than %d pages", pages)
}

func rawTools(t *tap) ([]audit.Tool, error) {
	response := t.take()
	if response == nil || response.Error != nil {
		return nil, errors.New("tools/list: no answer")
	}
	var list struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Input       json.RawMessage `json:"inputSchema"`
			Output      json.RawMessage `json:"outputSchema"`
			Annotations struct {
				ReadOnly    *bool `json:"readOnlyHint"`
				Destructive *bool `json:"destructiveHint"`
			} `json:"annotations"`
			Meta struct {
				Tool *audit.Tool `json:"understudy/tool"`
			} `json:"_meta"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(response.Result, &list); err != nil {
		return nil, fmt.Errorf("tools/list: %w", err)
	}
	tools := make([]audit.Tool, len(list.Tools))
	for i, t := range list.Tools {
		tools[i] = audit.Tool{Name: t.Name, Description: t.Description, Input: t.Input, Output: t.Output, Effect: audit.UnknownEffect}
		switch {
		case t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly:
			tools[i].Effect = audit.Read
		case t.Annotations.ReadOnly != nil || t.Annotations.Destructive != nil && *t.Annotations.Destructive:
			tools[i].Effect = audit.Write
		}
		if own := t.Meta.Tool; own != nil {
			tools[i].Effect, tools[i].Role, tools[i].Errors, tools[i].Echo = own.Effect, own.Role, own.Errors, own.Echo
		}
	}
	return tools, nil
}

func keys[V any](m map[string]V) iter.Seq[string] { return maps.Keys(m) }
