package mcp_test

import (
	"net/http/httptest"
	"os"
	"testing"

	"understudy/audit"
	"understudy/sandbox/adapter"
	"understudy/sandbox/mcp"
)

// BenchmarkCall is one call of a read, and BenchmarkEpisode the start and the end
// of an episode: a process each, or a session over HTTP.
func BenchmarkCall(b *testing.B) {
	for name, spec := range benched(b) {
		b.Run(name, func(b *testing.B) {
			s := begun(b, opened(b, spec))
			defer func() { _ = s.Close() }()
			count := call("count", `{"part":"nut"}`)
			for b.Loop() {
				if o, err := s.Call(b.Context(), count); err != nil || o.Status != audit.StatusOK {
					b.Fatal(o.Status, err)
				}
			}
		})
	}
}

// BenchmarkEpisode is described at BenchmarkCall.
func BenchmarkEpisode(b *testing.B) {
	for name, spec := range benched(b) {
		b.Run(name, func(b *testing.B) {
			env := opened(b, spec)
			for b.Loop() {
				if err := begun(b, env).Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benched(b *testing.B) map[string]mcp.Spec {
	b.Helper()
	server := httptest.NewServer(overHTTP([]string{"2025-11-25"}, false))
	b.Cleanup(server.Close)
	return map[string]mcp.Spec{"stdio": {Command: []string{os.Args[0]}, Env: map[string]string{asServer: "parts"}}, "http": {URL: server.URL}}
}

func opened(b *testing.B, spec mcp.Spec) audit.Environment {
	b.Helper()
	env, err := mcp.New(b.Context(), spec, adapter.Config{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = env.Close() })
	return env
}

func begun(b *testing.B, env audit.Environment) audit.Session {
	b.Helper()
	s, err := env.Open(b.Context(), audit.Start{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}
