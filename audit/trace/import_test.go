package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/audit"
	"understudy/audit/trace"
)

// call is what a test expects of one imported call.
type call struct {
	Tool, Args, Answer, Role string
	Failed                   string // "", true or false
}

func importText(t *testing.T, name, content string, opts trace.Options) ([]audit.Episode, trace.Report, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var episodes []audit.Episode
	report, err := trace.Import(path, opts, func(e audit.Episode) error {
		episodes = append(episodes, e)
		return nil
	})
	return episodes, report, err
}

func calls(e audit.Episode) []call {
	out := make([]call, 0, len(e.Actions))
	for _, a := range e.Actions {
		c := call{Tool: a.Call.Tool, Args: string(a.Call.Arguments)}
		if a.Call.Role != "assistant" {
			c.Role = a.Call.Role
		}
		if a.Rehearsal != nil {
			c.Answer = string(a.Rehearsal.Raw)
			if f := a.Rehearsal.Failed; f != nil {
				c.Failed = map[bool]string{true: "true", false: "false"}[*f]
			}
		} else {
			c.Answer = "-"
		}
		out = append(out, c)
	}
	return out
}

func TestImportFormats(t *testing.T) {
	t.Parallel()
	tests := []struct {
		format, file, content string
		want                  [][]call
		summary               string
		reason                string
	}{
		{
			format: "openai", file: "chat.jsonl",
			content: `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"get","arguments":"{\"id\": 1}"}},{"id":"b","type":"function","function":{"name":"put","arguments":{"id":2}}}]},{"role":"tool","tool_call_id":"b","content":"{\"ok\":true}"},{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"{\"n\":"},{"type":"text","text":"1}"}]}]}`,
			want:    [][]call{{{Tool: "get", Args: `{"id": 1}`, Answer: `{"n":1}`}, {Tool: "put", Args: `{"id":2}`, Answer: `{"ok":true}`}}},
			summary: "imported 2 calls in 1 episodes (openai), skipped 0",
			reason:  "arguments come as string or object; parallel answers in any order; content in parts",
		},
		{
			format: "openai", file: "repeat.jsonl",
			content: `{"messages":[{"role":"assistant","tool_calls":[{"id":"x","function":{"name":"a","arguments":""}}]},{"role":"tool","tool_call_id":"x","content":"1"},{"role":"assistant","tool_calls":[{"id":"x","function":{"name":"b","arguments":"not json"}}]},{"role":"tool","tool_call_id":"x","content":"2"},{"role":"tool","tool_call_id":"y","content":"3"}]}`,
			want:    [][]call{{{Tool: "a", Args: `{}`, Answer: "1"}, {Tool: "b", Args: `not json`, Answer: "2"}}},
			summary: "imported 2 calls in 1 episodes (openai), skipped 1 because answer without a call (1, first at line 1)",
			reason:  "ids repeat: each answer goes to the first waiting call; malformed arguments are kept to be audited",
		},
		{
			format: "openai", file: "tagged.jsonl",
			content: `{"messages":[{"role":"assistant","content":"ok <tool_call>{\"name\":\"go\",\"arguments\":{\"x\":1}}</tool_call>"},{"role":"tool","content":"done"}]}`,
			want:    [][]call{{{Tool: "go", Args: `{"x":1}`, Answer: "done"}}},
			summary: "imported 1 calls in 1 episodes (openai), skipped 0",
			reason:  "calls written as tags in plain text, answers without ids",
		},
		{
			format: "responses", file: "rollouts.jsonl",
			content: `{"responses_create_params":{"input":"q"},"response":{"output":[{"type":"function_call","name":"mcp__shop__get_order","arguments":"{\"id\":\"1\"}","call_id":"c1"},{"type":"function_call_output","call_id":"c1","output":"{\"error\":\"x\"}","status":"failed"}]},"reward":1.0,"_ng_task_index":7,"_ng_rollout_index":2}
{"responses_create_params":{},"_ng_failure_class":"transient"}`,
			want:    [][]call{{{Tool: "get_order", Args: `{"id":"1"}`, Answer: `{"error":"x"}`, Failed: "true"}}},
			summary: "imported 1 calls in 1 episodes (responses), skipped 1 because rollout failed: transient (1, first at line 2)",
			reason:  "NeMo Gym prefixes MCP tools; infrastructure failures are not episodes",
		},
		{
			format: "atif", file: "trajectory.json",
			content: "{\n\"schema_version\":\"ATIF-v1.5\",\"session_id\":\"s\",\"agent\":{\"name\":\"a\",\"version\":\"1\",\"model_name\":\"m\"},\"steps\":[{\"step_id\":1,\"source\":\"agent\",\"tool_calls\":[{\"tool_call_id\":\"1\",\"function_name\":\"f\",\"arguments\":{\"q\":null}}],\"observation\":{\"results\":[{\"content\":\"r\"}]}}]}",
			want:    [][]call{{{Tool: "f", Args: `{"q":null}`, Answer: "r"}}},
			summary: "imported 1 calls in 1 episodes (atif), skipped 0",
			reason:  "a pretty-printed document; source_call_id is optional",
		},
		{
			format: "tau2", file: "results.json",
			content: `{"info":{"environment_info":{"domain_name":"retail"},"agent_info":{"llm":"gpt"}},"tasks":[{"id":"5","initial_state":null}],"simulations":[{"id":"s1","task_id":"5","trial":0,"messages":[{"role":"assistant","tool_calls":[{"id":"1","name":"get_user","arguments":{"id":"u"},"requestor":"assistant"}]},{"role":"tool","id":"1","content":"Error: User not found","requestor":"assistant","error":true},{"role":"user","tool_calls":[{"id":"2","name":"toggle","arguments":{},"requestor":"user"}]},{"role":"tool","id":"2","content":"on","error":false}],"reward_info":{"reward":1.0}}]}`,
			want:    [][]call{{{Tool: "get_user", Args: `{"id":"u"}`, Answer: "Error: User not found", Failed: "true"}, {Tool: "toggle", Args: `{}`, Answer: "on", Role: "user", Failed: "false"}}},
			summary: "imported 2 calls in 1 episodes (tau2), skipped 0",
			reason:  "flat calls, user-side tools, an explicit error flag",
		},
		{
			format: "envscaler", file: "result.json",
			content: `{"task_info":{"task_id":"t9","env_id":"fs"},"trajectory":[{"step":0,"action":{"tool_calls":[{"function":{"name":"ls","arguments":{}}},{"function":{"name":"rm","arguments":{}}}]},"observation":{"type":"tool","content":"{'success': True}"}},{"step":0,"action":{"content":"bye"},"observation":{"type":"user","content":""}}],"total_reward":0.5}`,
			want:    [][]call{{{Tool: "ls", Args: `{}`, Answer: "{'success': True}"}}},
			summary: "imported 1 calls in 1 episodes (envscaler), skipped 1 because further calls of one message, which EnvScaler does not execute (1, first at line 1)",
			reason:  "only the first call of a message runs there; answers are Python text",
		},
		{
			format: "openenv", file: "results.jsonl",
			content: `{"episode_id":"e","tool_trace":[{"tool_name":"get","arguments":{"a":1},"result":{"data":{"v":1},"error":null}},{"tool_name":"put","arguments":{},"result":{"data":null,"error":"no"}}],"task":{"id":3}}`,
			want:    [][]call{{{Tool: "get", Args: `{"a":1}`, Answer: `{"v":1}`, Failed: "false"}, {Tool: "put", Args: `{}`, Answer: "no", Failed: "true"}}},
			summary: "imported 2 calls in 1 episodes (openenv), skipped 0",
			reason:  "errors sit beside the data",
		},
		{
			format: "bfcl", file: "bfcl.jsonl",
			content: `{"id":"multi_turn_0","result":[],"inference_log":[[{"role":"state_info"}],{"begin_of_turn_query":[],"step_0":[{"role":"handler_log","content":"","model_response_decoded":["cd(folder='docs')","mv(source=\"a\", n=[1, 2.5, None])"]},{"role":"tool","content":"{\"ok\": true}"},{"role":"tool","content":"{\"error\": \"no\"}"}],"step_10":[{"role":"handler_log","model_response_decoded":[{"ls":{"a":true}}]},{"role":"tool","content":"x"}],"step_2":[{"role":"handler_log","model_response_decoded":["pwd()"]},{"role":"tool","content":"/"}]}]}`,
			want:    [][]call{{{Tool: "cd", Args: `{"folder":"docs"}`, Answer: `{"ok": true}`}, {Tool: "mv", Args: `{"source":"a","n":[1,2.5,null]}`, Answer: `{"error": "no"}`}, {Tool: "pwd", Args: `{}`, Answer: "/"}, {Tool: "ls", Args: `{"a":true}`, Answer: "x"}}},
			summary: "imported 4 calls in 1 episodes (bfcl), skipped 0",
			reason:  "Python call text; step_10 comes after step_2",
		},
		{
			format: "toucan", file: "toucan.jsonl",
			content: `{"uuid":"u","available_tools":"[]","messages":"[{\"role\":\"assistant\",\"function_call\":{\"name\":\"w\",\"arguments\":\"{\\\"c\\\":1}\"}},{\"role\":\"function\",\"name\":\"w\",\"content\":\"sun\"},{\"role\":\"tool_call\",\"content\":\"{'name': 'v', 'arguments': {}}\"}]"}` + "\n" + `{"uuid":"v","available_tools":"[]","messages":"[{\"role\":\"tool_call\",\"content\":\"{\\\"name\\\":\\\"v\\\",\\\"arguments\\\":{}}\"},{\"role\":\"tool_response\",\"content\":\"rain\"}]"}`,
			want:    [][]call{{{Tool: "w", Args: `{"c":1}`, Answer: "sun"}, {Tool: "v", Args: `{}`, Answer: "-"}}, {{Tool: "v", Args: `{}`, Answer: "rain"}}},
			summary: "imported 3 calls in 2 episodes (toucan), skipped 1 because call without a recorded answer (1, first at line 1)",
			reason:  "messages are a JSON string, calls in either of two dialects",
		},
		{
			format: "toolace", file: "toolace.json",
			content: `[{"system":"","conversations":[{"from":"user","value":"q"},{"from":"assistant","value":"[Get Weather(city=\"Oslo\", days=3), List/Items()]"},{"from":"tool","value":"[{\"name\":\"Get Weather\",\"results\":{\"t\":1}},{\"name\":\"List/Items\",\"results\":[]}]"}]}, {"conversations":[{"from":"assistant","value":"hello"}]}]`,
			want:    [][]call{{{Tool: "Get Weather", Args: `{"city":"Oslo","days":3}`, Answer: `{"t":1}`}, {Tool: "List/Items", Args: `{}`, Answer: `[]`}}},
			summary: "imported 2 calls in 1 episodes (toolace), skipped 1 because episode without tool calls (1, first at line 2)",
			reason:  "one array; names with spaces; several answers in one turn",
		},
		{
			format: "apibank", file: "level-1.jsonl",
			content: `{"role":"User","text":"hi"}
{"role":"API","api_name":"GetToken","param_dict":{"user":"j"},"result":{"api_name":"GetToken","input":{},"output":{"token":"z"},"exception":null}}
{"role":"API","api_name":"Del","param_dict":{},"result":{"output":null,"exception":"no such"}}`,
			want:    [][]call{{{Tool: "GetToken", Args: `{"user":"j"}`, Answer: `{"token":"z"}`, Failed: "false"}, {Tool: "Del", Args: `{}`, Answer: "no such", Failed: "true"}}},
			summary: "imported 2 calls in 1 episodes (apibank), skipped 0",
			reason:  "the file is one dialogue, call and answer in one turn",
		},
		{
			format: "otel", file: "spans.json",
			content: `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"t","spanId":"2","name":"execute_tool put","startTimeUnixNano":"20","attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"execute_tool"}},{"key":"gen_ai.tool.name","value":{"stringValue":"put"}},{"key":"error.type","value":{"stringValue":"timeout"}}]},{"traceId":"t","spanId":"1","name":"execute_tool get","startTimeUnixNano":"10","attributes":[{"key":"gen_ai.tool.call.arguments","value":{"stringValue":"{\"a\":1}"}},{"key":"gen_ai.tool.call.result","value":{"stringValue":"{}"}}]}]}]}]}`,
			want:    [][]call{{{Tool: "get", Args: `{"a":1}`, Answer: `{}`}, {Tool: "put", Args: `{}`, Answer: "Error: timeout", Failed: "true"}}},
			summary: "imported 2 calls in 1 episodes (otel), skipped 0",
			reason:  "spans sort by their start, not by their place in the file",
		},
		{
			format: "otel", file: "chat.json",
			content: `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"t","name":"chat m","startTimeUnixNano":"1","attributes":[{"key":"gen_ai.input.messages","value":{"stringValue":"[{\"role\":\"assistant\",\"parts\":[{\"type\":\"tool_call\",\"id\":\" c1\",\"name\":\"get\",\"arguments\":{\"a\":1}}]},{\"role\":\"tool\",\"parts\":[{\"type\":\"tool_call_response\",\"id\":\"c1\",\"result\":\"r\"}]}]"}}]}]}]}]}`,
			want:    [][]call{{{Tool: "get", Args: `{"a":1}`, Answer: "r"}}},
			summary: "imported 1 calls in 1 episodes (otel), skipped 0",
			reason:  "the conventions' own example pads the id and says result for response",
		},
		{
			format: "recording", file: "trace.jsonl",
			content: `{"episode":"retail-task-0","step":0,"role":"assistant","tool":"f","arguments":{},"error":false,"content":"x","delta":[]}
{"episode":"retail-task-1","step":0,"role":"assistant","tool":"g","arguments":{},"error":true,"content":"Error: y","delta":[]}`,
			want:    [][]call{{{Tool: "f", Args: `{}`, Answer: "x", Failed: "false"}}, {{Tool: "g", Args: `{}`, Answer: "Error: y", Failed: "true"}}},
			summary: "imported 2 calls in 2 episodes (recording), skipped 0",
			reason:  "a new episode name starts a new episode",
		},
	}
	for _, test := range tests {
		t.Run(test.format+"/"+test.file, func(t *testing.T) {
			t.Parallel()
			episodes, report, err := importText(t, test.file, test.content, trace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			got := make([][]call, 0, len(episodes))
			for _, e := range episodes {
				got = append(got, calls(e))
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, d)
			}
			if report.String() != test.summary {
				t.Errorf("summary\n got %s\nwant %s", report, test.summary)
			}
			if report.Format != test.format {
				t.Errorf("detected %q, want %q", report.Format, test.format)
			}
		})
	}
}

