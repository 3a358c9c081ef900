package mount_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"understudy/audit"
	"understudy/sandbox/mount"
	"understudy/sandbox/sandboxtest"
)

// gym is a resources server of NeMo Gym's kind: POST /seed_session makes a world
// and sets its cookie, POST /TOOL calls a tool in it, the rest is the trainer's.
type gym struct {
	mu     sync.Mutex
	worlds map[string]map[string]int
	token  string // that requests must bring
}

func (g *gym) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+g.token {
		http.Error(w, `{"detail":"who is there?"}`, http.StatusUnauthorized)
		return
	}
	if r.URL.Path == "/openapi.json" {
		fmt.Fprint(w, gymDocument)
		return
	}
	if r.URL.Path == "/seed_session" {
		var seed struct{ Apples int }
		_ = json.NewDecoder(r.Body).Decode(&seed)
		name := fmt.Sprint("w", len(g.worlds))
		g.worlds[name] = map[string]int{"apples": 3 + seed.Apples}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: name})
		return
	}
	cookie, err := r.Cookie("session")
	if err != nil || g.worlds[cookie.Value] == nil {
		http.Error(w, `{"detail":"no session"}`, http.StatusInternalServerError)
		return
	}
	world := g.worlds[cookie.Value]
	var call struct{ N int }
	_ = json.NewDecoder(r.Body).Decode(&call)
	switch r.URL.Path {
	case "/count":
		fmt.Fprintf(w, `{"apples":%d}`, world["apples"])
	case "/eat":
		if call.N > world["apples"] {
			http.Error(w, fmt.Sprintf(`{"detail":"only %d left"}`, world["apples"]), http.StatusConflict)
			return
		}
		world["apples"] -= call.N
		fmt.Fprintf(w, `{"eaten":%d}`, call.N)
	}
}

const gymDocument = `{"openapi":"3.1.0","paths":{
"/seed_session":{"post":{"operationId":"seed_session_seed_session_post"}}, "/verify":{"post":{"operationId":"verify_verify_post"}},
"/count":{"post":{"operationId":"count_count_post","requestBody":{"content":{"application/json":{"schema":{"type":"object"}}}}}},
"/eat":{"post":{"operationId":"eat_eat_post","requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Eat"}}}}}}},
"components":{"schemas":{"Eat":{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":1}}}}}}`

const gymDeclaration = `
environments:
  apples:
    adapter: nemo-gym
    url: ${GYM_URL}
    headers: {Authorization: "Bearer ${GYM_TOKEN}"}
    deterministic: true
    tools: {count: {effect: read}, eat: {effect: write}}
    DOCUMENT
    state_probes: [{call: count}]
    tasks:
      - id: eat
        seeding: {apples: 2}
        setup: [{tool: eat, arguments: {n: 1}}]
        solution: [{tool: count}, {tool: eat, arguments: {n: 3}}]
        checks: [{call: {tool: count}, at: /apples, equals: 1}]
`

// NeMo Gym's kind of server, by its own document and by declared tools alone.
func TestNeMoGym(t *testing.T) {
	for name, document := range map[string]string{
		"its document":   "document: ${GYM_URL}/openapi.json",
		"declared tools": "exclude: [/health]",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(gymDeclaration, "DOCUMENT", document, 1)
			if name == "declared tools" {
				text = strings.Replace(text, "count: {effect: read}", `count: {effect: read, input: {type: object}}`, 1)
				text = strings.Replace(text, "eat: {effect: write}", `eat: {effect: write, input: {type: object, required: [n], properties: {n: {type: integer, minimum: 1}}}}`, 1)
			}
			server := httptest.NewServer(&gym{worlds: map[string]map[string]int{}, token: token})
			t.Cleanup(server.Close)
			file, err := mount.Parse([]byte(text), "gym.yaml", ".")
			if err != nil {
				t.Fatal(err)
			}
			env, err := file.Open(t.Context(), "apples", func(name string) (string, bool) {
				value, ok := map[string]string{"GYM_URL": server.URL, "GYM_TOKEN": token}[name]
				return value, ok
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = env.Close() })
			tools, err := env.Tools(t.Context())
			if err != nil || len(tools) != 2 {
				t.Errorf("tools %v, %v; want count and eat: the trainer's routes are none", tools, err)
			}
			sandboxtest.Test(t, env)
		})
	}
}

// A secret in an address is in no message of a call either.
func TestASecretIsInNoObservation(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&gym{worlds: map[string]map[string]int{}, token: token})
	text := strings.Replace(gymDeclaration, "DOCUMENT", "exclude: [/health]", 1)
	text = strings.Replace(text, "count: {effect: read}", `count: {effect: read, input: {type: object}}`, 1)
	text = strings.Replace(text, "eat: {effect: write}", `eat: {effect: write, input: {type: object}}`, 1)
	file, err := mount.Parse([]byte(text), "gym.yaml", ".")
	if err != nil {
		t.Fatal(err)
	}
	env, err := file.Open(t.Context(), "apples", func(name string) (string, bool) {
		return map[string]string{"GYM_URL": server.URL, "GYM_TOKEN": token}[name], true
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	s, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	server.CloseClientConnections()
	server.Close()
	o, err := s.Call(t.Context(), audit.Call{Tool: "count"})
	if err != nil || o.Status != audit.StatusUnknown || strings.Contains(o.Error.Message, server.URL) || !strings.Contains(o.Error.Message, "${GYM_URL}") {
		t.Errorf("a server that is gone: %s %v, %v; want its address hidden behind ${GYM_URL}", o.Status, o.Error, err)
	}
}

// A secret that the server repeats is in no error.
func TestASecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "not "+r.Header.Get("Authorization"), http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	text := strings.Replace(gymDeclaration, "DOCUMENT", "document: ${GYM_URL}/openapi.json", 1)
	for _, adapter := range []string{"nemo-gym", "mcp-http"} {
		text := strings.Replace(text, "nemo-gym", adapter, 1)
		if adapter == "mcp-http" {
			text = strings.Replace(text, "document: ${GYM_URL}/openapi.json", "", 1)
			text = strings.ReplaceAll(text, "url: ${GYM_URL}", "url: ${GYM_URL}/${GYM_TOKEN}/mcp")
		}
		file, err := mount.Parse([]byte(text), "gym.yaml", ".")
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.Open(t.Context(), "apples", func(name string) (string, bool) {
			return map[string]string{"GYM_URL": server.URL, "GYM_TOKEN": token}[name], true
		})
		if err == nil || strings.Contains(err.Error()+audit.ErrorHint(err), token) || audit.ErrorHint(err) == "" {
			t.Errorf("%s: got %v (hint %q), want an error with a hint and without the secret", adapter, err, audit.ErrorHint(err))
		}
	}
}
