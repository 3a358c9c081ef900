package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/audit"
	main "understudy/cmd/understudy"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

// desk is one person's place of work: a data folder and a database, in which
// commands run one after the other.
type desk struct {
	t   *testing.T
	dir string
	env map[string]string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	dir := t.TempDir()
	return &desk{t, dir, map[string]string{
		"UNDERSTUDY_DATA_DIR": filepath.Join(dir, "data"), "UNDERSTUDY_DATABASE_URL": postgres.URL(t),
		"UNDERSTUDY_LISTEN": "127.0.0.1:0", "UNDERSTUDY_LOG_LEVEL": "warn", "UNDERSTUDY_STOP_TIMEOUT": patience.String(),
	}}
}

// do runs a command that must end with the status, and returns what it printed.
func (d *desk) do(status int, args ...string) string {
	d.t.Helper()
	got, stdout, stderr := main.Invoke(d.t.Context(), d.env, "", args...)
	if got != status {
		d.t.Fatalf("understudy %s: status %d, want %d\n%s%s", strings.Join(args, " "), got, status, stdout, stderr)
	}
	return stdout + stderr
}

// says fails unless every text follows the one before it.
func (d *desk) says(output string, texts ...string) {
	d.t.Helper()
	at := 0
	for _, text := range texts {
		next := strings.Index(output[at:], text)
		if next < 0 {
			d.t.Fatalf("%q does not follow in:\n%s", text, output)
		}
		at += next + len(text)
	}
}

func (d *desk) write(name, text string) string {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

// ladder sums a run's severity ladder over its tools, and returns its figures.
func (d *desk) ladder(run string) (rungs [audit.Severities]int, figures []audit.Figures) {
	d.t.Helper()
	type written struct {
		audit.Cell
		Scored int                   `json:"scored"`
		Ladder [audit.Severities]int `json:"ladder"`
	}
	var all []written
	if err := json.Unmarshal([]byte(d.do(0, "report", run, "--format", "json")), &all); err != nil {
		d.t.Fatal(err)
	}
	for _, f := range all {
		if f.Tool == "" || f.Split != audit.AllTasks {
			continue
		}
		figures = append(figures, audit.Figures{Cell: f.Cell, Scored: f.Scored, Ladder: f.Ladder})
		for i, n := range f.Ladder {
			rungs[i] += n
		}
	}
	return rungs, figures
}

// world is the sandbox that the tests look into.
func world(t *testing.T, ref string) audit.Environment {
	t.Helper()
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() {
		if err := registry.Close(); err != nil {
			t.Error(err)
		}
	})
	env, err := registry.Environment(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// replay runs calls from the default start and returns the answers.
func replay(t *testing.T, env audit.Environment, calls ...audit.Call) []string {
	t.Helper()
	session, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	var answers []string
	for _, call := range calls {
		seen, err := session.Call(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, string(seen.Raw))
	}
	return answers
}

// modelServer is an OpenAI-compatible server whose model rehearses: it is told
// the calls of the history and the one to answer.
func modelServer(t *testing.T, rehearse func(calls []audit.Call) (answer string, status int)) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[{"id":"tiny"}]}`) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("request: %v", err)
		}
		answer, status := "yes", http.StatusOK
		if calls := callsOf(body.Messages); len(calls) > 0 {
			answer, status = rehearse(calls)
			answer = "<execution_result>" + answer + "</execution_result>"
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]string{"content": answer}}}})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}

func callsOf(messages []struct{ Role, Content string }) []audit.Call {
	var calls []audit.Call
	for _, m := range messages {
		var call struct {
			Name      string
			Arguments json.RawMessage
		}
		text := strings.TrimSuffix(strings.TrimPrefix(m.Content, "<tool_call>"), "</tool_call>")
		if m.Role == "user" && json.Unmarshal([]byte(text), &call) == nil && call.Name != "" {
			calls = append(calls, audit.Call{Tool: call.Name, Arguments: call.Arguments})
		}
	}
	return calls
}

func alwaysOK([]audit.Call) (answer string, status int) { return `{"success":true}`, http.StatusOK }

// chatLine is an OpenAI chat trajectory of calls with their answers.
func chatLine(id string, calls []audit.Call, answers []string) string {
	messages := []any{map[string]string{"role": "user", "content": "please"}}
	for i, call := range calls {
		name := fmt.Sprintf("call-%d", i)
		function := map[string]string{"name": call.Tool, "arguments": string(call.Arguments)}
		messages = append(messages,
			map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": name, "type": "function", "function": function}}},
			map[string]any{"role": "tool", "tool_call_id": name, "content": answers[i]})
	}
	line, err := json.Marshal(map[string]any{"episode_id": id, "model": "tiny", "messages": messages})
	if err != nil {
		panic(err) // only texts
	}
	return string(line)
}

// A researcher's own trajectories: imported, audited, shown in every form.
func TestImportAuditReport(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	calls := []audit.Call{
		{Tool: "get_user", Arguments: json.RawMessage(`{"user":"U1"}`)},
		{Tool: "get_user", Arguments: json.RawMessage(`{"user":"U99"}`)},
	}
	answers := replay(t, world(t, "retail-mini@1"), calls...)
	kind := []string{answers[0], `{"user":"U99","name":"Nobody"}`}
	path := d.write("chat.jsonl", chatLine("honest", calls, answers)+"\n"+chatLine("kind", calls, kind)+"\n{\"messages\":\n")
	d.says(d.do(3, "import", path), "does not say which sandbox", "hint: name it: --environment")
	d.says(d.do(0, "import", path, "--environment", "retail-mini@1", "--run", "mine"), "imported 4 calls in 2 episodes (openai), skipped 1", "understudy audit --run mine")
	d.says(d.do(0, "import", path, "--environment", "retail-mini@1", "--run", "mine"), "2 episodes were in run mine already")
	table := d.do(0, "audit", "--run", "mine")
	d.says(table, "tool", "n_eff", "get_user", "50.0 [", "S5 false success", "2 episodes, 4 actions, 4 results: 4 scored", "on retail-mini@1", "understudy report mine")
	for line := range strings.Lines(table) {
		if len([]rune(line)) > 121 {
			t.Errorf("%d columns: %s", len([]rune(line))-1, line)
		}
	}
	if again := d.do(0, "report", "mine"); again != table {
		t.Errorf("report prints another table than audit:\n%s", again)
	}
	if rungs, _ := d.ladder("mine"); rungs != [audit.Severities]int{3, 0, 0, 0, 0, 1} {
		t.Errorf("got ladder %v, want three exact answers and the false success", rungs)
	}
	d.says(d.do(0, "report", "mine", "--format", "atif", "--episode", "kind"), `"schema_version":"ATIF-`, `"false_success":true`)
	d.says(d.do(0, "report", "mine", "--format", "otel", "--episode", "kind"), "gen_ai.")
	d.says(d.do(3, "report", "mine", "--format", "atif"), "hint: name it: --episode ID")
	d.says(d.do(3, "report", "mine", "--format", "yaml"), "--format yaml", "hint: one of")
	d.says(d.do(3, "report", "nobodys"), "nobodys", "hint: ")
	d.says(d.do(3, "import", d.write("empty.jsonl", `{"messages":[{"role":"user","content":"hi"}]}`+"\n"), "--format", "openai", "--environment", "retail-mini@1"), "there is no tool call", "hint: ")
	d.says(d.do(0, "verify"), `"runs": 1,`, `"pairs": 4,`) // what failed left no run behind
}

