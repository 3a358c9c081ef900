package eval_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/eval"
	"understudy/envace/private"
	"understudy/sandbox"
	"understudy/sandbox/domains"
	"understudy/sandbox/pyclass"
)

// scripted is a policy that says what says says: calls, or a reply.
type scripted struct {
	says  func(t *envace.Transcript) ([]audit.Call, string)
	asked atomic.Int64
}

func (s *scripted) Generate(_ context.Context, r envace.Request) (envace.Output, error) {
	s.asked.Add(1)
	if r.Role == audit.RehearseRole {
		return envace.Output{Role: r.Role, Text: "<execution_result>\n{}\n</execution_result>"}, nil
	}
	calls, reply := s.says(r.Transcript)
	parts := []string{reply}
	for _, call := range calls {
		written, err := envace.CallText(call)
		if err != nil {
			return envace.Output{}, err
		}
		parts = append(parts, written)
	}
	return envace.Output{Role: r.Role, Text: strings.TrimSpace(strings.Join(parts, "\n")), Tokens: make([]int32, 3)}, nil
}

// gold makes a task's reference calls, one after the other, then says that it is done.
func gold() *scripted {
	return &scripted{says: func(t *envace.Transcript) ([]audit.Call, string) {
		made := len(t.History())
		if made < len(t.Task.Solution) {
			return t.Task.Solution[made : made+1], ""
		}
		return nil, "It is done."
	}}
}

func idle() *scripted {
	return &scripted{says: func(*envace.Transcript) ([]audit.Call, string) { return nil, "It is done." }}
}

func readAct(o envace.Output) envace.Act {
	act := envace.ParseAct(o.Text)
	act.Output = o
	return act
}

