package openenv_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"understudy/audit"
	"understudy/audit/leaktest"
	"understudy/sandbox/adapter"
	"understudy/sandbox/openenv"
	"understudy/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// venue is an OpenEnv server: seats that can be taken, one environment a connection.
type venue struct {
	capacity int32 // connections at once; 0 = any number
	byMode   bool  // tools are registered by mode and listed nowhere
	extra    string
	open     atomic.Int32
	full     chan struct{} // gets one when a connection is turned away; those that nobody waits for are lost
	end      chan struct{} // closed with the test
}

type message struct {
	Type string         `json:"type"`
	Data map[string]any `json:"data"`
}

func (v *venue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	if n := v.open.Add(1); v.capacity > 0 && n > v.capacity {
		v.open.Add(-1)
		var m message
		_ = wsjson.Read(r.Context(), c, &m)
		select {
		case v.full <- struct{}{}:
		default:
		}
		_ = wsjson.Write(r.Context(), c, map[string]any{"type": "error", "data": map[string]string{"code": "CAPACITY_REACHED", "message": "full"}})
		return
	}
	defer v.open.Add(-1)
	e := &seats{venue: v, taken: map[string]string{}}
	for {
		var m message
		if wsjson.Read(r.Context(), c, &m) != nil || m.Type == "close" {
			return
		}
		answer := e.answer(m)
		if answer == nil {
			return
		}
		if text, raw := answer.(string); raw {
			_ = c.Write(r.Context(), websocket.MessageText, []byte(text))
			continue
		}
		if wsjson.Write(r.Context(), c, answer) != nil {
			return
		}
	}
}

// seats is one environment.
type seats struct {
	venue *venue
	taken map[string]string
	steps int
}

func (e *seats) answer(m message) any {
	observed := func(observation any) any {
		return map[string]any{"type": "observation", "data": map[string]any{"observation": observation, "reward": nil, "done": false}}
	}
	failed := func(code, text string) any {
		return map[string]any{"type": "error", "data": map[string]string{"code": code, "message": text}}
	}
	switch m.Type {
	case "reset":
		if m.Data["hall"] == "dark" {
			return failed("FACTORY_ERROR", "no such hall")
		}
		e.taken, e.steps = map[string]string{}, 0
		return observed(map[string]any{})
	case "state":
		return map[string]any{"type": "state", "data": map[string]any{"episode_id": "x", "step_count": e.steps, "taken": e.taken}}
	case "mcp":
		if e.venue.byMode {
			return failed("UNKNOWN_TYPE", "no mcp here")
		}
		return `{"type":"mcp","data":{"jsonrpc":"2.0","id":1,"result":{"tools":[` + tools + e.venue.extra + `]}}}`
	case "step":
		e.steps++
		if m.Data["type"] != "call_tool" {
			return failed("VALIDATION_ERROR", "unknown action")
		}
		tool, _ := m.Data["tool_name"].(string)
		arguments, _ := m.Data["arguments"].(map[string]any)
		return e.step(tool, arguments, observed, failed)
	}
	return failed("UNKNOWN_TYPE", m.Type)
}

const tools = `{"name":"seat","description":"One seat.","input_schema":{"type":"object","properties":{"seat":{"type":"string"}},"required":["seat"],"additionalProperties":false}},
{"name":"take","description":"Takes one.","input_schema":{"type":"object","properties":{"seat":{"type":"string"},"who":{"type":"string"}},"required":["seat","who"],"additionalProperties":false}},
{"name":"odd","description":"Breaks.","input_schema":{"type":"object","properties":{"how":{"type":"string"}}}}`

func (e *seats) step(tool string, arguments map[string]any, observed func(any) any, failed func(string, string) any) any {
	seat, _ := arguments["seat"].(string)
	result := func(v any) any { return observed(map[string]any{"tool_name": tool, "result": v, "error": nil}) }
	refused := func(kind, text string) any {
		return observed(map[string]any{"tool_name": tool, "result": nil, "error": map[string]string{"error_type": kind, "message": text}})
	}
	switch {
	case tool == "odd":
		return e.odd(arguments["how"], result, refused, failed)
	case !strings.HasPrefix(seat, "s"):
		return refused("tool_not_found", "Error executing tool "+tool+": seat "+seat+" not found")
	case tool == "seat":
		return result(map[string]any{"content": []any{map[string]string{"type": "text", "text": fmt.Sprintf(`{"seat":%q,"who":%q,"row":9007199254740993}`, seat, e.taken[seat])}}, "structured_content": nil, "is_error": false})
	case e.taken[seat] != "":
		return result(map[string]any{"content": []any{map[string]string{"type": "text", "text": "seat is already taken"}}, "is_error": true})
	}
	e.taken[seat], _ = arguments["who"].(string)
	return result(map[string]any{"ok": true})
}

