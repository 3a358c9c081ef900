package mcp_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"understudy/audit"
	"understudy/sandbox"
	"understudy/sandbox/adapter"
	"understudy/sandbox/mcp"
	"understudy/sandbox/sandboxtest"
)

// counted are the declarations that make the store auditable: a probe shows the
// state, a task says how to write.
func counted() adapter.Config {
	return adapter.Config{
		Deterministic: true,
		Probes:        []adapter.Probe{{Call: "count", Arguments: json.RawMessage(`{"part":"$.arguments.part"}`)}},
		Tasks: []adapter.Task{{
			ID: "t1", Prompt: "Take two nuts.",
			Solution: []audit.Call{call("count", `{"part":"nut"}`), call("take", `{"part":"nut","pieces":2}`)},
			Checks:   []adapter.Check{{Call: call("count", `{"part":"nut"}`), At: "/pieces", Equals: json.RawMessage(`1.0`)}},
		}},
	}
}

func call(tool, arguments string) audit.Call {
	return audit.Call{Tool: tool, Arguments: json.RawMessage(arguments)}
}

func open(t *testing.T, env audit.Environment) audit.Session {
	t.Helper()
	s, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func made(t *testing.T, s audit.Session, c audit.Call) audit.Observation {
	t.Helper()
	o, err := s.Call(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// transports are the ways to reach the store, in both eras of the protocol.
func transports(t *testing.T) map[string]mcp.Spec {
	t.Helper()
	legacy := httptest.NewServer(overHTTP([]string{"2025-11-25", "2025-06-18"}, false))
	modern := httptest.NewServer(overHTTP(nil, true))
	t.Cleanup(func() { legacy.Close(); modern.Close() })
	return map[string]mcp.Spec{
		"stdio, modern": itself("parts"), "stdio, legacy": itself("legacy"),
		"http, legacy": {URL: legacy.URL}, "http, modern": {URL: modern.URL, SessionHeader: "X-Shop"},
	}
}

func TestConformanceOfAForeignServer(t *testing.T) {
	for name, spec := range transports(t) {
		t.Run(name, func(t *testing.T) { sandboxtest.Test(t, mount(t, spec, counted())) })
	}
}

func TestAnswersOfEveryKind(t *testing.T) {
	tests := []struct {
		call   audit.Call
		status audit.Status
		family audit.Family
		raw    string
		delta  string
		reason string
	}{
		{call("count", `{"part":"bolt"}`), audit.StatusOK, "", `{"part":"bolt","pieces":9007199254740993,"taken":0}`, "", "every digit of a number beyond 2^53"},
		{call("count", `{"part":"gear"}`), audit.StatusRefused, audit.NotFound, `{"content":[{"text":"Error executing tool count: part gear not found","type":"text"}],"isError":true}`, "", "a framework's prefix does not make it an unknown tool"},
		{call("take", `{"part":"nut","pieces":2}`), audit.StatusOK, "", `{"part":"nut","left":1}`, `/count/nut/pieces 1; /count/nut/taken 1`, "the probe shows what a write did"},
		{call("take", `{"part":"nut","pieces":9}`), audit.StatusRefused, audit.Precondition, "", "", "an envelope within the text of an error"},
		{call("take", `{"part":"nut"}`), audit.StatusInvalid, audit.SchemaInvalid, "", "", "arguments are validated before the server sees them"},
		{call("sandbox.snapshot", `{}`), audit.StatusInvalid, audit.UnknownTool, "", "", "only what is listed is called"},
		{call("nested", `{}`), audit.StatusRefused, audit.Conflict, `{"success": false, "error": "part bolt is already reserved"}`, "", "an error that the server calls a success"},
		{call("python", `{}`), audit.StatusOK, "", `{'success': True, 'data': None}`, "", "Python's repr as it came"},
		{call("wrapped", `{}`), audit.StatusOK, "", `[1,2]`, "", "a list that comes in pieces"},
		{call("disagree", `{}`), audit.StatusOK, "", `{"pieces":3}`, "", "agents see the text"},
		{call("broken", `{}`), audit.StatusUnknown, audit.Internal, ``, "", "a traceback is no answer, and it may have written"},
		{call("protocol", `{}`), audit.StatusUnknown, audit.Internal, ``, "", "an error of the protocol, too"},
	}
	for name, spec := range transports(t) {
		t.Run(name, func(t *testing.T) {
			env := mount(t, spec, counted())
			for _, test := range tests {
				o := made(t, open(t, env), test.call)
				family := audit.Family("")
				if o.Error != nil {
					family = o.Error.Family
				}
				if o.Status != test.status || family != test.family || test.raw != "" && string(o.Raw) != test.raw || shown(o) != test.delta {
					t.Errorf("%s: got %s %s %s %q, want %s %s %s %q", test.reason, o.Status, family, o.Raw, shown(o), test.status, test.family, test.raw, test.delta)
				}
			}
			if notes := strings.Join(env.Notes(), "\n"); !strings.Contains(notes, "disagree") {
				t.Errorf("notes %q say nothing of the tool whose two answers disagree", notes)
			}
		})
	}
}

func shown(o audit.Observation) string {
	var parts []string
	for _, op := range o.Delta {
		parts = append(parts, op.Path+" "+string(op.Value))
	}
	return strings.Join(parts, "; ")
}

// A server that breaks costs the episode that met it, and no other.
func TestABrokenEpisodeHarmsNoOther(t *testing.T) {
	tests := []struct {
		tool   string
		status audit.Status
		says   string // in the observation's error
		goesOn bool
		reason string
	}{
		{"die", audit.StatusUnknown, "roof came down", false, "how it died is in its last words"},
		{"hang", audit.StatusUnknown, "nothing within", false, "a time-out is an unknown outcome"},
		{"garbage", audit.StatusUnknown, "", false, "what is no message ends the conversation"},
		{"endless", audit.StatusUnknown, "", false, "beyond 16 MiB nothing is read"},
		{"huge", audit.StatusOK, "", true, "6 MB are cut before they are decoded, and found to be oversize by whoever reads them"},
		{"long", audit.StatusOK, "", true, "what is decoded is cut, too"},
		{"retool", audit.StatusOK, "", false, "the next call meets other tools"},
	}
	config := counted()
	patient := mount(t, itself("parts"), config)
	config.Timeout = time.Second // of the call that hangs: the server never sees another one of these episodes
	hurried := mount(t, itself("parts"), config)
	for _, test := range tests {
		t.Run(test.tool, func(t *testing.T) {
			env := patient
			if test.tool == "hang" {
				env = hurried
			}
			other, s := open(t, patient), open(t, env)
			began := time.Now()
			o := made(t, s, call(test.tool, `{}`))
			message := ""
			if o.Error != nil {
				message = o.Error.Message
			}
			if o.Status != test.status || !strings.Contains(message, test.says) {
				t.Errorf("%s: got %s %q", test.reason, o.Status, message)
			}
			if len(o.Raw) > adapter.MaxAnswer+1 {
				t.Errorf("%d bytes are kept", len(o.Raw))
			}
			next := made(t, s, call("count", `{"part":"nut"}`))
			for test.tool == "retool" && next.Status == audit.StatusOK && time.Since(began) < patience {
				next = made(t, s, call("count", `{"part":"nut"}`)) // the announcement comes a moment later
			}
			if (next.Status == audit.StatusOK) != test.goesOn {
				t.Errorf("%s: the next call is %s %v", test.reason, next.Status, next.Error)
			}
			if o := made(t, other, call("take", `{"part":"nut","pieces":1}`)); o.Status != audit.StatusOK || len(o.Delta) != 2 {
				t.Errorf("%s: another episode is harmed: %s %v", test.reason, o.Status, o.Error)
			}
		})
	}
}

// A server of the modern era may ask for input instead of answering. There is
// nobody to give any: the call is a fault that did nothing, and nothing waits.
func TestNobodyAnswersAServer(t *testing.T) {
	s := open(t, mount(t, itself("parts"), counted()))
	o := made(t, s, call("ask", `{}`))
	if o.Status != audit.StatusFault || !strings.Contains(o.Error.Message, "needs_input") {
		t.Errorf("got %s %v, want a fault that says needs_input", o.Status, o.Error)
	}
	if o := made(t, s, call("take", `{"part":"nut","pieces":1}`)); o.Status != audit.StatusOK {
		t.Errorf("the next call: %s %v", o.Status, o.Error)
	}
}

// Verdicts on a server that breaks are masked, each with its reason; episodes
// that are audited at the same time are scored.
func TestVerdictsOnABrokenServerAreMasked(t *testing.T) {
	config := counted()
	patient := mount(t, itself("parts"), config)
	config.Timeout = time.Second // of the call that hangs: the server never sees another one of these episodes
	envs := named{"patient": patient, "hurried": mount(t, itself("parts"), config)}
	auditor, err := audit.New(audit.Config{Opener: envs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = auditor.Close() })
	episode := func(calls ...audit.Call) *audit.Episode {
		ep := &audit.Episode{ID: "e", PromptGroup: "g", Policy: "p", Environment: "patient", Mode: audit.Forced}
		for i, c := range calls {
			ep.Actions = append(ep.Actions, audit.Action{Step: i, Message: i, Call: c, Rehearsal: &audit.Rehearsal{Raw: []byte(`{"part":"nut","left":2}`)}})
		}
		return ep
	}
	take := call("take", `{"part":"nut","pieces":1}`)
	rows := []struct {
		tool  string
		masks []audit.MaskReason // of the breaking call and of the one after it
	}{
		{"die", []audit.MaskReason{audit.MaskSandboxUnknown, audit.MaskHistory}},
		{"hang", []audit.MaskReason{audit.MaskSandboxUnknown, audit.MaskHistory}},
		{"garbage", []audit.MaskReason{audit.MaskSandboxUnknown, audit.MaskHistory}},
		{"huge", []audit.MaskReason{audit.MaskOversize, ""}},
		{"ask", []audit.MaskReason{audit.MaskSandboxFault, ""}},
		{"take", []audit.MaskReason{"", ""}},
	}
	var wg sync.WaitGroup
	for _, row := range rows {
		wg.Go(func() {
			breaking := call(row.tool, `{}`)
			if row.tool == "take" {
				breaking = take
			}
			before := take
			if row.tool == "hang" {
				before = call("fly", `{}`) // the impatient one answers this without the server: no machine is too slow
			}
			ep := episode(before, breaking, take)
			if row.tool == "hang" {
				ep.Environment = "hurried"
			}
			pairs, err := auditor.Episode(t.Context(), ep)
			if err != nil {
				t.Errorf("%s: %v", row.tool, err)
				return
			}
			for i, want := range append([]audit.MaskReason{""}, row.masks...) {
				if got := pairs[i].Verdict.Masked; got != want {
					t.Errorf("%s, call %d: masked %q (%s), want %q", row.tool, i+1, got, pairs[i].Verdict.MaskDetail, want)
				}
			}
		})
	}
	wg.Wait()
}

// named is an opener of a few environments.
type named map[string]audit.Environment

func (n named) Environment(_ context.Context, ref string) (audit.Environment, error) {
	return n[ref], nil
}

// What an episode's process started ends with it, and leaves no zombie.
func TestNothingOutlivesAnEpisode(t *testing.T) {
	env := mount(t, itself("parts"), counted())
	s := open(t, env)
	o := made(t, s, call("orphan", `{}`))
	var started struct{ PID int }
	if err := json.Unmarshal(o.Raw, &started); err != nil || started.PID == 0 {
		t.Fatalf("%s: %v", o.Raw, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for alive(started.PID) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlives its episode", started.PID)
		}
	}
}

// alive reports whether a process runs; a zombie that init has yet to reap does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", jsonNumber(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

func jsonNumber(n int) string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// A server that keeps something outside of its process leaks it into the next
// episode; the contract says so.
func TestTheContractFindsALeak(t *testing.T) {
	spec := itself("parts")
	spec.Env["LEAK"] = filepath.Join(t.TempDir(), "log")
	report, err := sandbox.Contract(t.Context(), mount(t, spec, counted()))
	if err != nil {
		t.Fatal(err)
	}
	if report.OK() {
		t.Errorf("a leak between episodes was not found:\n%s", report.Table())
	}
}

// A server without sessions, with no header that it honours, is one world for all.
func TestTheContractFindsOneWorldForAll(t *testing.T) {
	server := httptest.NewServer(overHTTP(nil, true))
	t.Cleanup(server.Close)
	env := mount(t, mcp.Spec{URL: server.URL}, counted())
	report, err := sandbox.Contract(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Name == "sessions are isolated" && f.Verdict == sandbox.Fail {
			return
		}
	}
	t.Errorf("one world for all episodes was not found:\n%s\n%v", report.Table(), env.Notes())
}

// deaf answers the first request when it has closed its stdin: what follows breaks.
const deaf = `read -r line; exec 0<&-; id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"deaf","version":"1"},"capabilities":{"tools":{}}}}'
sleep 2; exit 9`

func TestBadServers(t *testing.T) {
	tests := []struct {
		spec   mcp.Spec
		says   string
		reason string
	}{
		{mcp.Spec{Command: []string{"/no/such/server"}}, "/no/such/server", "no such program"},
		{mcp.Spec{Command: []string{"false"}}, "exit status 1", "a program that ends at once"},
		{mcp.Spec{Command: []string{"sh", "-c", deaf}}, "exit status 9", "a program that stops listening and then takes longer to end than one may that is asked to"},
		{mcp.Spec{Command: []string{"echo", "hello"}}, "", "a program that does not speak the protocol"},
		{mcp.Spec{URL: "http://127.0.0.1:1/mcp"}, "refused", "nobody listens"},
		{mcp.Spec{}, "needs a command or a URL", "nothing is named"},
	}
	for _, test := range tests {
		_, err := mcp.New(t.Context(), test.spec, adapter.Config{Name: "bad"})
		if audit.ErrorHint(err) == "" || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "bad") {
			t.Errorf("%s: got %v (hint %q), want an error that names the environment and says %q", test.reason, err, audit.ErrorHint(err), test.says)
		}
	}
}
