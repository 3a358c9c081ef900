package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"understudy/audit"
	"understudy/sandbox/adapter"
	"understudy/sandbox/mcp"
)

// late is a server with the extension whose tool slow is answered right after the
// call that follows it. It opens the pipe HEARD when it has read the call of slow.
func late() int {
	answers := map[string]string{
		"initialize": `{"protocolVersion":"2025-06-18","serverInfo":{"name":"late","version":"1"},"capabilities":{"tools":{},` +
			`"extensions":{"understudy/sandbox":{"version":1,"capabilities":["fork"]}}}}`,
		"tools/list":   `{"tools":[{"name":"slow","inputSchema":{"type":"object"}},{"name":"quick","inputSchema":{"type":"object"}}]}`,
		"sandbox/open": `{"session":"w1"}`, "sandbox/fork": `{"session":"w2"}`, "sandbox/close": `{}`,
	}
	const said = `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}` + "\n"
	owed := ""
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &request) != nil || len(request.ID) == 0 {
			continue
		}
		result, known := answers[request.Method]
		switch {
		case request.Params.Name == "slow":
			owed = string(request.ID)
			if err := os.WriteFile(os.Getenv("HEARD"), nil, 0o600); err != nil {
				return 1
			}
		case request.Method == "tools/call":
			fmt.Print(fmt.Sprintf(said, request.ID, "quick") + fmt.Sprintf(said, owed, "slow"))
		case known:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", request.ID, result)
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", request.ID)
		}
	}
	return 0
}

// TestALateAnswerIsNobodys: a fork goes on where its sister's call ran out of
// time, and is not given that call's answer.
func TestALateAnswerIsNobodys(t *testing.T) {
	spec := itself("late")
	spec.Env["HEARD"] = filepath.Join(t.TempDir(), "heard")
	if err := syscall.Mkfifo(spec.Env["HEARD"], 0o600); err != nil {
		t.Fatal(err)
	}
	env := mount(t, spec, adapter.Config{})
	sister := open(t, env)
	fork, err := sister.(audit.Forker).Fork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fork.Close() }()
	hurried, cancel := context.WithCancelCause(t.Context())
	go func() {
		_, _ = os.ReadFile(spec.Env["HEARD"]) // until the server has the request
		cancel(context.DeadlineExceeded)
	}()
	if o, err := sister.Call(hurried, call("slow", `{}`)); err != nil || o.Status != audit.StatusUnknown {
		t.Fatalf("slow: %s %s, %v", o.Status, o.Raw, err)
	}
	if o := made(t, fork, call("quick", `{}`)); string(o.Raw) != "quick" {
		t.Errorf("quick was answered %q", o.Raw)
	}
}

// doorkeeper is an environment in which two sessions are opened at once.
type doorkeeper struct {
	audit.Environment

	both   sync.WaitGroup
	opened atomic.Int32
	closed atomic.Int32
}

type guest struct {
	audit.Session

	door *doorkeeper
}

func (d *doorkeeper) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	d.opened.Add(1)
	d.both.Done()
	d.both.Wait()
	s, err := d.Environment.Open(ctx, start)
	return guest{s, d}, err
}

func (g guest) Close() error {
	g.door.closed.Add(1)
	return g.Session.Close()
}

// TestFirstCallsAtOnce: a client whose first two calls come at once has one
// world, and the one that came too late is not left behind.
func TestFirstCallsAtOnce(t *testing.T) {
	door := &doorkeeper{Environment: domain(t)}
	door.both.Add(2)
	offer, err := mcp.NewOffer(t.Context(), door, audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	there, here := sdk.NewInMemoryTransports()
	served := make(chan error, 1)
	go func() { served <- offer.Serve(t.Context(), there) }()
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if _, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_user", Arguments: map[string]any{"user": "nobody"}}); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	_ = client.Close()
	if err := <-served; err != nil {
		t.Log(err) // how it left does not matter
	}
	if err := offer.Close(); err != nil {
		t.Error(err)
	}
	if door.opened.Load() != 2 || door.closed.Load() != 2 {
		t.Errorf("%d worlds were opened and %d closed", door.opened.Load(), door.closed.Load())
	}
}

// TestSecretsStay: a redirect to another host gets none of the declared headers.
func TestSecretsStay(t *testing.T) {
	var stolen atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stolen.Store(r.Header.Get("X-Key") != "")
	}))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	_, err := mcp.New(t.Context(), mcp.Spec{URL: server.URL, Headers: map[string]string{"X-Key": "secret"}}, adapter.Config{Name: "moved"})
	if err == nil || stolen.Load() {
		t.Errorf("got %v; the other host got the key: %v", err, stolen.Load())
	}
}