func (e *seats) odd(how any, result func(any) any, refused func(string, string) any, failed func(string, string) any) any {
	switch how {
	case "die":
		return nil
	case "hang":
		<-e.venue.end
		return nil
	case "garbage":
		return "Traceback (most recent call last)"
	case "huge":
		return result(map[string]any{"pad": strings.Repeat("x", 6<<20)})
	case "endless":
		return result(map[string]any{"pad": strings.Repeat("x", 20<<20)})
	case "timeout":
		return refused("timeout", "tool timed out")
	case "transport":
		return refused("transport_error", "lost the database")
	case "raise":
		return failed("EXECUTION_ERROR", "Only 2 seats left, cannot take 3")
	case "session":
		return failed("SESSION_ERROR", "session is gone")
	case "done":
		return map[string]any{"type": "observation", "data": map[string]any{"observation": map[string]any{"result": map[string]any{"ok": true}}, "done": true}}
	}
	return result(map[string]any{"how": how})
}

func mount(t *testing.T, v *venue, spec openenv.Spec, config adapter.Config) *adapter.Environment {
	t.Helper()
	env, err := try(t, v, spec, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	return env
}

func try(t *testing.T, v *venue, spec openenv.Spec, config adapter.Config) (*adapter.Environment, error) {
	t.Helper()
	server := httptest.NewServer(v)
	v.end = make(chan struct{})
	t.Cleanup(func() { close(v.end); server.Close() })
	spec.URL = "ws" + strings.TrimPrefix(server.URL, "http") + "/ws"
	config.Name = "venue"
	return openenv.New(t.Context(), spec, config)
}

func call(tool, arguments string) audit.Call {
	return audit.Call{Tool: tool, Arguments: json.RawMessage(arguments)}
}

// patience is for the slowest machine: nothing that works waits for it.
const patience = 5 * time.Minute

func seated() adapter.Config {
	return adapter.Config{
		Deterministic: true, Timeout: patience, OpenTimeout: patience,
		Tools:  map[string]adapter.ToolConfig{"seat": {Effect: audit.Read}, "take": {Effect: audit.Write}},
		Probes: []adapter.Probe{{State: true}, {Call: "seat", Arguments: json.RawMessage(`{"seat":"$.arguments.seat"}`), At: "/seat"}},
		Tasks: []adapter.Task{{
			ID: "t", Solution: []audit.Call{call("seat", `{"seat":"s1"}`), call("take", `{"seat":"s1","who":"Ann"}`)},
			Checks: []adapter.Check{{Call: call("seat", `{"seat":"s1"}`), At: "/who", Equals: json.RawMessage(`"Ann"`)}},
		}},
	}
}

func TestConformance(t *testing.T) {
	t.Run("listed tools", func(t *testing.T) { sandboxtest.Test(t, mount(t, &venue{}, openenv.Spec{}, seated())) })
	t.Run("tools by mode", func(t *testing.T) {
		config := seated()
		if err := json.Unmarshal([]byte("["+strings.ReplaceAll(tools, "input_schema", "input")+"]"), &config.Declared); err != nil {
			t.Fatal(err)
		}
		sandboxtest.Test(t, mount(t, &venue{byMode: true}, openenv.Spec{}, config))
	})
}

func TestAnswersOfEveryKind(t *testing.T) {
	env := mount(t, &venue{}, openenv.Spec{}, seated())
	// Without probes: its one call is the one that hangs.
	impatient := mount(t, &venue{}, openenv.Spec{}, adapter.Config{Timeout: time.Second, OpenTimeout: patience})
	odd := func(how string) audit.Call { return call("odd", `{"how":"`+how+`"}`) }
	tests := []struct {
		call   audit.Call
		status audit.Status
		family audit.Family
		raw    string
		delta  string
		lost   bool
		reason string
	}{
		{call("seat", `{"seat":"s1"}`), audit.StatusOK, "", `{"seat":"s1","who":"","row":9007199254740993}`, "", false, "a result in snake case, every digit"},
		{call("take", `{"seat":"s1","who":"Ann"}`), audit.StatusOK, "", `{"ok":true}`, `/seat/who "Ann"; /state/taken/s1 "Ann"`, false, "the exported state and a probe show the write"},
		{call("seat", `{"seat":"x"}`), audit.StatusRefused, audit.NotFound, "", "", false, "tool_not_found of a tool that is there is a missing seat"},
		{call("seat", `{"chair":"x"}`), audit.StatusInvalid, audit.SchemaInvalid, "", "", false, "arguments are validated here"},
		{odd("raise"), audit.StatusRefused, audit.Precondition, "", "", false, "an exception says what a rule says"},
		{odd("timeout"), audit.StatusUnknown, audit.Internal, "", "", true, "the server gave up: it may have happened"},
		{odd("transport"), audit.StatusUnknown, audit.Internal, "", "", false, "the tool may have written before it broke"},
		{odd("session"), audit.StatusUnknown, audit.Internal, "", "", true, "there is no environment any more"},
		{odd("die"), audit.StatusUnknown, audit.Internal, "", "", true, "the connection closes"},
		{odd("hang"), audit.StatusUnknown, audit.Internal, "", "", true, "a time-out"},
		{odd("garbage"), audit.StatusUnknown, audit.Internal, "", "", true, "no message"},
		{odd("endless"), audit.StatusUnknown, audit.Internal, "", "", true, "beyond 16 MiB nothing is read"},
		{odd("huge"), audit.StatusOK, "", "", "", false, "6 MB are cut, and oversize"},
		{odd("done"), audit.StatusOK, "", `{"ok":true}`, "", true, "the episode is over after this call"},
	}
	for _, test := range tests {
		env := env
		if strings.Contains(string(test.call.Arguments), "hang") {
			env = impatient
		}
		s, err := env.Open(t.Context(), audit.Start{Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Call(t.Context(), test.call)
		if err != nil {
			t.Fatal(err)
		}
		family := audit.Family("")
		if o.Error != nil {
			family = o.Error.Family
		}
		if o.Status != test.status || family != test.family || test.raw != "" && string(o.Raw) != test.raw || shown(o) != test.delta || len(o.Raw) > adapter.MaxAnswer+1 {
			t.Errorf("%s: got %s %s %.200q %q %v, want %s %s %q %q", test.reason, o.Status, family, o.Raw, shown(o), o.Error, test.status, test.family, test.raw, test.delta)
		}
		next, err := s.Call(t.Context(), call("seat", `{"seat":"s1"}`))
		if err != nil || (next.Status != audit.StatusOK) != test.lost {
			t.Errorf("%s: the next call is %s %v, %v", test.reason, next.Status, next.Error, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func shown(o audit.Observation) string {
	var parts []string
	for _, op := range o.Delta {
		parts = append(parts, op.Path+" "+string(op.Value))
	}
	return strings.Join(parts, "; ")
}

// A server with one place lets the next episode in when the first one ends. Who runs
// out of time before that is told that it was full, also while it asks again.
func TestAFullServerIsWaitedFor(t *testing.T) {
	v := &venue{capacity: 1, full: make(chan struct{}, 1)}
	env := mount(t, v, openenv.Spec{}, seated())
	first, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	select { // it may have waited for the end of the connection that asked for the tools
	case <-v.full:
	default:
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-v.full
		<-v.full // it asks again, so it has heard the first refusal; it never hears this one
		cancel(context.DeadlineExceeded)
	}()
	_, err = env.Open(ctx, audit.Start{})
	if audit.ErrorCode(err) != audit.CodeInfrastructure || !strings.Contains(err.Error(), "max_concurrent_envs") {
		t.Errorf("a server that stays full: %v", err)
	}
	second := make(chan error, 1)
	go func() {
		s, err := env.Open(context.WithoutCancel(t.Context()), audit.Start{})
		if err == nil {
			err = s.Close()
		}
		second <- err
	}()
	<-v.full
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
	if notes := strings.Join(env.Notes(), ""); !strings.Contains(notes, "full") {
		t.Errorf("notes %q do not say that episodes waited", notes)
	}
}

func TestBadServers(t *testing.T) {
	tests := []struct {
		venue  *venue
		spec   openenv.Spec
		says   string
		reason string
	}{
		{&venue{extra: `,{"name":"reset","input_schema":{"type":"object"}}`}, openenv.Spec{}, "word of its protocol", "a reserved name"},
		{&venue{byMode: true}, openenv.Spec{}, "no tools", "tools that are listed nowhere and not declared"},
		{&venue{}, openenv.Spec{Reset: json.RawMessage(`{"hall":"dark"}`)}, "no such hall", "an environment that cannot be made"},
	}
	for _, test := range tests {
		_, err := try(t, test.venue, test.spec, adapter.Config{})
		if err == nil || audit.ErrorHint(err) == "" || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want an error that says %q, with a hint", test.reason, err, test.says)
		}
	}
	_, err := openenv.New(t.Context(), openenv.Spec{URL: "http://127.0.0.1:8000"}, adapter.Config{Name: "x"})
	if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(audit.ErrorHint(err), "/ws") {
		t.Errorf("the HTTP address: %v", err)
	}
}
