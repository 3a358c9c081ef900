package main_test

import (
	"encoding/json"
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

// knowing is an OpenAI-compatible server whose model knows the reference solutions.
func knowing(t *testing.T, tasks []audit.Task) *httptest.Server {
	t.Helper()
	byPrompt := map[string]audit.Task{}
	for _, task := range tasks {
		byPrompt[task.Prompt] = task
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/models") {
			_, _ = w.Write([]byte(`{"data":[{"id":"knowing"}]}`))
			return
		}
		var asked struct {
			Messages []struct{ Role, Content string } `json:"messages"`
			Tools    []json.RawMessage                `json:"tools"`
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		task, answered := audit.Task{}, 0
		for _, m := range asked.Messages {
			if found, ok := byPrompt[m.Content]; ok && m.Role == "user" {
				task = found
			}
			if m.Role == "tool" {
				answered++
			}
		}
		message := map[string]any{"role": "assistant", "content": "It is done."}
		if len(asked.Tools) > 0 && answered < len(task.Solution) {
			call := task.Solution[answered]
			message = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": "x", "type": "function", "function": map[string]any{"name": call.Tool, "arguments": string(call.Arguments)},
			}}}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{"finish_reason": "stop", "message": message}}, "usage": map[string]any{"completion_tokens": 7},
		})
	}))
	t.Cleanup(server.Close)
	return server
}

func tasksOf(t *testing.T, name string, n int) []audit.Task {
	t.Helper()
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() { _ = registry.Close() })
	env, err := registry.Environment(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := env.(audit.Tasker).Tasks(t.Context(), 5, n)
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// A policy on a server plays a domain; results are kept, gone on with, and the Overall
// of one column is refused.
func TestEvalOfAServer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	server := knowing(t, tasksOf(t, "retail", 3))
	play := func(status int, args ...string) string {
		return d.do(status, append([]string{"eval", "--out", filepath.Join(d.dir, "results")}, args...)...)
	}
	once := []string{"retail", "--policy", server.URL, "--tasks", "3", "--task-seed", "5", "--samples", "2"}
	out := play(0, once...)
	d.says(out, "pass^2", "retail", "tau2", "100.0 [", "C(c,k)/C(n,k)", "ended: done 6", "our own domain and tasks")
	server.Close() // what is known is not played again
	d.says(play(0, once...), "100.0 [")
	var report struct {
		Benchmarks []struct {
			Run     struct{ Benchmark string }
			Figures struct {
				Samples int
				Tokens  float64
			}
		}
	}
	if err := json.Unmarshal([]byte(play(0, append(once, "--json")...)), &report); err != nil || len(report.Benchmarks) != 1 || report.Benchmarks[0].Figures.Samples != 6 || report.Benchmarks[0].Figures.Tokens < 7 {
		t.Errorf("%+v, %v", report, err)
	}
	d.says(play(3, "retail", "--policy", server.URL, "--tasks", "2", "--task-seed", "5", "--samples", "2"), "results of another run", "task_count was 3 and is 2", "another --out")
	d.says(play(4, "airline", "--policy", server.URL, "--tasks", "2", "--samples", "1", "--out", filepath.Join(d.dir, "dead")), "unknown, 2 times", "none of 2 samples could be played", "plays them again")
	d.says(play(3, "--overall"), "no Overall", "bfcl: no benchmark was run", "vita: no benchmark was run")
}

// FinMCP samples come from a file of the user's.
func TestEvalOfFinMCP(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	file := filepath.Join(d.dir, "samples.json")
	if err := os.WriteFile(file, []byte(`[{"id":"s","messages":[{"role":"user","content":"How did it do?"},{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"fund","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"{}"}],"tool_list":[{"name":"fund"}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	server := knowing(t, []audit.Task{{Prompt: "How did it do?", Solution: []audit.Call{{Tool: "fund", Arguments: json.RawMessage(`{}`)}}}})
	out := d.do(0, "eval", "finmcp", "--data", file, "--policy", server.URL, "--samples", "1", "--out", filepath.Join(d.dir, "results"))
	d.says(out, "TF1", "100.0", "TR = Σ|called ∩ reference| / Σ|reference|")
}

func TestEvalRefusals(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{}, "name a benchmark"},
		{[]string{"retail"}, "no policy plays"},
		{[]string{"retail", "--policy", "http://127.0.0.1:1", "--samples", "0"}, "a number is too small"},
		{[]string{"bfcl", "--policy", "http://127.0.0.1:1"}, "name its folder with --data"},
		{[]string{"bfcl", "--policy", "http://127.0.0.1:1", "--data", d.dir}, "in possible_answer"},
		{[]string{"retale", "--policy", "http://127.0.0.1:1"}, "retale"},
		{[]string{"retail", "--policy", "http://127.0.0.1:1", "--run", "x"}, "name one policy"},
		{[]string{"retail", "--policy", "http://127.0.0.1:1", "--mode", "both"}, "parallel or sequential"},
	} {
		status, stdout, stderr := main.Invoke(d.t.Context(), d.env, "", append([]string{"eval", "--out", filepath.Join(d.dir, "none")}, test.args...)...)
		if status == 0 || !strings.Contains(stdout+stderr, test.want) {
			t.Errorf("eval %s: status %d, %s%s; want %q", strings.Join(test.args, " "), status, stdout, stderr, test.want)
		}
	}
}
