package mcp_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"understudy/audit"
	"understudy/audit/leaktest"
	"understudy/sandbox"
	"understudy/sandbox/adapter"
	"understudy/sandbox/domains"
	"understudy/sandbox/mcp"
	"understudy/sandbox/sandboxtest"
)

// asServer, when set, makes this test binary an MCP server on stdin and stdout.
const asServer = "UNDERSTUDY_TEST_MCP"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asServer); kind != "" {
		os.Exit(serve(kind))
	}
	leaktest.Main(m)
}

func serve(kind string) int {
	if kind == "offer" {
		env, err := sandbox.New(domains.FS()).Environment(context.Background(), "retail-mini")
		if err != nil {
			panic(err)
		}
		offer, err := mcp.NewOffer(context.Background(), env, audit.Start{})
		if err != nil {
			panic(err)
		}
		_ = offer.ServeStdio(context.Background())
		return 0
	}
	if kind == "late" {
		return late()
	}
	return warehouse(kind)
}

// domain is a built-in one.
func domain(t *testing.T) audit.Environment {
	t.Helper()
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() { _ = registry.Close() })
	env, err := registry.Environment(t.Context(), "retail-mini")
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// patience is for the slowest machine: nothing that works waits for it.
const patience = 5 * time.Minute

func mount(t *testing.T, spec mcp.Spec, config adapter.Config) *adapter.Environment {
	t.Helper()
	config.Name = "mounted"
	config.Timeout, config.OpenTimeout = cmp.Or(config.Timeout, patience), patience
	env, err := mcp.New(t.Context(), spec, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	return env
}

// itself is this test binary as a server of some kind.
func itself(kind string) mcp.Spec {
	return mcp.Spec{Command: []string{os.Args[0]}, Env: map[string]string{asServer: kind}}
}

// offered serves an environment over HTTP.
func offered(t *testing.T, env audit.Environment, start audit.Start) string {
	t.Helper()
	offer, err := mcp.NewOffer(t.Context(), env, start)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := offer.Handler()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		if err := offer.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return server.URL
}

// A domain of ours behind our server and our client keeps the whole contract.
func TestConformanceOfOurOwnServer(t *testing.T) {
	t.Run("http", func(t *testing.T) {
		sandboxtest.Test(t, mount(t, mcp.Spec{URL: offered(t, domain(t), audit.Start{})}, adapter.Config{}))
	})
	if raceEnabled { // a process an episode, each with a detector of its own
		return
	}
	t.Run("stdio", func(t *testing.T) { sandboxtest.Test(t, mount(t, itself("offer"), adapter.Config{})) })
}

// Any MCP client can play in our domains; two clients never meet.
func TestAnyClientFindsAWorldOfItsOwn(t *testing.T) {
	tasks, err := domain(t).(audit.Tasker).Tasks(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	url := offered(t, domain(t), audit.Start{Task: tasks[0].ID})
	text := func(tool string, arguments string, s *sdk.ClientSession) string {
		res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatal(err)
		}
		return res.Content[0].(*sdk.TextContent).Text
	}
	connect := func() *sdk.ClientSession {
		s, err := sdk.NewClient(&sdk.Implementation{Name: "any"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one, two := connect(), connect()
	defer func() { _, _ = one.Close(), two.Close() }()
	write := tasks[0].Solution[len(tasks[0].Solution)-1]
	first := text(write.Tool, string(write.Arguments), one)
	if again := text(write.Tool, string(write.Arguments), two); again != first {
		t.Errorf("another client's world: %s, want %s as in a fresh one", again, first)
	}
	if again := text(write.Tool, string(write.Arguments), one); again == first {
		t.Errorf("the same write twice in one world: %s both times", again)
	}
	if res, err := one.CallTool(t.Context(), &sdk.CallToolParams{Name: write.Tool, Arguments: map[string]any{"x": 1}}); err != nil || !res.IsError {
		t.Errorf("bad arguments: %v %v, want isError", res, err)
	}
}
