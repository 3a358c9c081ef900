package eval_test

import (
	"encoding/json"
	"strings"
	"testing"

	"understudy/envace/eval"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

func TestParsePythonCall(t *testing.T) {
	t.Parallel()
	names := func(string) []string { return []string{"file_name", "lines"} }
	for _, test := range []struct{ text, tool, arguments, fault, reason string }{
		{`cd(folder='document')`, "cd", `{"folder":"document"}`, "", "by name"},
		{`sort('a.txt')`, "sort", `{"file_name":"a.txt"}`, "", "by place"},
		{`head("a", lines=-3)`, "head", `{"file_name":"a","lines":-3}`, "", "a negative number"},
		{`ls()`, "ls", `{}`, "", "nothing"},
		{`f(a=True, b=None, c=[1, 2.50, "x"], d={'k': (1,)}, e=25.0)`, "f", `{"a":true,"b":null,"c":[1,2.50,"x"],"d":{"k":[1]},"e":25.0}`, "", "every kind of literal; 25.0 stays 25.0"},
		{`post(content='It\'s "so"\n')`, "post", `{"content":"It's \"so\"\n"}`, "", "quotes and escapes"},
		{`TravelAPI.book(id=1)`, "book", `{"id":1}`, "", "with its class"},
		{`f(x=g())`, "", "", "is no literal", "no code is run"},
		{`f(1, 2, 3)`, "", "", "has no name", "more values than parameters"},
		{`1 + 1`, "", "", "it is no call", "no call"},
		{`f(`, "", "", "reference call f(", "broken"},
	} {
		call, err := eval.ParsePythonCall(test.text, names)
		if test.fault != "" {
			if err == nil || !contains(err.Error(), test.fault) {
				t.Errorf("%s: %v, want %q: %s", test.text, err, test.fault, test.reason)
			}
			continue
		}
		if err != nil || call.Tool != test.tool || string(call.Arguments) != test.arguments {
			t.Errorf("%s: %s %s, %v; want %s %s: %s", test.text, call.Tool, call.Arguments, err, test.tool, test.arguments, test.reason)
		}
	}
}

func FuzzParsePythonCall(f *testing.F) {
	for _, text := range []string{`cd(folder='document')`, `f(a=[1,{'b':-2.5}])`, `x.y("é")`, `f(0x10, 1e400)`, `f(**k)`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		call, err := eval.ParsePythonCall(text, func(string) []string { return []string{"a", "b"} })
		if err == nil && (call.Tool == "" || !json.Valid(call.Arguments)) {
			t.Errorf("%q became %s %s", text, call.Tool, call.Arguments)
		}
	})
}

func TestFunctionTool(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ function, name, schema, reason string }{
		{
			`{"name":"cat","parameters":{"type":"dict","properties":{"type":{"type":"float"},"x":{"type":"any","description":"a dict"},"l":{"type":"array","items":{"type":"dict"}}},"required":["x"]}}`,
			"cat", `{"properties":{"l":{"items":{"type":"object"},"type":"array"},"type":{"type":"number"},"x":{"description":"a dict"}},"required":["x"],"type":"object"}`, "types are translated; names, texts and a parameter named type are not",
		},
		{
			`{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"n":{"type":"integer","default":"float"}}}}}`,
			"f", `{"properties":{"n":{"default":"float","type":"integer"}},"type":"object"}`, "OpenAI's wrapping; a default is a value",
		},
		{`{"name":"f"}`, "f", `{"type":"object"}`, "no parameters"},
	} {
		var f eval.Function
		if err := json.Unmarshal([]byte(test.function), &f); err != nil {
			t.Fatal(err)
		}
		tool, err := f.Tool()
		if err != nil || tool.Name != test.name || string(tool.Input) != test.schema {
			t.Errorf("%s: %s %s, %v; want %s", test.reason, tool.Name, tool.Input, err, test.schema)
		}
	}
}
