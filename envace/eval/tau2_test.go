package eval_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/eval"
)

const tau2Tasks = `[{"id":"0","user_scenario":{"instructions":{"task_instructions":"Be brief.","reason_for_call":"How much is it?"}},
	"evaluation_criteria":{"actions":[{"name":"get_price","requestor":"assistant","arguments":{"item":"tea","note":"x"},"compare_args":["item"]}],
	"communicate_info":["1,286"],"nl_assertions":["The agent is polite."],"reward_basis":["DB","COMMUNICATE","ACTION","NL_ASSERTION"]}},
	{"id":"a~b","user_scenario":null,"evaluation_criteria":{"actions":[],"communicate_info":null,"nl_assertions":null,"reward_basis":["DB"]}}]`

// said is a conversation in which ACT made calls and then said something.
func said(reply string, stop envace.Stop, calls ...audit.Call) *envace.Trajectory {
	t := &envace.Trajectory{Stop: stop, Check: &audit.CheckResult{Checks: 1, Passed: 1}}
	for _, c := range calls {
		t.Items = append(t.Items, envace.Item{Act: &envace.Act{Calls: []audit.Call{c}}}, envace.Item{Answer: &envace.Answer{Call: c, Raw: []byte(`{}`)}})
	}
	t.Items = append(t.Items, envace.Item{Act: &envace.Act{Reply: reply}})
	return t
}

