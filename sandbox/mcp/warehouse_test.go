package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// parts is a small MCP server: shelves with parts, and tools that break in every
// way that servers break. It knows nothing of our extension.
type parts struct {
	mu     sync.Mutex
	pieces map[string]json.Number
	taken  int
	leak   string // file that outlives the process
	server *sdk.Server
}

const (
	partInput = `{"type":"object","properties":{"part":{"type":"string"}},"required":["part"],"additionalProperties":false}`
	takeInput = `{"type":"object","properties":{"part":{"type":"string"},"pieces":{"type":"integer","minimum":1}},"required":["part","pieces"],"additionalProperties":false}`
	noInput   = `{"type":"object"}`
)

func newParts(versions []string) *parts {
	p := &parts{
		pieces: map[string]json.Number{"bolt": "9007199254740993", "nut": "3"}, leak: os.Getenv("LEAK"),
		server: sdk.NewServer(&sdk.Implementation{Name: "parts", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: versions}),
	}
	p.add("count", partInput, true, p.count)
	p.add("take", takeInput, false, p.take)
	for name, run := range p.mischief() {
		p.add(name, noInput, false, func(map[string]any) *sdk.CallToolResult { return run() })
	}
	return p
}

func (p *parts) add(name, input string, read bool, run func(arguments map[string]any) *sdk.CallToolResult) {
	tool := &sdk.Tool{Name: name, Description: "Of the parts store.", InputSchema: json.RawMessage(input), Annotations: &sdk.ToolAnnotations{ReadOnlyHint: read}}
	p.server.AddTool(tool, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var arguments map[string]any
		if err := json.Unmarshal(req.Params.Arguments, &arguments); err != nil {
			return nil, err
		}
		if name == "protocol" {
			return nil, &jsonrpc.Error{Code: -32000, Message: "the database is gone"}
		}
		return run(arguments), nil
	})
}

func said(format string, args ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func refused(format string, args ...any) *sdk.CallToolResult {
	r := said(format, args...)
	r.IsError = true
	return r
}

func (p *parts) count(arguments map[string]any) *sdk.CallToolResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	part := arguments["part"].(string)
	n, found := p.pieces[part]
	if !found {
		return refused("Error executing tool count: part %s not found", part)
	}
	text := fmt.Sprintf(`{"part":%q,"pieces":%s,"taken":%d}`, part, n, p.taken)
	r := said("%s", text)
	r.StructuredContent = json.RawMessage(text)
	return r
}

func (p *parts) take(arguments map[string]any) *sdk.CallToolResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	part, n := arguments["part"].(string), int64(arguments["pieces"].(float64))
	have, found := p.pieces[part]
	if !found {
		return refused("part %s not found", part)
	}
	left, err := have.Int64()
	if err != nil || left < n {
		return refused(`{"error":{"code":"OUT_OF_STOCK","message":"only %s left"}}`, have)
	}
	p.pieces[part] = json.Number(strconv.FormatInt(left-n, 10))
	p.taken++
	if p.leak != "" {
		before, _ := os.ReadFile(p.leak)
		_ = os.WriteFile(p.leak, append(before, 'x'), 0o600)
		return said(`{"part":%q,"left":%s,"log":%d}`, part, p.pieces[part], len(before))
	}
	return said(`{"part":%q,"left":%s}`, part, p.pieces[part])
}

// mischief is a tool for each way to break.
func (p *parts) mischief() map[string]func() *sdk.CallToolResult {
	return map[string]func() *sdk.CallToolResult{
		"die": func() *sdk.CallToolResult {
			fmt.Fprintln(os.Stderr, "the roof came down")
			os.Exit(7)
			return nil
		},
		"hang": func() *sdk.CallToolResult { select {} },
		"garbage": func() *sdk.CallToolResult {
			fmt.Println("Traceback (most recent call last): oops")
			return said(`{}`)
		},
		"long":    func() *sdk.CallToolResult { return said(`{"pad":"%s"}`, strings.Repeat("x", 3<<19)) },
		"huge":    func() *sdk.CallToolResult { return said(`{"pad":"PAD-6-MIB"}`) },
		"endless": func() *sdk.CallToolResult { return said(`{"pad":"PAD-20-MIB"}`) },
		"retool": func() *sdk.CallToolResult {
			p.add("count", noInput, true, p.count)
			return said(`{"done":true}`)
		},
		"orphan": func() *sdk.CallToolResult {
			cmd := exec.CommandContext(context.Background(), "sleep", "300")
			if err := cmd.Start(); err != nil {
				return refused("%v", err)
			}
			return said(`{"pid":%d}`, cmd.Process.Pid)
		},
		"protocol": func() *sdk.CallToolResult { return nil },
		"ask": func() *sdk.CallToolResult {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q1": &sdk.ElicitParams{Message: "Which shelf?"}}}
		},
		"nested": func() *sdk.CallToolResult {
			return said(`{"success": false, "error": "part bolt is already reserved"}`)
		},
		"python": func() *sdk.CallToolResult { return said(`{'success': True, 'data': None}`) },
		"disagree": func() *sdk.CallToolResult {
			r := said(`{"pieces":3}`)
			r.StructuredContent = json.RawMessage(`{"pieces":4}`)
			return r
		},
		"wrapped": func() *sdk.CallToolResult {
			r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "1"}, &sdk.TextContent{Text: "2"}}}
			r.StructuredContent = json.RawMessage(`{"result":[1,2]}`)
			return r
		},
		"broken": func() *sdk.CallToolResult { return refused("Internal server error: Traceback") },
	}
}

// padder writes paddings out last, so that they cost no encoding.
type padder struct{ io.WriteCloser }

func (p padder) Write(text []byte) (int, error) {
	out := text
	for _, size := range []int{6, 20} {
		if place := fmt.Appendf(nil, "PAD-%d-MIB", size); bytes.Contains(out, place) {
			out = bytes.ReplaceAll(out, place, bytes.Repeat([]byte("x"), size<<20))
		}
	}
	_, err := p.WriteCloser.Write(out)
	return len(text), err
}

// warehouse serves parts on stdin and stdout.
func warehouse(kind string) int {
	var versions []string
	if kind == "legacy" {
		versions = []string{"2025-06-18", "2025-03-26"}
	}
	if err := newParts(versions).server.Run(context.Background(), &sdk.IOTransport{Reader: os.Stdin, Writer: padder{os.Stdout}}); err != nil {
		return 1
	}
	return 0
}

// overHTTP serves parts: with sessions each has a store of its own, without each
// value of the header X-Shop does.
func overHTTP(versions []string, stateless bool) http.Handler {
	var mu sync.Mutex
	stores := map[string]*parts{}
	return sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		if !stateless {
			return newParts(versions).server
		}
		mu.Lock()
		defer mu.Unlock()
		shop := r.Header.Get("X-Shop")
		if stores[shop] == nil {
			stores[shop] = newParts(versions)
		}
		return stores[shop].server
	}, &sdk.StreamableHTTPOptions{Stateless: stateless, SessionTimeout: time.Hour})
}
