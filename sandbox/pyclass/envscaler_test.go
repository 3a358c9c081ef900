package pyclass_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/sandbox/pyclass"
)

func TestLoadEnvScaler(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	metadata, err := json.Marshal(map[string]any{"lib": map[string]any{
		"env_class_name": "LendingLibrary", "env_class_code": source(t, "library.py"),
		"tools":         []any{map[string]any{"type": "function", "function": map[string]any{"name": "lend", "description": "Lends.", "parameters": map[string]any{"type": "object"}}}},
		"env_structure": map[string]any{"methods": map[string]any{"lend": map[string]any{"writes": []string{"loans"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	scenarios := `[{"env_id":"lib","task_id":7,"task":"Lend.","init_config":` + shelf + `,"checklist_with_func":[{"check_item":"c","check_func":"def check_func(final_state): return True"}]},{"env_id":"other","task_id":8}]`
	for name, text := range map[string]string{"m.json": string(metadata), "s.json": scenarios} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spec, err := pyclass.LoadEnvScaler(filepath.Join(dir, "m.json"), filepath.Join(dir, "s.json"), "lib")
	if err != nil {
		t.Fatal(err)
	}
	if len(spec.Tasks) != 1 || spec.Tasks[0].ID != "7" || spec.Tools[0].Effect != audit.Write {
		t.Errorf("got %+v", spec)
	}
	_, s := open(t, spec)
	if o := call(t, s, "lend", `{"book_id":"b1","member_id":"m1"}`); o.Status != audit.StatusOK {
		t.Errorf("%s %s", o.Status, o.Raw)
	}
	if _, err := pyclass.LoadEnvScaler(filepath.Join(dir, "m.json"), "", "nope"); audit.ErrorCode(err) != audit.CodeNotFound {
		t.Errorf("an environment that is not there: %v", err)
	}
}

// A folder that knows its parent is a state like any other, and a change deep in it is
// found.
func TestStateThatHoldsItself(t *testing.T) {
	t.Parallel()
	_, s := open(t, pyclass.Spec{
		Name: "tree", Kind: pyclass.BFCL, Class: "Tree", Tools: tools("grow:name"),
		Source: `
class Node:
    def __init__(self, parent):
        self.parent, self.children = parent, {}

class Tree:
    def _load_scenario(self, scenario, long_context=False):
        self.root = Node(None)
        self.root.children["a"] = Node(self.root)
        self.root.friends = {Node(self.root)}

    def grow(self, name: str):
        self.root.children["a"].children[name] = Node(self.root.children["a"])
        return {"grown": name}
`,
	})
	if o := call(t, s, "grow", `{"name":"b"}`); !strings.HasPrefix(delta(o), "add /root/children/a/children/b ") || !strings.Contains(delta(o), `{"$above":`) {
		t.Errorf("delta %s", delta(o))
	}
}
