package eval_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/eval"
	"understudy/sandbox/pyclass"
)

// patience is for a class on a machine that has no processor to spare.
const patience = 5 * time.Minute

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
		Name: "station", Kind: pyclass.BFCL, Tools: tools, Timeout: patience,
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
