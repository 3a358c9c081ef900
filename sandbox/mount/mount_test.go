package mount_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"understudy/audit"
	"understudy/audit/leaktest"
	"understudy/sandbox/mount"
	"understudy/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const token = "hunter2-is-no-token"

func variables(name string) (string, bool) {
	return token, name == "SHOP_TOKEN"
}

func example(t *testing.T) *mount.Set {
	t.Helper()
	file, err := mount.Load("testdata/environments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	set := mount.NewSet(file, variables)
	t.Cleanup(func() { _ = set.Close() })
	return set
}

// Every environment of the example keeps the contract, as far as its protocol goes.
func TestConformance(t *testing.T) {
	set := example(t)
	for _, name := range set.Names() {
		t.Run(name, func(t *testing.T) {
			env, err := set.Environment(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			sandboxtest.Test(t, env)
		})
	}
}

// What each mutation of the example is answered with: line, place and remedy.
func TestFaultsNameLineAndRemedy(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile("testdata/environments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ old, now, says, reason string }{
		{"    command: [", "    comand: [", `line 4: environments.shop: unknown key "comand"; did you mean "command"?`, "a typing error"},
		{"adapter: mcp-stdio", "adapter: mcp_stdio", `line 3: environments.shop.adapter is "mcp_stdio"; did you mean "mcp-stdio"? (valid: mcp-stdio,`, "a word that is not there"},
		{"    adapter: mcp-stdio\n", "    version: v1\n", `line 2: environments.shop: adapter is missing`, "what is missing"},
		{"timeout: 10s", "timeout: 10 seconds", `line 6: environments.shop.timeout is "10 seconds"; it must look like`, "a duration"},
		{"timeout: 10s", "url: http://x/mcp", `line 6: environments.shop: url means nothing to adapter mcp-stdio, which reads command, dir, env`, "a key of another adapter"},
		{"isolation: process", "isolation: header", `line 5: environments.shop: adapter mcp-stdio cannot isolate by header (valid: process)`, "an isolation of another adapter"},
		{"{effect: read}", "{effect: reads}", `did you mean "read"?`, "deep inside"},
		{"equals: 2600}", "equals: 2600, foo: 1}", `unknown key "foo"; did you mean`, "deeper"},
		{"at: /wallet", "at: wallet", `environments.shop.state_probes.1.at is "wallet"; it must look like ^/`, "a pointer"},
		{"    kind: bfcl\n", "", `line 48: environments.parking: a Python class needs kind, class and file`, "what the schema cannot say"},
		{"class: TollGate, file: tollgate.py}", "class: TollGate, fil: tollgate.py}", `line 69: environments.journey.classes.1: unknown key "fil"; did you mean "file"?`, "in one of several classes"},
		{"    classes: [", "    class: CarPark\n    classes: [", `line 67: environments.journey: give one of: class and file, classes, metadata`, "two ways to name a class"},
		{"  library:", "  shop:", `line 28: mapping key "shop" already defined`, "a name that stands twice"},
		{"environments:\n", "environments: [\n", `line `, "no YAML"},
		{"timeout: 10s", "timeout: " + strings.Repeat("[", 50_000), `line 6: nested deeper than 100 levels`, "brackets that would cost the parser gigabytes"},
		{"timeout: 10s", "timeout: " + strings.Repeat("{a: ", 50_000), `line 6: nested deeper than 100 levels`, "braces"},
		{"timeout: 10s", "timeout:\n" + strings.Repeat("- ", 50_000), `line 7: nested deeper than 100 levels`, "dashes"},
		{"timeout: 10s", "timeout: *short", `line 6: Alias is not understood here`, "what YAML can and we do not read"},
	}
	for _, test := range tests {
		text := strings.Replace(string(good), test.old, test.now, 1)
		if text == string(good) {
			t.Fatalf("%s: the example has no %q", test.reason, test.old)
		}
		_, err := mount.Parse([]byte(text), "x.yaml", "testdata")
		if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), test.says) || audit.ErrorHint(err) == "" {
			t.Errorf("%s: got\n%v\nwant it to say\n%s", test.reason, err, test.says)
		}
	}
}

func FuzzParse(f *testing.F) {
	good, err := os.ReadFile("testdata/environments.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{string(good), "", "environments:", "environments: {a: {adapter: mcp-http, url: x}}", "a: &x [*x]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := mount.Parse([]byte(text), "x", ".")
		if (err == nil) == (file == nil) || err != nil && audit.ErrorHint(err) == "" {
			t.Errorf("got %v, %v", file, err)
		}
	})
}

// The declarations are checked against what the server really has when it is opened.
func TestFaultsOfADeclarationThatFitsNoServer(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile("testdata/environments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, now, says, reason string }{
		{"cancel_order: {effect: write,", "cancel_ordr: {effect: write,", `the server offers no tool "cancel_ordr"`, "a tool that is not there"},
		{"call: get_wallet", "call: get_walet", `state_probes[1]: no tool "get_walet"`, "a probe that is not there"},
		{"call: get_wallet", "call: cancel_order", `state_probes[1]: tool cancel_order writes; a probe must read`, "a probe that writes"},
		{"at: /status, equals: cancelled", "at: /status", `checks[0]: says nothing`, "a check that says nothing"},
		{"shop_server.py", "shop_server.pyc", "shop_server.pyc", "a server that does not start: its last words"},
		{"${SHOP_TOKEN}", "${SHOP_SECRET}", "variable SHOP_SECRET is not set", "a variable that is not set"},
		{`"shop_server.py"`, `"-c", "import sys; sys.exit('bad token ${SHOP_TOKEN}')"`, "bad token ${SHOP_TOKEN}", "a secret in the server's own words is hidden"},
	} {
		file, err := mount.Parse([]byte(strings.Replace(string(good), test.old, test.now, 1)), "x.yaml", dir)
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		_, err = file.Open(t.Context(), "shop", variables)
		text := fmt.Sprint(err, audit.ErrorHint(err))
		if err == nil || audit.ErrorHint(err) == "" || !strings.Contains(text, test.says) || strings.Contains(text, token) {
			t.Errorf("%s: got %v (hint %q), want it to say %s", test.reason, err, audit.ErrorHint(err), test.says)
		}
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	set := example(t)
	if _, err := set.Environment(t.Context(), "library@2"); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("a version that is not declared: %v", err)
	}
	one, err := set.Environment(t.Context(), "library@1")
	if err != nil {
		t.Fatal(err)
	}
	if two, err := set.Environment(t.Context(), "library"); err != nil || one != two {
		t.Errorf("an environment is opened once: %v", err)
	}
	if _, err := mount.Parse([]byte("# "+strings.Repeat("-", 200)+"\nenvironments: {a: {adapter: mcp-http, url: x}}"), "x", "."); err != nil {
		t.Errorf("a ruler in a comment: %v", err)
	}
	if set.Has("shop2") || !set.Has("shop") {
		t.Error("what the set has")
	}
}

// The schema is itself a schema, and accepts the example.
func TestSchema(t *testing.T) {
	t.Parallel()
	var doc any
	if err := json.Unmarshal(mount.Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertVocabs()
	if err := compiler.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	if _, err := compiler.Compile("s.json"); err != nil {
		t.Error(err)
	}
}
