package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"understudy/sandbox/adapter"
)

// tap keeps the bytes of the last response to a call, which the SDK decodes into
// doubles. Calls of one connection come one after the other.
type tap struct {
	mu       sync.Mutex
	asked    jsonrpc.ID // of the last request; an answer to an earlier one came too late
	last     *jsonrpc.Response
	bytes    bytes.Buffer // of the HTTP response in which it is
	cuts     bool         // a call waits whose answer may be cut
	oversize []byte       // the beginning of an answer that was not decoded
}

// reset prepares for the next answer; cuts says that it may be cut.
func (t *tap) reset(cuts bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.cuts, t.oversize = nil, cuts, nil
	t.bytes.Reset()
}

// cut keeps the beginning of an answer that is too long to decode, if such a one
// is waited for.
func (t *tap) cut(line []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.cuts {
		return false
	}
	t.cuts, t.oversize = false, adapter.Cut(line)
	return true
}

// beginning is what is kept of an answer that was not decoded; nil = it was.
func (t *tap) beginning() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cuts = false
	return t.oversize
}

// take returns the response to the call that was made since reset, or nil.
func (t *tap) take() *jsonrpc.Response {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil {
		return t.last
	}
	return findResponse(t.bytes.Bytes())
}

// findResponse looks for a response in a body: one message, or a stream of events.
func findResponse(body []byte) *jsonrpc.Response {
	if r := asResponse(bytes.TrimSpace(body)); r != nil {
		return r
	}
	var data []byte
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, adapter.MaxTransfer+1)
	for lines.Scan() {
		text := lines.Bytes()
		if rest, ok := bytes.CutPrefix(text, []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(rest, []byte(" "))...)
			continue
		}
		if len(text) == 0 {
			if r := asResponse(data); r != nil {
				return r
			}
			data = nil
		}
	}
	return asResponse(data)
}

func asResponse(text []byte) *jsonrpc.Response {
	if len(text) == 0 || text[0] != '{' {
		return nil
	}
	message, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil
	}
	response, _ := message.(*jsonrpc.Response)
	return response
}

// tapTransport reads along on a transport that is a stream of messages.
type tapTransport struct {
	mcp.Transport
	tap *tap
}

func (t tapTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return tapConnection{c, t.tap}, nil
}

type tapConnection struct {
	mcp.Connection
	tap *tap
}

func (c tapConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	if response, ok := message.(*jsonrpc.Response); ok && err == nil {
		c.tap.mu.Lock()
		if response.ID == c.tap.asked {
			c.tap.last = response
		}
		c.tap.mu.Unlock()
	}
	return message, err
}

func (c tapConnection) Write(ctx context.Context, message jsonrpc.Message) error {
	if request, ok := message.(*jsonrpc.Request); ok && request.IsCall() {
		c.tap.mu.Lock()
		c.tap.asked = request.ID
		c.tap.mu.Unlock()
	}
	return c.Connection.Write(ctx, message)
}

// tapRoundTripper reads along on HTTP, adds the declared headers, and bounds
// what is read of a body.
type tapRoundTripper struct {
	next    http.RoundTripper
	headers map[string]string
	tap     *tap
}

func (t tapRoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name, value := range t.headers {
		req.Header.Set(name, value)
	}
	wanted, err := wantsTap(req)
	if err != nil {
		return nil, err
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body := &tapBody{ReadCloser: resp.Body, left: adapter.MaxTransfer}
	if wanted {
		body.tap = t.tap
	}
	resp.Body = body
	return resp, nil
}

// wantsTap reports whether a request's response is one whose numbers we need.
func wantsTap(req *http.Request) (bool, error) {
	if req.Method != http.MethodPost || req.Body == nil {
		return false, nil
	}
	text, err := io.ReadAll(req.Body)
	if err != nil {
		return false, err
	}
	if err := req.Body.Close(); err != nil {
		return false, err
	}
	req.Body = io.NopCloser(bytes.NewReader(text))
	var message struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(text, &message) == nil && strings.HasPrefix(message.Method, "tools/"), nil
}

// errTransfer ends the reading of a body that goes on and on.
var errTransfer = errors.New("the answer is over 16 MiB")

type tapBody struct {
	io.ReadCloser
	tap  *tap // nil = not kept
	left int
}

func (b *tapBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTransfer
	}
	if b.tap != nil {
		b.tap.mu.Lock()
		b.tap.bytes.Write(p[:n])
		b.tap.mu.Unlock()
	}
	return n, err
}
