package pyclass_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/leaktest"
	"understudy/sandbox/pyclass"
	"understudy/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func tools(names ...string) []audit.Tool {
	out := make([]audit.Tool, 0, len(names))
	for _, name := range names {
		name, params, _ := strings.Cut(name, ":")
		properties := map[string]any{}
		required := []string{}
		for p := range strings.FieldsSeq(params) {
			properties[p] = map[string]any{"type": "string"}
			required = append(required, p)
		}
		input, err := json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false})
		if err != nil {
			panic(err)
		}
		out = append(out, audit.Tool{Name: name, Input: input, Role: "assistant", Effect: audit.UnknownEffect})
	}
	return out
}

func source(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

const shelf = `{"books":{"b1":{"title":"Dune","copies":1},"b2":{"title":"Emma","copies":0}},"members":{"m1":{"name":"Ann"}}}`

func library(tb testing.TB) pyclass.Spec {
	tb.Helper()
	return pyclass.Spec{
		Name: "library", Kind: pyclass.EnvScaler, Class: "LendingLibrary", Source: source(tb, "library.py"),
		Tools: tools("find_book:book_id", "lend:book_id member_id", "tag:word", "weigh", "crash", "hang", "spin",
			"eat", "write:path", "connect", "reach:pid", "shout"),
		Config:  json.RawMessage(shelf),
		Timeout: patience, Memory: 256,
		Tasks: []pyclass.Scenario{{
			ID: "t1", Prompt: "Lend Dune to Ann.", Config: json.RawMessage(shelf),
			Checks: []string{
				"def check_func(final_state):\n    return len(final_state['loans']) == len(initial_state['loans']) + 1",
				"def check_func(final_state):\n    return final_state['books']['b1']['copies'] == 0",
				"def check_func(final_state):\n    return len(final_state['members']) == 1",
				"def check_func(final_state):\n    return final_state['nothing']['here']",
			},
		}},
	}
}

// patience is for the slowest machine: nothing that works waits for it.
const patience = 5 * time.Minute

func open(tb testing.TB, spec pyclass.Spec) (*pyclass.Environment, audit.Session) {
	tb.Helper()
	spec.Timeout = cmp.Or(spec.Timeout, patience)
	env, err := pyclass.New(tb.Context(), spec)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = env.Close() })
	return env, session(tb, env, audit.Start{Seed: 1})
}