func anyRules(t *testing.T) *audit.Rules {
	t.Helper()
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func ownTasks(t *testing.T, name string, n int) []eval.Task {
	t.Helper()
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() { _ = registry.Close() })
	env, err := registry.Environment(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := env.(audit.Tasker).Tasks(t.Context(), 3, n)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := eval.FromEnvironment(t.Context(), env, asked, anyRules(t))
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

func play(t *testing.T, policy envace.Policy, tasks []eval.Task, samples int) eval.Figures {
	t.Helper()
	f, results := playIn(t, t.TempDir(), eval.Runner{Rollout: envace.Rollout{Policy: policy, ReadAct: readAct}, Samples: samples, Seed: 1}, tasks)
	for _, r := range results {
		if r.Unknown != "" {
			t.Errorf("task %s is unknown: %s", r.Task, r.Unknown)
		}
	}
	return f
}

func playIn(t *testing.T, dir string, r eval.Runner, tasks []eval.Task) (eval.Figures, []eval.Result) {
	t.Helper()
	book, err := eval.OpenBook(dir, runOf(tasks, r.Samples))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), tasks, book); err != nil {
		t.Fatal(err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	return eval.Compute(book.Results(), r.Samples), book.Results()
}

func runOf(tasks []eval.Task, samples int) eval.Run {
	return eval.Run{Benchmark: "b", Policy: "p", TaskCount: len(tasks), Samples: samples}
}

// On our own domains the reference solutions do every task and nothing does none.
func TestGoldAndIdle(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"retail", "retail-mini", "delivery"} {
		tasks := ownTasks(t, name, 3)
		if f := play(t, gold(), tasks, 2); f.Average.Value != 1 || f.Score.Value != 1 || f.PassHat[1].Value != 1 || f.Samples != 6 {
			t.Errorf("%s: the reference scores %v over %d samples", name, f.Average, f.Samples)
		}
		if f := play(t, idle(), tasks, 1); f.Average.Value != 0 || f.Score.Value != 0 || f.Initial != 0 {
			t.Errorf("%s: doing nothing scores %v; %d tasks hold before anything is done", name, f.Average, f.Initial)
		}
	}
}

// A run that was cut short goes on: what is known is not played again, what was
// unknown and what a crash cut off is.
func TestResume(t *testing.T) {
	t.Parallel()
	dir, tasks := t.TempDir(), ownTasks(t, "retail-mini", 3)
	policy := gold()
	runner := eval.Runner{Rollout: envace.Rollout{Policy: policy, ReadAct: readAct}, Samples: 2, Seed: 1, Parallel: 1}
	book, err := eval.OpenBook(dir, runOf(tasks, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []eval.Result{{Task: tasks[0].ID, Success: true, Score: 1, Stop: envace.StopDone}, {Task: tasks[1].ID, Unknown: "the server was away"}} {
		if err := book.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "b.jsonl")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"task":"` + tasks[2].ID); err != nil { // a crash in the middle of a line
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	f, results := playIn(t, dir, runner, tasks)
	if len(results) != 6 || f.Samples != 6 || f.Average.Value != 1 {
		t.Fatalf("%d results, %d known, %v", len(results), f.Samples, f.Average)
	}
	asked := policy.asked.Load()
	if _, again := playIn(t, dir, runner, tasks); len(again) != 6 || policy.asked.Load() != asked {
		t.Errorf("a complete run was played again")
	}
	other := runOf(tasks, 3)
	if _, err := eval.OpenBook(dir, other); audit.ErrorCode(err) != audit.CodeConflict || !contains(err.Error(), "samples was 2 and is 3") {
		t.Errorf("results of another run: %v", err)
	}
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := eval.OpenBook(dir, other); audit.ErrorCode(err) != audit.CodeInvalid || audit.ErrorHint(err) == "" {
		t.Errorf("a file of something else: %v", err)
	}
}

// Two evaluations in one folder would drop each other's results: the second is told
// to go elsewhere, until the first is done, even if it failed to open.
func TestOneEvaluationAFolder(t *testing.T) {
	t.Parallel()
	dir, run := t.TempDir(), eval.Run{Benchmark: "b", Samples: 1}
	first, err := eval.OpenBook(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Write(eval.Result{Task: "one"}); err != nil {
		t.Fatal(err)
	}
	_, err = eval.OpenBook(dir, run)
	if audit.ErrorCode(err) != audit.CodeConflict || !contains(err.Error(), filepath.Join(dir, "b.jsonl")) || !contains(audit.ErrorHint(err), "--out") {
		t.Errorf("a second evaluation: got %v, want a conflict that names the file and the way out", err)
	}
	other, err := eval.OpenBook(dir, eval.Run{Benchmark: "c"})
	if err != nil {
		t.Fatalf("another benchmark beside it: %v", err)
	}
	if err := errors.Join(first.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := eval.OpenBook(dir, eval.Run{Benchmark: "b", Samples: 2}); audit.ErrorCode(err) != audit.CodeConflict {
		t.Errorf("results of another run: %v", err)
	}
	again, err := eval.OpenBook(dir, run)
	if err != nil {
		t.Fatalf("after the first was closed: %v", err)
	}
	if !again.Has("one", 0) {
		t.Error("the first evaluation's result is gone")
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*.lock")); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// A server that fails leaves samples unknown; a fault of ours, or a wrong key, ends
// the run.
func TestUnknown(t *testing.T) {
	t.Parallel()
	tasks := ownTasks(t, "retail-mini", 2)
	for _, test := range []struct {
		err     error
		unknown int
		reason  string
	}{
		{&audit.Error{Code: audit.CodeInfrastructure, Message: "away"}, 2, "a server that is away"},
		{&audit.Error{Code: audit.CodeUnauthorized, Message: "no key"}, 0, "asking again cannot mend it"},
		{errors.New("a defect"), 0, "ours"},
	} {
		book, err := eval.OpenBook(t.TempDir(), runOf(tasks, 1))
		if err != nil {
			t.Fatal(err)
		}
		runner := eval.Runner{Rollout: envace.Rollout{Policy: failing{test.err}, ReadAct: readAct}, Samples: 1}
		err = runner.Run(t.Context(), tasks, book)
		f := eval.Compute(book.Results(), 1)
		if f.Unknown != test.unknown || f.Samples != 0 || (err == nil) != (test.unknown > 0) {
			t.Errorf("%s: %d unknown of %d, %v", test.reason, f.Unknown, f.Samples, err)
		}
		_ = book.Close()
	}
}

type failing struct{ err error }

func (f failing) Generate(context.Context, envace.Request) (envace.Output, error) {
	return envace.Output{}, f.err
}

// Private attempts reach no world, and ACT reads their memory in the one execution.
func TestRehearse(t *testing.T) {
	t.Parallel()
	tasks := ownTasks(t, "retail-mini", 2)
	policy := gold()
	var remembered atomic.Int64
	plain := policy.says
	policy.says = func(tr *envace.Transcript) ([]audit.Call, string) {
		if strings.Contains(tr.Memory, "Attempt 2") {
			remembered.Add(1)
		}
		return plain(tr)
	}
	read := func(o envace.Output) envace.Rehearsed {
		r := envace.Rehearsed{Output: o}
		r.Rehearsal, r.Fault = envace.ParseRehearsal(o.Text)
		return r
	}
	runner := eval.Runner{
		Rollout: envace.Rollout{Policy: policy, ReadAct: readAct}, Samples: 1,
		Rehearse: func(task eval.Task, rollout envace.Rollout) private.Rehearser {
			return private.Rehearser{
				Rollout: rollout, World: envace.Rehearsing{Policy: policy, Read: read}, Attempts: 2, Mode: private.Parallel,
				Assess: func(context.Context, *envace.Trajectory) (private.Assessment, error) {
					return private.Assessment{Success: true, Score: 1}, nil
				},
				Memory: private.Memory{Count: func(text string) int { return len(text) }, Most: 5000, Rules: task.Rules},
			}
		},
	}
	f, results := playIn(t, t.TempDir(), runner, tasks)
	if f.Average.Value != 1 || remembered.Load() == 0 {
		t.Errorf("%v, the memory was read %d times", f.Average, remembered.Load())
	}
	for _, r := range results {
		if r.Memory == 0 || r.Tokens <= 3*(r.Calls+1) {
			t.Errorf("%+v: attempts cost tokens, and leave a memory", r)
		}
	}
}

// station is BFCL's notation over two classes of our own.
func station(t *testing.T) (audit.Environment, []audit.Tool, map[string][]eval.Function) {
	t.Helper()
	function := func(name string, parameters ...string) eval.Function {
		properties, required := `{`, `[`
		for i, p := range parameters {
			if i > 0 {
				properties, required = properties+",", required+","
			}
			properties += `"` + p + `":{"type":"string"}`
			required += `"` + p + `"`
		}
		return eval.Function{Name: name, Parameters: json.RawMessage(`{"type":"dict","properties":` + properties + `},"required":` + required + `]}`)}
	}
	functions := map[string][]eval.Function{
		"Turnstile": {function("balance", "card"), function("enter", "card", "gate")},
		"Kiosk":     {function("price", "item"), function("buy", "item")},
	}
	var tools []audit.Tool
	for _, class := range []string{"Kiosk", "Turnstile"} {
		for _, f := range functions[class] {
			tool, err := f.Tool()
			if err != nil {
				t.Fatal(err)
			}
			tools = append(tools, tool)
		}
	}
	dir := filepath.Join("..", "..", "sandbox", "pyclass", "testdata")
	env, err := pyclass.New(t.Context(), pyclass.Spec{
		Name: "station", Kind: pyclass.BFCL, Tools: tools,
		Classes: []pyclass.Class{
			{Name: "Kiosk", File: filepath.Join(dir, "kiosk.py")},
			{Name: "Turnstile", File: filepath.Join(dir, "turnstile.py"), Tools: []string{"balance"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	return env, tools, functions
}

const (
	stationQuestions = `{"id":"multi_turn_base_0","question":[[{"role":"user","content":"Buy a bottle of water."}],[{"role":"user","content":"Let me through gate g with card c1."}]],"initial_config":{"Turnstile":{"cards":{"c1":5}},"Kiosk":{"stock":{"water":{"price":2,"left":3}}},"Tram":{"line":4}},"involved_classes":["Turnstile","Kiosk"]}
{"id":"multi_turn_miss_func_0","question":[[{"role":"user","content":"What does water cost?"}],[]],"initial_config":{"Turnstile":{},"Kiosk":{"stock":{"water":{"price":2,"left":3}}}},"involved_classes":["Turnstile","Kiosk"],"missed_function":{"1":["price"]},"excluded_function":["buy"]}
`
	stationAnswers = `{"id":"multi_turn_base_0","ground_truth":[["price('water')","buy(item='water')"],["enter(card='c1', gate='g')"]]}
{"id":"multi_turn_miss_func_0","ground_truth":[[],["price(item='water')"]]}
`
)

func call(tool, arguments string) audit.Call {
	return audit.Call{Tool: tool, Arguments: json.RawMessage(arguments)}
}

// A BFCL-style file with known right answers: what counts is the state after each
// turn and that the reference's answers were seen.
func TestBFCL(t *testing.T) {
	t.Parallel()
	env, tools, functions := station(t)
	conversations, err := eval.ReadBFCL([]byte(stationQuestions), []byte(stationAnswers), functions)
	if err != nil {
		t.Fatal(err)
	}
	price, buy, enter := call("price", `{"item":"water"}`), call("buy", `{"item":"water"}`), call("enter", `{"card":"c1","gate":"g"}`)
	for _, test := range []struct {
		task   int
		turns  [][]audit.Call
		fault  string // "" = right
		reason string
	}{
		{0, [][]audit.Call{{price, buy}, {enter}}, "", "the reference"},
		{0, [][]audit.Call{{call("balance", `{"card":"c1"}`), buy, price}, {enter}}, "", "another order, and a look that changes nothing"},
		{0, [][]audit.Call{{buy}, {enter}}, "turn 1: 1 of 2 answers of the reference were never seen", "the price was not looked up"},
		{0, [][]audit.Call{{price, buy, buy}, {enter}}, "turn 1: the state differs from the reference's at /Kiosk/", "bought twice"},
		{0, [][]audit.Call{{price, buy}, {}}, "turn 2: no call was made", "the second turn was only talked about"},
		{0, [][]audit.Call{{}, {price, buy, enter}}, "turn 1: no call was made", "too late"},
		{1, [][]audit.Call{{}, {price}}, "", "waits for the tool"},
		{1, [][]audit.Call{{call("balance", `{"card":"c1"}`)}, {price}}, "turn 1: 1 calls where none could help", "calls something"},
	} {
		saw := [][]string{}
		policy := &scripted{}
		policy.says = func(tr *envace.Transcript) ([]audit.Call, string) {
			turn, said := 0, false
			for _, item := range tr.Items {
				if item.User != "" {
					turn, said = turn+1, false
				}
				said = said || item.Act != nil
			}
			if said || len(test.turns[turn]) == 0 {
				var names []string
				for _, tool := range tr.Tools {
					names = append(names, tool.Name)
				}
				saw = append(saw, names)
				return nil, "So."
			}
			return test.turns[turn], ""
		}
		_, results := playIn(t, t.TempDir(), eval.Runner{Rollout: envace.Rollout{Policy: policy, ReadAct: readAct}, Samples: 1}, []eval.Task{conversations[test.task].Task(env, tools, anyRules(t))})
		r := results[0]
		if r.Unknown != "" || r.Success != (test.fault == "") || test.fault != "" && !contains(strings.Join(r.Failed, ";"), test.fault) {
			t.Errorf("%s: %+v, want %q", test.reason, r, test.fault)
		}
		if test.task == 1 && (slices.Contains(saw[0], "price") || !slices.Contains(saw[len(saw)-1], "price") && len(saw) > 1 || slices.Contains(saw[0], "buy")) {
			t.Errorf("%s: the tools were %v: price comes with turn 2, buy never", test.reason, saw)
		}
	}
}

func TestReadBFCLFaults(t *testing.T) {
	t.Parallel()
	_, _, functions := station(t)
	for _, test := range []struct{ questions, answers, want, reason string }{
		{stationQuestions, `{"id":"multi_turn_base_0","ground_truth":[[],[]]}`, "task multi_turn_miss_func_0 has no possible answer", "an answer is missing"},
		{strings.ReplaceAll(stationQuestions, "base", "long_context"), strings.ReplaceAll(stationAnswers, "base", "long_context"), "its world is filled up", "a world that we cannot build"},
		{stationQuestions, strings.ReplaceAll(stationAnswers, `,["enter(card='c1', gate='g')"]`, ""), "2 turns and 1 answers", "turns without an answer"},
		{strings.ReplaceAll(stationQuestions, `"Kiosk"]`, `"Tram"]`), stationAnswers, "class Tram has no function descriptions", "an unknown class"},
		{"{", "", "read the questions, entry 1", "no JSON"},
	} {
		if _, err := eval.ReadBFCL([]byte(test.questions), []byte(test.answers), functions); err == nil || !contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.reason, err, test.want)
		}
	}
}

// phone is an ACEBench-style file of one task, and its world.
func phone(t *testing.T) (audit.Environment, []eval.AgentTask) {
	t.Helper()
	questions := `{"id":"agent_multi_step_0","question":"Remind me of milk and bread.","initial_config":{"Reminders":{"items":["milk"]}},"function":[{"name":"add","parameters":{"type":"dict","properties":{"text":{"type":"string"}},"required":["text"]}}],"involved_classes":["Reminders"]}`
	answers := `{"id":"agent_multi_step_0","ground_truth":[{"Reminders":{"items":["milk","bread"]}}]}`
	tasks, err := eval.ReadACE([]byte(questions), []byte(answers))
	if err != nil {
		t.Fatal(err)
	}
	env, err := pyclass.New(t.Context(), pyclass.Spec{
		Name: "phone", Kind: pyclass.ACEBench, Tools: tasks[0].Tools,
		Classes: []pyclass.Class{{Name: "Reminders", File: filepath.Join("..", "..", "sandbox", "pyclass", "testdata", "reminders.py")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	return env, tasks
}

// An ACEBench-style file: what attributes are in the end.
func TestACE(t *testing.T) {
	t.Parallel()
	env, tasks := phone(t)
	for _, test := range []struct {
		text   string
		want   bool
		reason string
	}{{"bread", true, "what was asked"}, {"jam", false, "something else"}, {"", false, "nothing"}} {
		policy := &scripted{says: func(tr *envace.Transcript) ([]audit.Call, string) {
			if test.text == "" || len(tr.History()) > 0 {
				return nil, "Done."
			}
			return []audit.Call{call("add", `{"text":"`+test.text+`"}`)}, ""
		}}
		if f := play(t, policy, []eval.Task{tasks[0].Task(env, nil, anyRules(t))}, 1); (f.Average.Value == 1) != test.want || f.Initial != 0 {
			t.Errorf("%s: %v", test.reason, f.Average)
		}
	}
}

// unreadable is a world that stops telling its state at one look, from 1.
type unreadable struct {
	audit.Environment
	at    int
	state json.RawMessage // instead of an answer; nil = a fault
}

type unreadableSession struct {
	audit.Session
	world unreadable
	looks int
}

func (u unreadable) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	session, err := u.Environment.Open(ctx, start)
	return &unreadableSession{Session: session, world: u}, err
}

func (s *unreadableSession) StateDigest(ctx context.Context) (audit.Digest, error) {
	return s.Session.(audit.Stater).StateDigest(ctx)
}

func (s *unreadableSession) State(ctx context.Context, pointer string) (json.RawMessage, error) {
	if s.looks++; s.looks < s.world.at {
		return s.Session.(audit.Stater).State(ctx, pointer)
	}
	if s.world.state != nil {
		return s.world.state, nil
	}
	return nil, errors.New("the process is gone")
}

// A world whose state cannot be read says nothing about the answer: it is not scored,
// neither before the first call nor at the end.
func TestACEUnreadableIsNotScored(t *testing.T) {
	t.Parallel()
	env, tasks := phone(t)
	policy := &scripted{says: func(tr *envace.Transcript) ([]audit.Call, string) {
		if len(tr.History()) > 0 {
			return nil, "Done."
		}
		return []audit.Call{call("add", `{"text":"bread"}`)}, ""
	}}
	for _, test := range []struct {
		world  unreadable
		reason string
	}{
		{unreadable{env, 1, nil}, "gone before the first call"},
		{unreadable{env, 2, nil}, "gone at the end"},
		{unreadable{env, 2, json.RawMessage(`{"Reminders":`)}, "half a state"},
	} {
		_, results := playIn(t, t.TempDir(), eval.Runner{Rollout: envace.Rollout{Policy: policy, ReadAct: readAct}, Samples: 1},
			[]eval.Task{tasks[0].Task(test.world, nil, anyRules(t))})
		if r := results[0]; r.Unknown == "" || r.Success || len(r.Failed) > 0 {
			t.Errorf("%s: got %+v, want an unknown result", test.reason, r)
		}
	}
}

// A FinMCP-style sample: sets of tools against its recording.
func TestFinMCP(t *testing.T) {
	t.Parallel()
	tasks, err := eval.ReadFinMCP([]byte(`[{"messages":[
		{"role":"user","content":"How did fund 7 do, and its index?"},
		{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"fund","arguments":"{\"id\":7}"}},{"id":"2","type":"function","function":{"name":"index","arguments":"{\"of\":7}"}}]},
		{"role":"tool","tool_call_id":"2","content":"{\"gain\":3}"},{"role":"tool","tool_call_id":"1","content":"{\"gain\":5}"},
		{"role":"assistant","content":"5 and 3 %."},{"role":"user","content":"Compare it with fund 8."},
		{"role":"assistant","content":null,"tool_calls":[{"id":"3","function":{"name":"compare","arguments":{"a":7,"b":8}}}]},
		{"role":"tool","tool_call_id":"3","content":"{\"better\":8}"},{"role":"assistant","content":"8 is better."}],
		"tool_list":[{"name":"fund"},{"name":"index"},{"name":"compare"},{"name":"news"}]}]`), anyRules(t))
	if err != nil {
		t.Fatal(err)
	}
	// It asks for the fund and, instead of the index and the comparison, for the news.
	policy := &scripted{says: func(tr *envace.Transcript) ([]audit.Call, string) {
		switch h := tr.History(); len(h) {
		case 0:
			return []audit.Call{call("fund", `{"id": 7}`)}, ""
		case 1:
			if string(h[0].Answer) != `{"gain":5}` {
				t.Errorf("the recorded call was answered %s", h[0].Answer)
			}
			return []audit.Call{call("news", `{}`)}, ""
		default:
			return nil, "So."
		}
	}}
	f := play(t, policy, tasks, 1)
	if tools := f.Tools; tools == nil || tools.Recall.Value != 1./3 || tools.Precision.Value != 1./2 || tools.F1.Value != 0.4 {
		t.Errorf("%+v, want TR 1/3, TP 1/2, TF1 2/5", f.Tools)
	}
	if f := play(t, gold(), tasks, 1); f.Tools.F1.Value != 1 || f.Average.Value != 1 {
		t.Errorf("the recording itself: %+v", f.Tools)
	}
	for text, want := range map[string]string{
		`[{"messages":[{"role":"assistant","content":"x"}]}]`:                              "nobody asks for anything",
		`[{"messages":[{"role":"user","content":"x"},{"role":"tool","content":"y"}]}]`:     "message 2 answers no call",
		`[{"messages":[{"role":"narrator","content":"x"}]}]`:                               "unknown role",
		`[{"messages":[{"role":"user","content":"x"}],"tool_list":[{"description":"x"}]}]`: "a tool has no name",
	} {
		if _, err := eval.ReadFinMCP([]byte(text), nil); err == nil || !contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