// Calls that a BFCL log holds by name are made in the order in which they stand there: their
// answers follow in that order.
func TestImportKeepsTheOrderOfCallsByName(t *testing.T) {
	t.Parallel()
	const content = `{"id":"m","inference_log":[{"step_0":[{"role":"handler_log","model_response_decoded":[{"z":{},"a":{"x":1},"m":{}}]},` +
		`{"role":"tool","content":"1"},{"role":"tool","content":"2"},{"role":"tool","content":"3"}],"step_00":[{"role":"handler_log","model_response_decoded":["b()"]},{"role":"tool","content":"0"}]}]}`
	for range 50 { // a map would have the order by chance
		episodes, _, err := importText(t, "bfcl.jsonl", content, trace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range calls(episodes[0]) {
			got = append(got, c.Tool+" "+c.Answer)
		}
		if want := []string{"z 1", "a 2", "m 3", "b 0"}; !slices.Equal(got, want) {
			t.Fatalf("imported %q, want %q", got, want)
		}
	}
}

func TestImportNeverLosesANeighbour(t *testing.T) {
	t.Parallel()
	good := func(id string) string {
		return `{"id":"` + id + `","messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"}]}`
	}
	tests := []struct{ name, content, summary, reason string }{
		{"truncated last line", good("1") + "\n" + good("2")[:80], "imported 1 calls in 1 episodes (openai), skipped 1 because truncated or invalid JSON (1, first at line 2)", "the writer was killed"},
		{"truncated first line", good("1")[:80] + "\n" + good("2"), "imported 1 calls in 1 episodes (openai), skipped 1 because truncated or invalid JSON (1, first at line 1)", "a file cut at its head"},
		{"oversize line", good("1") + "\n" + `{"messages":"` + strings.Repeat("x", 4000) + "\"}\n" + good("3"), "imported 2 calls in 2 episodes (openai), skipped 1 because record over the size limit (1, first at line 2)", "one huge line between two good ones"},
		{"foreign record", good("1") + "\n{\"messages\":5}\n" + good("3"), "imported 2 calls in 2 episodes (openai), skipped 1 because not a trajectory record (1, first at line 2)", "a record of another kind"},
		{"blank lines and BOM", "\ufeff" + good("1") + "\r\n\r\n" + good("2") + "\r\n", "imported 2 calls in 2 episodes (openai), skipped 0", "files from other systems"},
		{"cut array", `[` + good("1") + `,` + good("2")[:50], "imported 1 calls in 1 episodes (openai), skipped 1 because truncated or invalid JSON (1)", "an array cut in its second element"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, report, err := importText(t, "file.jsonl", test.content, trace.Options{MaxRecord: 2000})
			if err != nil {
				t.Fatal(err)
			}
			if report.String() != test.summary {
				t.Errorf("%s\n got %s\nwant %s", test.reason, report, test.summary)
			}
		})
	}
}