// A τ²-style task file with known right answers: every part of the basis must hold.
func TestTau2(t *testing.T) {
	t.Parallel()
	scenarios, err := eval.ReadTau2([]byte(tau2Tasks))
	if err != nil {
		t.Fatal(err)
	}
	first, second := scenarios["0"], scenarios["a-b"]
	price := call("get_price", `{"item":"tea","note":"other"}`)
	polite := func(holds bool) eval.AssertFunc {
		return func(_ context.Context, _ *envace.Trajectory, assertion string) (bool, error) {
			if assertion != "The agent is polite." {
				t.Errorf("asked about %q", assertion)
			}
			return holds, nil
		}
	}
	unchecked := said("It is 1286 euros.", envace.StopDone, price)
	unchecked.Check.Passed = 0
	for _, test := range []struct {
		criteria eval.Criteria
		t        *envace.Trajectory
		assert   eval.AssertFunc
		failed   string // "" = right
		reason   string
	}{
		{first.Criteria, said("That is 1,286 EUROS.", envace.StopDone, price), polite(true), "", "all of it"},
		{first.Criteria, said("That is 1286 euros.", envace.StopDone, price), nil, "", "commas and case do not matter; without a judge assertions are not asked"},
		{first.Criteria, said("That is 1286 euros.", envace.StopDone, price), polite(false), "NL_ASSERTION The agent is polite.", "impolite"},
		{first.Criteria, said("That is a lot.", envace.StopDone, price), polite(true), "COMMUNICATE 1,286", "the sum was not said"},
		{first.Criteria, said("That is 1286 euros.", envace.StopDone, call("get_price", `{"item":"milk"}`)), polite(true), "ACTION get_price", "another call"},
		{first.Criteria, said("That is 1286 euros.", envace.StopTurns, price), polite(true), "the conversation ended with turns", "nobody ended it"},
		{first.Criteria, unchecked, polite(true), "", "the state is wrong: no part is named, and it is no success"},
		{second.Criteria, said("Hello.", envace.StopDone), nil, "", "the state alone"},
	} {
		v, err := test.criteria.Grader(eval.ByChecks, test.assert)(t.Context(), test.t)
		if err != nil {
			t.Fatal(err)
		}
		want := test.failed == "" && test.t.Check.Success()
		if v.Success != want || test.failed != "" && !slices.Contains(v.Failed, test.failed) {
			t.Errorf("%s: %+v, want success %t and %q", test.reason, v, want, test.failed)
		}
	}
	if notes := eval.Notes(scenarios, false, false); !contains(notes, "the assertions of 1 tasks are not asked") || !contains(notes, "nobody plays the user") {
		t.Errorf("notes %q", notes)
	}
	if notes := eval.Notes(scenarios, true, true); notes != "" {
		t.Errorf("notes %q", notes)
	}
	for text, want := range map[string]string{
		strings.ReplaceAll(tau2Tasks, `"COMMUNICATE"`, `"TELEPATHY"`): `unknown part "TELEPATHY"`,
		`{"id":`: "read the tasks",
	} {
		if _, err := eval.ReadTau2([]byte(text)); err == nil || !contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A model plays the user: it begins, reads the conversation the other way round, and
// ends it by a word.
func TestTalker(t *testing.T) {
	t.Parallel()
	tasks := ownTasks(t, "retail-mini", 1)
	var turns [][]envace.Message
	talker := &eval.Talker{Ask: func(_ context.Context, messages []envace.Message, schema json.RawMessage, _ float64) (string, error) {
		turns = append(turns, messages)
		if schema != nil || !contains(messages[0].Content, "the scenario of task 1") {
			t.Errorf("the user is told %q", messages[0].Content)
		}
		return []string{"Hello, I have a wish.", "<think>hm</think>And one more.", "###STOP###"}[len(turns)-1], nil
	}}
	policy := gold()
	plain := policy.says
	policy.says = func(tr *envace.Transcript) ([]audit.Call, string) {
		if tr.Task.Prompt != "Hello, I have a wish." {
			t.Errorf("the conversation begins with %q", tr.Task.Prompt)
		}
		return plain(tr)
	}
	if f := play(t, policy, []eval.Task{talker.Join(tasks[0], "the scenario of task 1")}, 1); f.Average.Value != 1 {
		t.Errorf("%v", f.Average)
	}
	last := turns[len(turns)-1]
	var roles []string
	for _, m := range last {
		roles = append(roles, m.Role+": "+m.Content)
	}
	want := []string{"user: (The agent waits for your first message.)", "assistant: Hello, I have a wish.", "user: It is done.", "assistant: And one more.", "user: It is done."}
	if !slices.Equal(roles[1:], want) {
		t.Errorf("the user reads %q, want %q", roles[1:], want)
	}
	away := &eval.Talker{Ask: func(context.Context, []envace.Message, json.RawMessage, float64) (string, error) {
		return "", &audit.Error{Code: audit.CodeInfrastructure, Message: "away"}
	}}
	_, results := playIn(t, t.TempDir(), eval.Runner{Rollout: envace.Rollout{Policy: gold(), ReadAct: readAct}, Samples: 1}, []eval.Task{away.Join(tasks[0], "")})
	if results[0].Unknown == "" || results[0].Success {
		t.Errorf("%+v: a user who is away says nothing of the policy", results[0])
	}
}

// A judge is asked for JSON; what cannot be read twice is the judge's failure, not the
// policy's.
func TestAssertBy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answers []string
		holds   bool
		fails   bool
		reason  string
	}{
		{[]string{`{"holds": true}`}, true, false, "yes"},
		{[]string{"well", `<think>{"holds": true}</think>{"holds": false}`}, false, false, "no, at the second try"},
		{[]string{"well", `{"answer": true}`}, false, true, "nonsense twice"},
	} {
		asked := 0
		holds, err := eval.AssertBy(func(context.Context, []envace.Message, json.RawMessage, float64) (string, error) {
			asked++
			return test.answers[asked-1], nil
		})(t.Context(), said("Hi.", envace.StopDone), "The agent is polite.")
		if holds != test.holds || (err != nil) != test.fails || test.fails && audit.ErrorCode(err) != audit.CodeInfrastructure {
			t.Errorf("%s: %t, %v", test.reason, holds, err)
		}
	}
	refused := errors.New("no key")
	if _, err := eval.AssertBy(func(context.Context, []envace.Message, json.RawMessage, float64) (string, error) { return "", refused })(t.Context(), said("", ""), ""); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
}
