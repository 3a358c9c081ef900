package eval_test

import (
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/eval"
)

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