func TestImportManyCallsOfOneMessage(t *testing.T) {
	t.Parallel()
	const n = 14_408
	var b strings.Builder
	b.WriteString(`{"messages":[{"role":"assistant","tool_calls":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"id":"same","function":{"name":"f","arguments":"{}"}}`)
	}
	b.WriteString(`]}]}`)
	episodes, report, err := importText(t, "many.jsonl", b.String(), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Calls != n || episodes[0].Actions[n-1].Message != 0 {
		t.Errorf("got %d calls, last of message %d; want %d calls of message 0: the auditor caps, the importer counts", report.Calls, episodes[0].Actions[n-1].Message, n)
	}
}

func TestImportMessagesShareAnIndex(t *testing.T) {
	t.Parallel()
	content := `{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"b","content":"1"},{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"h","arguments":"{}"}}]}]}`
	episodes, _, err := importText(t, "file.jsonl", content, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, a := range episodes[0].Actions {
		got = append(got, a.Message)
	}
	if d := cmp.Diff([]int{0, 0, 1}, got); d != "" {
		t.Errorf("parallel calls share a message (-want +got):\n%s", d)
	}
}

func TestImportAnswers(t *testing.T) {
	t.Parallel()
	content := `{"episode":"e-1","step":3,"role":"assistant","tool":"f","arguments":{},"error":true,"content":"Error: y"}`
	tests := []struct {
		answers             trace.Answers
		rehearsed, recorded bool
	}{{"", true, false}, {trace.AsReal, false, true}, {trace.AsBoth, true, true}}
	for _, test := range tests {
		episodes, _, err := importText(t, "trace.jsonl", content, trace.Options{Answers: test.answers})
		if err != nil {
			t.Fatal(err)
		}
		a := episodes[0].Actions[0]
		if (a.Rehearsal != nil) != test.rehearsed || (a.Recorded != nil) != test.recorded {
			t.Errorf("answers %q: rehearsal %v, recorded %v", test.answers, a.Rehearsal != nil, a.Recorded != nil)
		}
		if a.Step != 3 {
			t.Errorf("step %d, want 3: the source's own number shows that three actions are missing", a.Step)
		}
	}
}

func TestImportUnknown(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, content, format, want string }{
		{"unknown fields", `{"hello":1}`, "", "is in no format that we know"},
		{"empty", ``, "", "is in no format that we know"},
		{"unknown name", `{"messages":[]}`, "opnai", `format "opnai" is unknown`},
		{"binary", "\x00\x01\x02", "", "is in no format that we know"},
	}
	for _, test := range tests {
		_, _, err := importText(t, "file", test.content, trace.Options{Format: test.format})
		if err == nil || !strings.Contains(err.Error(), test.want) || audit.ErrorHint(err) == "" {
			t.Errorf("%s: got %v (hint %q), want %q and a hint", test.name, err, audit.ErrorHint(err), test.want)
		}
	}
	if _, err := trace.Import(filepath.Join(t.TempDir(), "none"), trace.Options{}, nil); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("missing file: %v", err)
	}
}