func session(tb testing.TB, env audit.Environment, start audit.Start) audit.Session {
	tb.Helper()
	s, err := env.Open(tb.Context(), start)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func call(tb testing.TB, s audit.Session, tool, args string) audit.Observation {
	tb.Helper()
	o, err := s.Call(tb.Context(), audit.Call{Tool: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func delta(o audit.Observation) string {
	parts := make([]string, 0, len(o.Delta))
	for _, op := range o.Delta {
		parts = append(parts, fmt.Sprintf("%s %s %s", op.Op, op.Path, op.Value))
	}
	return strings.Join(parts, "; ")
}

func TestCallsOfEveryKind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		spec   pyclass.Spec
		tool   string
		args   string
		status audit.Status
		family audit.Family
		raw    string
		delta  string
		reason string
	}{
		{"envscaler ok", library(t), "find_book", `{"book_id":"b1"}`, audit.StatusOK, "", `{"success": true, "data": {"title": "Dune", "copies": 1, "book_id": "b1"}}`, "", "a read changes nothing"},
		{"envscaler write", library(t), "lend", `{"book_id":"b1","member_id":"m1"}`, audit.StatusOK, "", `{"success": true, "message": "due 2025-01-15"}`, `replace /books/b1/copies 0; add /loans/0 {"book":"b1","due":"2025-01-15","member":"m1","slip":140892}`, "the clock is the session's, the randomness seeded, private attributes are no state"},
		{"envscaler refusal", library(t), "lend", `{"book_id":"b9","member_id":"m1"}`, audit.StatusRefused, audit.NotFound, `{"success": false, "error": "book not found"}`, "", "success false is a refusal"},
		{"envscaler rule", library(t), "lend", `{"book_id":"b2","member_id":"m1"}`, audit.StatusRefused, audit.Precondition, `{"success": false, "error": "no copies left"}`, "", "a business rule"},
		{"sets", library(t), "tag", `{"word":"é"}`, audit.StatusOK, "", `{"success": true, "data": ["é"]}`, `add /tags/0 "é"`, "a set is a sorted list"},
		{"non-finite", library(t), "weigh", `{}`, audit.StatusOK, "", `{"success": true, "data": {"nan": "nan", "pair": [1, 2.5]}}`, "", "NaN is text, a tuple a list"},
		{"raises", library(t), "crash", `{}`, audit.StatusFault, audit.Internal, ``, "", "an exception is the environment's fault and undone"},
		{"prints", library(t), "shout", `{}`, audit.StatusOK, "", `{"success": true}`, "", "what a class prints is no reply"},
		{"dunder", library(t), "__init__", `{"config":{}}`, audit.StatusInvalid, audit.UnknownTool, `{"error":{"code":"unknown_tool","message":"tool \"__init__\" is not known"}}`, "", "only declared tools are dispatched"},
		{"attribute", library(t), "books", `{}`, audit.StatusInvalid, audit.UnknownTool, `{"error":{"code":"unknown_tool","message":"tool \"books\" is not known"}}`, "", "a data attribute is no tool"},
		{"wrong keyword", library(t), "find_book", `{"id":"b1"}`, audit.StatusInvalid, audit.SchemaInvalid, "", "", "arguments are validated before the class sees them"},
		{"bfcl ok", bfcl(t), "enter", `{"card":"c1","gate":"g"}`, audit.StatusOK, "", `{"pass": "P5305"}`, `replace /cards/c1 2; add /gates/g 1`, "_random is the class's own and seeded"},
		{"bfcl refusal", bfcl(t), "balance", `{"card":"zz"}`, audit.StatusRefused, audit.NotFound, `{"error": "Card zz not found."}`, "", "an error key is a refusal"},
		{"acebench refusal", aceBench(t), "add", `{"text":"milk"}`, audit.StatusRefused, audit.Conflict, `{"status": false, "message": "this reminder already exists"}`, "", "status false is a refusal"},
		{"tau2 ok", toolkit(t), "take", `{"seat":"a","who":"me"}`, audit.StatusOK, "", `Seat taken`, `replace /seats/a "me"`, "text stays text"},
		{"tau2 refusal", toolkit(t), "take", `{"seat":"z","who":"me"}`, audit.StatusRefused, audit.NotFound, `Error: Seat not found`, "", "ValueError is a refusal"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, s := open(t, test.spec)
			o := call(t, s, test.tool, test.args)
			family := audit.Family("")
			if o.Error != nil {
				family = o.Error.Family
			}
			if o.Status != test.status || family != test.family || test.raw != "" && string(o.Raw) != test.raw || delta(o) != test.delta {
				t.Errorf("%s\n got %s %s %s\n     %s\nwant %s %s %s\n     %s", test.reason,
					o.Status, family, o.Raw, delta(o), test.status, test.family, test.raw, test.delta)
			}
			if o.Status != audit.StatusFault && (o.Delta == nil || o.Evidence != audit.EvidenceExact || (o.Before == o.After) != (len(o.Delta) == 0)) {
				t.Errorf("evidence %s, delta %v, before %s, after %s", o.Evidence, o.Delta, o.Before, o.After)
			}
		})
	}
}

func bfcl(tb testing.TB) pyclass.Spec {
	tb.Helper()
	return pyclass.Spec{
		Name: "turnstile", Kind: pyclass.BFCL, Class: "Turnstile", File: filepath.Join("testdata", "turnstile.py"),
		Tools: tools("balance:card", "enter:card gate"), Config: json.RawMessage(`{"cards":{"c1":5,"c2":1000000},"gates":{}}`),
	}
}

func aceBench(tb testing.TB) pyclass.Spec {
	tb.Helper()
	return pyclass.Spec{
		Name: "reminders", Kind: pyclass.ACEBench, Class: "Reminders", Source: source(tb, "reminders.py"),
		Tools: tools("add:text"), Config: json.RawMessage(`{"items":["milk"]}`),
	}
}

func toolkit(tb testing.TB) pyclass.Spec {
	tb.Helper()
	return pyclass.Spec{Name: "desk", Kind: pyclass.Tau2, Class: "Desk", Source: source(tb, "toolkit.py"), Tools: tools("take:seat who")}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	_, s := open(t, library(t))
	ctx := t.Context()
	lend := audit.Call{Tool: "lend", Arguments: json.RawMessage(`{"book_id":"b1","member_id":"m1"}`)}

	tried, err := s.(audit.DryRunner).DryRun(ctx, lend)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.(audit.Snapshotter).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	fork, err := s.(audit.Forker).Fork(ctx)
	if err != nil {
		t.Fatal(err)
	}
	made := call(t, s, lend.Tool, string(lend.Arguments))
	if string(tried.Raw) != string(made.Raw) || delta(tried) != delta(made) || tried.Before != made.Before || tried.After != made.After {
		t.Errorf("a dry run and the call disagree:\n%s %s\n%s %s", tried.Raw, delta(tried), made.Raw, delta(made))
	}
	if forked := call(t, fork, lend.Tool, string(lend.Arguments)); forked.After != made.After {
		t.Error("the fork does not stand where the session stood")
	}
	if again := call(t, s, lend.Tool, string(lend.Arguments)); again.Status != audit.StatusRefused {
		t.Errorf("a second loan of the last copy: %s", again.Status)
	}
	if err := s.(audit.Snapshotter).Restore(ctx, snapshot); err != nil {
		t.Fatal(err)
	}
	if restored := call(t, s, lend.Tool, string(lend.Arguments)); restored.After != made.After || string(restored.Raw) != string(made.Raw) {
		t.Error("after restore, the same call gives another result")
	}
	copies, err := s.(audit.Stater).State(ctx, "/books/b1/copies")
	if err != nil || string(copies) != "0" {
		t.Errorf("state: %s, %v", copies, err)
	}
	if err := s.(audit.Snapshotter).Restore(ctx, "nope"); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("an unknown snapshot: %v", err)
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	env, _ := open(t, library(t))
	s := session(t, env, audit.Start{Task: "t1"})
	before, err := s.(audit.Checker).Check(t.Context(), "t1")
	if err != nil {
		t.Fatal(err)
	}
	call(t, s, "lend", `{"book_id":"b1","member_id":"m1"}`)
	after, err := s.(audit.Checker).Check(t.Context(), "t1")
	if err != nil {
		t.Fatal(err)
	}
	if before.Passed != 1 || before.Initial != 1 || after.Passed != 3 || after.Checks != 4 || after.Success() {
		t.Errorf("before %+v, after %+v; want 1 that holds from the start, 3 after, one check that raises", before, after)
	}
}

// TestConformance runs the suite that every environment passes.
func TestConformance(t *testing.T) {
	t.Parallel()
	spec := library(t)
	spec.Tasks[0].Solution = []audit.Call{
		{Tool: "find_book", Arguments: json.RawMessage(`{"book_id":"b1"}`)},
		{Tool: "lend", Arguments: json.RawMessage(`{"book_id":"b1","member_id":"m1"}`)},
	}
	spec.Tasks[0].Checks = spec.Tasks[0].Checks[:3] // the fourth raises
	for i := range spec.Tools {
		spec.Tools[i].Effect = audit.Write
		if name := spec.Tools[i].Name; name == "find_book" || name == "weigh" {
			spec.Tools[i].Effect = audit.Read
		}
	}
	env, _ := open(t, spec)
	sandboxtest.Test(t, env)
}

// TestLostRunnerHarmsNobody hangs, spins and exhausts memory in one session;
// the others go on where they were.
func TestLostRunnerHarmsNobody(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"hang", "spin", "eat"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			env, attacker := open(t, library(t))
			bystander := session(t, env, audit.Start{Seed: 2})
			lent := call(t, bystander, "lend", `{"book_id":"b1","member_id":"m1"}`)
			snapshot, err := bystander.(audit.Snapshotter).Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before := patience
			if tool != "eat" {
				before = pyclass.Hurry(env, time.Second)
			}
			if o := call(t, attacker, tool, `{}`); o.Status != audit.StatusFault {
				t.Errorf("%s: %s %s", tool, o.Status, o.Raw)
			}
			pyclass.Hurry(env, before)
			if o := call(t, bystander, "lend", `{"book_id":"b1","member_id":"m1"}`); o.Status != audit.StatusRefused || o.Before != lent.After {
				t.Errorf("the bystander lost its loan: %s %s", o.Status, o.Raw)
			}
			if err := bystander.(audit.Snapshotter).Restore(t.Context(), snapshot); err != nil {
				t.Errorf("a snapshot of the lost runner: %v", err)
			}
			if o := call(t, attacker, "find_book", `{"book_id":"b1"}`); o.Status != audit.StatusOK || !strings.Contains(string(o.Raw), `"copies": 1`) {
				t.Errorf("the attacker's own world: %s", o.Raw)
			}
		})
	}
}

