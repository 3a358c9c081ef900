package cm2_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace/cm2"
)

func TestBuiltIn(t *testing.T) {
	t.Parallel()
	samples, faults, err := cm2.Read(cm2.BuiltIn())
	if err != nil || len(faults) > 0 || len(samples) != 4 {
		t.Fatalf("%d samples, %v, %v", len(samples), faults, err)
	}
	s := samples[2] // in the layout of the training
	if s.Task.ID != "sample-3" || s.Task.Prompt != "Is Ulysses there?" || len(s.Users) != 1 || len(s.Tools) != 2 || len(s.Turns) != 2 || len(s.Items) != 7 {
		t.Errorf("read %+v", s)
	}
	if got := s.Turns[1]; got.Call.Tool != "hold_book" || !strings.Contains(string(got.Call.Arguments), `"B3"`) || !strings.Contains(string(got.Answer), "conflict") {
		t.Errorf("a recorded call: %s %s %s", got.Call.Tool, got.Call.Arguments, got.Answer)
	}
	var ids []string
	for _, item := range s.Checklist[0] {
		ids = append(ids, item.ID)
	}
	if got := strings.Join(ids, " "); got != "1.C0 1.C2 1.C1" {
		t.Errorf("items %s: what an item depends on comes before it", got)
	}
	if s.Checklist[0][0].Reference[0] != "Ulysses" {
		t.Errorf("evidence %v", s.Checklist[0][0].Reference)
	}
	if samples[0].Told != "Rent only bikes that are free." {
		t.Errorf("told %q", samples[0].Told)
	}
}

// row is a good row, with a part replaced.
func row(id, from, to string) string {
	text := fmt.Sprintf(`{"uuid":%q,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},`+
		`{"role":"tool","content":"{}","tool_call_id":"c"},{"role":"assistant","content":"<think>\nhm\n</think>\n\nbye"}],"tools":[{"name":"f"}],`+
		`"checklists":[[[{"id":"C0","question":"q","focus_on":"tool.content","pass_condition":"p","weight":1}]]]}`, id)
	return strings.Replace(text, from, to, 1)
}

// A bad row is named with its line and what to do, and the others are read.
func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct{ from, to, text, hint string }{
		{`"uuid":"bad"`, `"uuid":""`, "no id", "uuid"},
		{`"role":"user"`, `"role":"assistant"`, "the agent speaks before the user", "user's request"},
		{`"content":"hi"`, `"content":""`, "message 1: the user says nothing", "leave"},
		{`"tool_call_id":"c"`, `"tool_call_id":"d"`, "message 3: it answers no call", "after the call"},
		{`{"role":"tool","content":"{}","tool_call_id":"c"},`, ``, "1 calls before it have no answer", "record"},
		{`"tools":[{"name":"f"}]`, `"tools":[]`, "no tools", "leave the row out"},
		{`"tools":[{"name":"f"}]`, `"tools":"oops"`, "no list", "OpenAI"},
		{`{"name":"f"}]`, `{"name":"f"},{"name":"f"}]`, `"f", which is empty or used before`, "a name of its own"},
		{`{"name":"f"}]`, `{"name":"f","parameters":[]}]`, "no JSON Schema object", `"type": "object"`},
		{`"checklists":[[[`, `"checklists":[[[],[`, "checklist has 2 turns, its user has 1", "every turn"},
		{`"weight":1`, `"weight":0`, "weight 0 is not above 0", "correct"},
		{`"weight":1`, `"weight":1,"dependence":["C9"]`, "depends on 1.C9", "correct"},
		{`"focus_on":"tool.content"`, `"focus_on":"mood"`, `focus_on "mood"`, "correct"},
		{`"messages":[`, `"messages":{`, "no valid JSON", "a line"},
		{`"messages":[{"role":"user","content":"hi"}`, `"messages":[7`, "not the form", "layouts"},
		{`"role":"tool"`, `"role":"robot"`, "1 calls before it have no answer", "record"},
		{`"uuid":"bad"`, `"uuid":"good-1"`, "row 1 has the same id", "of its own"},
	}
	for _, test := range tests {
		file := row("good-1", "", "") + "\n\n" + row("bad", test.from, test.to) + "\n" + row("good-2", "", "") + "\n"
		samples, faults, err := cm2.Read(strings.NewReader(file))
		if err != nil || len(samples) != 2 || len(faults) != 1 {
			t.Errorf("%q: %d samples, faults %v, %v", test.to, len(samples), faults, err)
			continue
		}
		if f := faults[0]; f.Line != 3 || f.Row != 2 || !strings.Contains(f.Text, test.text) || !strings.Contains(f.Hint, test.hint) {
			t.Errorf("%q: %v", test.to, f)
		}
		if err := cm2.Refusal("f", faults); audit.ErrorCode(err) != audit.CodeUnprocessable || !strings.Contains(err.Error(), "line 3") {
			t.Errorf("%v", err)
		}
	}
}

func TestLayouts(t *testing.T) {
	t.Parallel()
	a, b := row("a", "", ""), row("b", "", "")
	for file, want := range map[string]int{
		a + "\n" + b:                2,
		"[\n" + a + ",\n" + b + "]": 2,
		`{"about":{"x":[]},"data":[` + a + "," + b + "]}": 2,
		"\ufeff" + a: 1,
	} {
		samples, faults, err := cm2.Read(strings.NewReader(file))
		if err != nil || len(faults) > 0 || len(samples) != want {
			t.Errorf("%.20q…: %d samples, %v, %v", file, len(samples), faults, err)
		}
		if len(samples) > 0 && (samples[0].Items[2].Act.Thinking != "hm" || samples[0].Items[2].Act.Reply != "bye") {
			t.Errorf("the last message: %+v", samples[0].Items[2].Act)
		}
	}
	samples, faults, err := cm2.Read(strings.NewReader("[" + a + ",\n{\"uuid\":}, " + b + "]"))
	if err != nil || len(samples) != 1 || len(faults) != 1 || faults[0].Line != 2 {
		t.Errorf("a list that breaks off: %d samples, %v, %v", len(samples), faults, err)
	}
	for _, file := range []string{"", "PAR1\x00"} {
		if _, _, err := cm2.Read(strings.NewReader(file)); audit.ErrorCode(err) != audit.CodeInvalid || audit.ErrorHint(err) == "" {
			t.Errorf("%q: %v", file, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	built, err := io.ReadAll(cm2.BuiltIn())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(built))
	f.Add(`{"data":[{"uuid":"a"}]}`)
	f.Add("[{}, 3, ")
	f.Fuzz(func(t *testing.T, file string) {
		samples, faults, err := cm2.Read(strings.NewReader(file))
		if err == nil && len(samples)+len(faults) == 0 && json.Valid([]byte(file)) && strings.Contains(file, `"uuid"`) {
			t.Skip("an empty list")
		}
		for _, s := range samples {
			if s.Task.ID == "" || s.Task.Prompt == "" || len(s.Tools) == 0 || s.Checklist.Validate() != nil {
				t.Fatalf("kept %+v", s)
			}
		}
		for _, fault := range faults {
			if fault.Line < 1 || fault.Text == "" || fault.Hint == "" {
				t.Fatalf("fault %+v", fault)
			}
		}
	})
}
