package pyclass_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/sandbox/pyclass"
	"understudy/sandbox/sandboxtest"
)

// station is two BFCL-style classes in one world and one runner.
func station(tb testing.TB) pyclass.Spec {
	tb.Helper()
	return pyclass.Spec{
		Name: "station", Kind: pyclass.BFCL, Timeout: patience,
		Classes: []pyclass.Class{
			{Name: "Turnstile", File: filepath.Join("testdata", "turnstile.py"), Tools: []string{"balance"}},
			{Name: "Kiosk", File: filepath.Join("testdata", "kiosk.py")},
		},
		Tools:  tools("balance:card", "enter:card gate", "price:item", "buy:item"),
		Config: json.RawMessage(`{"Turnstile":{"cards":{"c1":5,"c2":1000000}},"Kiosk":{"stock":{"water":{"price":2,"left":1000000}}}}`),
	}
}

// Several classes are one world: each is loaded with its part of the
// configuration, and what a call changes stands under the name of its class.
func TestSeveralClassesShareAWorld(t *testing.T) {
	t.Parallel()
	_, s := open(t, station(t))
	for _, test := range []struct{ tool, args, raw, delta, reason string }{
		{"balance", `{"card":"c1"}`, `{"balance": 5}`, ``, "a method of both: the one that it was given to"},
		{"enter", `{"card":"c1","gate":"g"}`, `{"pass": "P5305"}`, `replace /Turnstile/cards/c1 2; add /Turnstile/gates/g 1`, "the first class's state"},
		{"buy", `{"item":"water"}`, `{"bought": "water"}`, `replace /Kiosk/stock/water/left 999999; replace /Kiosk/till 2`, "the second class's state"},
		{"price", `{"item":"tea"}`, `{"error": "Item tea not found."}`, ``, "a refusal"},
	} {
		if o := call(t, s, test.tool, test.args); string(o.Raw) != test.raw || delta(o) != test.delta {
			t.Errorf("%s: got %s %q, want %s %q", test.reason, o.Raw, delta(o), test.raw, test.delta)
		}
	}
	fork, err := s.(audit.Forker).Fork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call(t, fork, "buy", `{"item":"water"}`)
	if till, err := s.(audit.Stater).State(t.Context(), "/Kiosk/till"); err != nil || string(till) != "2" {
		t.Errorf("the fork's purchase is in the till of its origin: %s, %v", till, err)
	}
}

func TestConformanceOfSeveralClasses(t *testing.T) {
	t.Parallel()
	spec := station(t)
	spec.Tasks = []pyclass.Scenario{{
		ID: "t1", Prompt: "Buy water and enter.", Config: spec.Config,
		Solution: []audit.Call{
			{Tool: "price", Arguments: json.RawMessage(`{"item":"water"}`)},
			{Tool: "buy", Arguments: json.RawMessage(`{"item":"water"}`)},
			{Tool: "enter", Arguments: json.RawMessage(`{"card":"c1","gate":"g"}`)},
		},
		Checks: []string{"def check_func(final_state):\n    return final_state['Kiosk']['till'] == 2 and 'g' in final_state['Turnstile']['gates']"},
	}}
	for i, effect := range []audit.Effect{audit.Read, audit.Write, audit.Read, audit.Write} {
		spec.Tools[i].Effect = effect
	}
	env, _ := open(t, spec)
	sandboxtest.Test(t, env)
}

func TestFaultsOfSeveralClasses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		change func(*pyclass.Spec)
		want   string
		reason string
	}{
		{func(s *pyclass.Spec) { s.Classes[0].Tools = nil }, "tool balance is a method of Turnstile and Kiosk", "which of the two?"},
		{func(s *pyclass.Spec) { s.Classes[1].Name = "Turnstile" }, "class Turnstile twice", "one name twice"},
		{func(s *pyclass.Spec) { s.Classes[1].Tools = []string{"fly"} }, `the tool "fly", which is not declared`, "a tool of nobody"},
		{func(s *pyclass.Spec) { s.Classes[1].Tools = []string{"balance"} }, "tool balance is a method of Turnstile and Kiosk", "given to both"},
		{func(s *pyclass.Spec) { s.Class = "Turnstile" }, "both a class and several classes", "two ways at once"},
		{func(s *pyclass.Spec) { s.Classes[1].Source = "class Kiosk: pass" }, "either the text or the file of class Kiosk", "text and file"},
	}
	for _, test := range tests {
		spec := station(t)
		test.change(&spec)
		if _, err := pyclass.New(t.Context(), spec); err == nil || !strings.Contains(err.Error(), test.want) || audit.ErrorHint(err) == "" {
			t.Errorf("%s: got %v (hint %q), want it to say %q", test.reason, err, audit.ErrorHint(err), test.want)
		}
	}
	env, _ := open(t, station(t))
	if _, err := env.Open(t.Context(), audit.Start{State: json.RawMessage(`{"Kisok":{}}`)}); err == nil || !strings.Contains(err.Error(), "no class is named Kisok") {
		t.Errorf("a configuration for a class that is not there: %v", err)
	}
}

// The digest is of what the classes say, wherever they lie: an edited rule makes
// it another environment, a copied folder does not.
func TestDigestIsOfTheText(t *testing.T) {
	t.Parallel()
	digest := func(text string) audit.Digest {
		spec := bfcl(t)
		spec.File = filepath.Join(t.TempDir(), "turnstile.py")
		if err := os.WriteFile(spec.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		env, _ := open(t, spec)
		return env.Info().Digest
	}
	text := source(t, "turnstile.py")
	if here, there := digest(text), digest(text); here != there { // each has a folder of its own
		t.Error("the same class in another folder is another environment")
	}
	if digest(text) == digest(strings.Replace(text, "-= 3", "-= 2", 1)) {
		t.Error("a class with another rule is the same environment")
	}
}