const unshowable = `
import os

class Odd:
    def __init__(self, config=None):
        self.n = 0

    def deep(self):
        self.n += 1
        data = []
        for _ in range(300):
            data = [data]
        return {"success": True, "data": data}

    def bury(self):
        self.n += 1
        self.hole = []
        for _ in range(300):
            self.hole = [self.hole]
        return {"success": True}

    def count(self):
        return {"success": True, "data": self.n}
`

// TestWhatCannotBeShownDidNotHappen: an answer or a state that is no JSON is a
// fault of the class, and its change is no later call's.
func TestWhatCannotBeShownDidNotHappen(t *testing.T) {
	t.Parallel()
	_, s := open(t, pyclass.Spec{
		Name: "odd", Kind: pyclass.EnvScaler, Class: "Odd", Source: unshowable, Tools: tools("deep", "bury", "count"),
	})
	for _, tool := range []string{"deep", "bury"} {
		if o := call(t, s, tool, `{}`); o.Status != audit.StatusFault || !strings.Contains(o.Error.Message, "nested deeper") {
			t.Errorf("%s: %s %s %v", tool, o.Status, o.Raw, o.Error)
		}
		if o := call(t, s, "count", `{}`); o.Status != audit.StatusOK || len(o.Delta) > 0 || !strings.Contains(string(o.Raw), `"data": 0`) {
			t.Errorf("after %s: %s %s, changed %s; want a world in which nothing happened", tool, o.Status, o.Raw, delta(o))
		}
	}
}