func TestImportStopsAtYieldError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f.jsonl")
	line := `{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}]}` + "\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("full")
	n := 0
	_, err := trace.Import(path, trace.Options{}, func(audit.Episode) error { n++; return stop })
	if !errors.Is(err, stop) || n != 1 {
		t.Errorf("got %v after %d episodes, want the caller's error after 1", err, n)
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	phi := 0.5
	pairs := []audit.Pair{
		{
			Episode: "e", Policy: "m", Environment: "retail", Version: "1",
			Action:  audit.Action{Call: audit.Call{Tool: "f", Arguments: json.RawMessage(`{"a":1}`)}, Rehearsal: &audit.Rehearsal{Raw: []byte("ok")}},
			Verdict: audit.Verdict{Severity: audit.S3, Real: audit.Outcome{Class: audit.OK}, Rehearsed: audit.Outcome{Class: audit.OK}, Scores: audit.Scores{Phi: &phi}},
		},
		{
			Episode: "e", Action: audit.Action{Step: 1, Call: audit.Call{Tool: "g", Arguments: json.RawMessage(`{`)}},
			Verdict: audit.Verdict{Masked: audit.MaskSandboxFault},
		},
	}
	var atif, otel bytes.Buffer
	if err := trace.WriteATIF(&atif, pairs); err != nil {
		t.Fatal(err)
	}
	episodes, _, err := importText(t, "out.json", atif.String(), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []call{{Tool: "f", Args: `{"a":1}`, Answer: "ok"}, {Tool: "g", Args: "{", Answer: "-"}}
	if d := cmp.Diff(want, calls(episodes[0])); d != "" {
		t.Errorf("an exported episode reads back (-want +got):\n%s", d)
	}
	if err := trace.WriteOTel(&otel, pairs); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(otel.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"gen_ai.evaluation.score.value":0.5`) || !strings.Contains(lines[0], `"S3"`) {
		t.Errorf("scored event: %s", lines[0])
	}
	if strings.Contains(lines[1], "score.value") || !strings.Contains(lines[1], "sandbox_fault") {
		t.Errorf("a masked pair is never a number: %s", lines[1])
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}]}`))
	f.Add([]byte(`[{"conversations":[{"from":"assistant","value":"[f(a=[1,{'b':None}])]"}]}]`))
	f.Add([]byte(`{"id":"x","inference_log":[{"step_0":[{"role":"handler_log","model_response_decoded":["f(a='\\x')"]}]}]}`))
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}`))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		report, _ := trace.Import(path, trace.Options{MaxRecord: 1 << 16}, func(e audit.Episode) error {
			n += len(e.Actions)
			return nil
		})
		if report.Calls != n {
			t.Fatalf("report says %d calls, %d were yielded", report.Calls, n)
		}
	})
}