// What was recorded on the real tools scores full marks, and one changed field
// costs exactly one leaf.
func TestRecordingsScoreFullMarks(t *testing.T) {
	t.Parallel()
	data := os.Getenv("UNDERSTUDY_DATA")
	if data == "" {
		data = "../../../shared/data"
	}
	tau2 := filepath.Join(data, "tau2")
	recordings, err := filepath.Glob(filepath.Join(tau2, "*", "trace.*.jsonl"))
	if err != nil || len(recordings) == 0 {
		t.Skipf("no tau2-bench data: set UNDERSTUDY_DATA to the folder that holds tau2/ (%v)", err)
	}
	d := newDesk(t)
	d.do(0, "sandbox", "import", "tau2", "--data", tau2)
	for i, path := range recordings {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		run, lines := fmt.Sprint("recording-", i), strings.Count(string(text), "\n")
		ref := "tau2:" + filepath.Base(filepath.Dir(path))
		d.do(0, "audit", path, "--environment", ref, "--answers", "both", "--run", run)
		if rungs, _ := d.ladder(run); rungs != [audit.Severities]int{lines} {
			t.Errorf("%s: got ladder %v, want %d exact answers and nothing else", path, rungs, lines)
		}
	}
	text, err := os.ReadFile(filepath.Join(tau2, "retail", "trace.tasks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := d.write("flipped.jsonl", strings.Replace(string(text), `\"price\": 342.81`, `\"price\": 342.82`, 1))
	d.do(0, "audit", flipped, "--environment", "tau2:retail", "--answers", "both", "--mode", "forced", "--run", "flipped")
	if rungs, _ := d.ladder("flipped"); rungs != [audit.Severities]int{strings.Count(string(text), "\n") - 1, 0, 0, 1} {
		t.Errorf("got ladder %v, want exactly one answer that is not exact", rungs)
	}
	episode := d.do(0, "report", "flipped", "--format", "atif", "--episode", "retail-task-0")
	if n := strings.Count(episode, `"pointer":`); n != 1 || !strings.Contains(episode, `"pointer":"/items/0/price"`) {
		t.Errorf("got %d differing leaves, want the one that was changed:\n%s", n, episode)
	}
}

// A policy on a model server is asked for what it has not rehearsed yet.
func TestLiveAuditAndGate(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	url := modelServer(t, alwaysOK)
	d.says(d.do(0, "probe", url), "model tiny")
	d.says(d.do(3, "audit", "--policy", url), "needs an environment", "hint: name it: --environment")
	out := d.do(0, "audit", "--policy", url, "--environment", "retail-mini@1", "--tasks", "4", "--canaries", "24", "--seed", "5", "--policy-name", "yes-sayer", "--run", "yes")
	d.says(out, "queued 28 episodes on retail-mini@1 as run yes", "canary", "100.0 [", "28 episodes")
	_, figures := d.ladder("yes")
	canaries := 0
	for _, f := range figures {
		if f.Mode == audit.Canary {
			canaries += f.Scored
			if f.Ladder[5] != f.Scored {
				t.Errorf("%s: %d false successes of %d canaries, want all from one who always says yes", f.Tool, f.Ladder[5], f.Scored)
			}
		}
	}
	if canaries != 24 {
		t.Errorf("got %d canaries, want 24", canaries)
	}
	broken := modelServer(t, func([]audit.Call) (string, int) { return "", http.StatusInternalServerError })
	d.says(d.do(0, "audit", "--policy", broken, "--environment", "retail-mini@1", "--tasks", "2", "--run", "down"), "100.0", "0 scored", "masked: rehearse_unavailable 5", "understudy probe URL says why")
	if rungs, _ := d.ladder("down"); rungs != [audit.Severities]int{} {
		t.Errorf("got ladder %v of a server that fails, want every call masked", rungs)
	}
	d.gate()
}

// blockingPolicy allows one false success in twenty.
const blockingPolicy = `version: 1
modes: [open]
min_samples: 5
defaults:
  fsr: {max: 0.05, critical: true, modes: [canary, open]}
report:
  json: REPORT
`

// gate decides about the runs "yes" and "down".
func (d *desk) gate() {
	d.t.Helper()
	starting := d.do(0, "gate", "init", "--run", "yes")
	report := filepath.Join(d.dir, "reports", "gate.json")
	policy := d.write("gate.yaml", starting)
	d.says(d.do(3, "gate", "--run", "yes"), "gate needs a policy", "understudy gate init")
	d.says(d.do(3, "gate", "--policy", policy), "gate needs a run")
	d.says(d.do(3, "gate", "--policy", policy, "--run", "nobodys"), "nobodys")
	d.says(d.do(3, "gate", "--policy", policy, "--run", "yes", "--inconclusive", "maybe"), "--inconclusive maybe", "hint: one of pass, fail")
	d.says(d.do(3, "gate", "selftets"), "did you mean selftest?")
	blocking := d.write("blocking.yaml", strings.ReplaceAll(blockingPolicy, "REPORT", report))
	d.says(d.do(1, "gate", "--policy", blocking, "--run", "yes"), "FAIL")
	d.do(7, "gate", "--policy", blocking, "--run", "yes", "--fail-exit-code", "7")
	d.says(d.do(2, "gate", "--policy", blocking, "--run", "down"), "INCONCLUSIVE")
	d.says(d.do(2, "gate", "--policy", blocking, "--run", "down", "--inconclusive", "pass"), "inconclusive is not taken as a pass")
	d.do(1, "gate", "--policy", blocking, "--run", "down", "--inconclusive", "fail")
	d.do(1, "gate", "--policy", blocking, "--run", "yes")
	d.says(d.do(1, "gate", "verify", report), "the same verdict", "FAIL")
	text, err := os.ReadFile(report)
	if err != nil {
		d.t.Fatal(err)
	}
	d.write("reports/gate.json", strings.Replace(string(text), `"status": "FAIL"`, `"status": "PASS"`, 1))
	d.says(d.do(3, "gate", "verify", report), "hint: ")
	d.says(d.do(0, "gate", "schema", "policy"), `"$schema"`)
	d.says(d.do(0, "gate", "selftest", "--environment", "retail-mini@1"), "ok ", "faithful", "always_ok")
}