// TestForgedChecks: the checks are foreign code, too, and may answer for the runner.
func TestForgedChecks(t *testing.T) {
	t.Parallel()
	spec := library(t)
	spec.Tasks[0].Checks = []string{
		"import os, sys\ndef check_func(final_state):\n    frame = sys._getframe()\n    while 'replies' not in frame.f_locals:\n        frame = frame.f_back\n" +
			"    os.write(frame.f_locals['replies'].fileno(), b'{\"id\": %d, \"ok\": {\"results\": []}}\\n' % frame.f_locals['request']['id'])\n    os._exit(0)",
	}
	env, _ := open(t, spec)
	s := session(t, env, audit.Start{Task: "t1"})
	result, err := s.(audit.Checker).Check(t.Context(), "t1")
	if err == nil || !strings.Contains(err.Error(), "the runner answered 0") {
		t.Errorf("a forged answer is the result %+v, %v", result, err)
	}
}

func TestJail(t *testing.T) {
	t.Parallel()
	env, s := open(t, library(t))
	holds, err := env.Jail(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(os.TempDir(), "understudy-jail-test")
	if o := call(t, s, "write", fmt.Sprintf(`{"path":%q}`, path)); o.Status != audit.StatusFault {
		t.Errorf("a class wrote a file: %s (%s)", o.Raw, holds)
	}
	_ = os.Remove(path)
	// 3 is ESRCH: in a process namespace of its own, this process has no number.
	if o := call(t, s, "reach", fmt.Sprintf(`{"pid":"%d"}`, os.Getpid())); strings.Contains(holds, "no other processes") != strings.Contains(string(o.Raw), "[3, 3, 3]") {
		t.Errorf("%s, but this process was reached by a signal, a queued signal and for its limits: %s", holds, o.Raw)
	}
	if strings.Contains(holds, "no network") {
		// 101 is ENETUNREACH: in a network namespace of its own, even loopback is down.
		if o := call(t, s, "connect", `{}`); !strings.Contains(string(o.Raw), "101") {
			t.Errorf("%s, but a connection ended with %s", holds, o.Raw)
		}
	} else if !strings.Contains(holds, "WEAKER THAN ASKED") {
		t.Errorf("the jail is silent about an open network: %s", holds)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		change func(*pyclass.Spec)
		want   string
		reason string
	}{
		{func(s *pyclass.Spec) { s.Source = "class LendingLibrary:\n  def f(:" }, "load Python class", "a syntax error"},
		{func(s *pyclass.Spec) { s.Source = "import numpy_of_nobody" }, "numpy_of_nobody", "a missing module"},
		{func(s *pyclass.Spec) { s.Class = "Nobody" }, "Nobody is not defined", "a class that is not there"},
		{func(s *pyclass.Spec) { s.Tools = append(s.Tools, tools("fly")...) }, "fly", "a declared tool without a method"},
		{func(s *pyclass.Spec) { s.Kind = "gym" }, "gym", "an unknown kind"},
		{func(s *pyclass.Spec) { s.Source = "" }, "either", "nothing to run"},
		{func(s *pyclass.Spec) { s.Python = "/nonexistent/python" }, "start the Python runner", "no interpreter"},
	}
	for _, test := range tests {
		spec := library(t)
		test.change(&spec)
		_, err := pyclass.New(t.Context(), spec)
		if err == nil || !strings.Contains(err.Error(), test.want) || audit.ErrorHint(err) == "" {
			t.Errorf("%s: got %v (hint %q), want %q and a hint", test.reason, err, audit.ErrorHint(err), test.want)
		}
	}
	env, _ := open(t, library(t))
	if _, err := env.Open(t.Context(), audit.Start{State: json.RawMessage(`[1]`)}); audit.ErrorCode(err) != audit.CodeInvalid {
		t.Errorf("a configuration that is no object: %v", err)
	}
}

// BenchmarkCall is one read and one write of two BFCL-style sessions through
// one runner, arguments in, response and delta out.
func BenchmarkCall(b *testing.B) {
	_, s := open(b, bfcl(b))
	other, err := s.(audit.Forker).Fork(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	calls := []audit.Call{
		{Tool: "balance", Arguments: json.RawMessage(`{"card":"c1"}`)},
		{Tool: "enter", Arguments: json.RawMessage(`{"card":"c2","gate":"g"}`)},
	}
	n := 0
	for b.Loop() {
		for _, c := range calls {
			for _, s := range []audit.Session{s, other} {
				if _, err := s.Call(context.Background(), c); err != nil {
					b.Fatal(err)
				}
				n++
			}
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "calls/s")
}
