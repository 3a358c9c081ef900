package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	main "understudy/cmd/understudy"
)

// sandboxRun runs `understudy sandbox args...` with a data folder of its own.
func sandboxRun(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	env := map[string]string{"HOME": dir, "UNDERSTUDY_DATA_DIR": filepath.Join(dir, "data")}
	return main.Invoke(t.Context(), env, stdin, append([]string{"sandbox"}, args...)...)
}

func TestSandboxList(t *testing.T) {
	status, stdout, stderr := sandboxRun(t, "", "list", "--json")
	var rows []struct {
		Name     string
		Versions map[string]string
		Tools    int
	}
	if err := json.Unmarshal([]byte(stdout), &rows); status != 0 || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, stderr)
	}
	found := map[string]int{}
	for _, r := range rows {
		found[r.Name] = r.Tools
	}
	for _, name := range []string{"retail", "airline", "telecom", "delivery", "finance", "campaign", "retail-mini"} {
		if found[name] == 0 {
			t.Errorf("%s is not listed, or has no tools: %v", name, found)
		}
	}
	if _, tools, _ := sandboxRun(t, "", "tools", "retail-mini"); strings.Count(tools, "\n") != found["retail-mini"] {
		t.Errorf("the list says %d tools, but these are shown:\n%s", found["retail-mini"], tools)
	}
}

func TestSandboxCall(t *testing.T) {
	for _, row := range []struct {
		args   []string
		status int
		want   string // in the output
		reason string
	}{
		{[]string{"call", "retail-mini", "get_user", `{"user":"U1"}`}, 0, "nothing changed", "a read changes nothing"},
		{[]string{"call", "retail-mini", "get_user", `{"user":"U9"}`}, 0, "refused not_found", "a refusal is an answer"},
		{[]string{"call", "retail-mini", "get_usr", `{}`}, 0, "invalid unknown_tool", "as an agent would see it"},
		{[]string{"call", "retail-mini", "get_user", `{"user":`}, 0, "invalid malformed_call", "as an agent would see it"},
		{[]string{"call", "finance", "verify_customer", `{"customer_id":"C-201","passcode":"no"}`}, 0, "~ /desk/failures 0 → 1", "the delta is shown"},
		{[]string{"call", "retial", "get_user"}, 3, "retail", "the nearest names are the remedy"},
		{[]string{"call", "retail-mini@7", "get_user"}, 3, "versions", "a version that is not there"},
		{[]string{"call", "retail-mini"}, 3, "NAME TOOL", "an argument is missing"},
		{[]string{"cal", "retail-mini"}, 3, "did you mean call?", "a verb that is not there"},
		{[]string{"tools", "retail-mini", "cancle"}, 3, "did you mean cancel?", "a tool that is not there"},
		{[]string{"tasks", "retail-mini", "T999999"}, 3, "no task T999999", "a task that is not there"},
		{[]string{"import", "tau3"}, 3, "import tau2 --data DIR", "a source that is not there"},
		{[]string{"import", "tau2", "--data", "/nowhere"}, 3, "--data DIR", "a folder that is not there"},
	} {
		status, stdout, stderr := sandboxRun(t, "", row.args...)
		if status != row.status || !strings.Contains(stdout+stderr, row.want) {
			t.Errorf("%v: status %d, %q; want %d with %q (%s)", row.args, status, stdout+stderr, row.status, row.want, row.reason)
		}
	}
}

// The shell does what a person types, shows what each call changed, and takes it back.
func TestSandboxShell(t *testing.T) {
	_, stdout, stderr := sandboxRun(t, "", "tasks", "retail-mini", "T0")
	var task struct {
		ID       string
		Solution []struct {
			Tool      string
			Arguments json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(stdout), &task); err != nil {
		t.Fatalf("%v: %s %s", err, stdout, stderr)
	}
	script := []string{"help", "tools", "task " + task.ID, "check"}
	for _, call := range task.Solution {
		script = append(script, call.Tool+" "+strings.Join(strings.Fields(string(call.Arguments)), " "))
	}
	script = append(script, "check", "fork", "undo", "back", "undo", "undo", "check", "state /users/U1/gift", "get_user user=U1", "nonsense", "state /no/where", "task x", "quit", "help")
	status, stdout, stderr := sandboxRun(t, strings.Join(script, "\n"), "shell", "retail-mini")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	at := 0
	for _, want := range []string{
		"Type help", "take the last call back", "give_back", "not done", "changed ", "done:", "in fork 1", "no call to take back",
		"back where the fork began", "taken back", "not done", "nothing changed", "no tool nonsense", "read state", `no task "x"`,
	} {
		next := strings.Index(stdout[at:], want)
		if next < 0 {
			t.Fatalf("%q does not follow:\n%s", want, stdout[at:])
		}
		at += next
	}
	if strings.Contains(stdout, "\x1b[") {
		t.Error("colours in a pipe")
	}
}

func TestSandboxCheck(t *testing.T) {
	status, stdout, stderr := sandboxRun(t, "", "check", "retail-mini", "--calls", "400")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for _, want := range []string{"kill rate", "idle succeeds on 0", "400 calls", "0 findings"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
}

func TestSandboxContract(t *testing.T) {
	status, stdout, stderr := sandboxRun(t, "", "contract", "finance@3")
	if status != 0 || !strings.Contains(stdout, "pass  a write can be read") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}

// What is imported is listed and can be called under the name that import prints.
func TestSandboxImportTau2(t *testing.T) {
	data := os.Getenv("UNDERSTUDY_DATA")
	if data == "" {
		data = "../../../shared/data"
	}
	tau2 := filepath.Join(data, "tau2")
	if _, err := os.Stat(tau2); err != nil {
		t.Skipf("no tau2-bench data: set UNDERSTUDY_DATA to the folder that holds tau2/ (%v)", err)
	}
	env := map[string]string{"UNDERSTUDY_DATA_DIR": t.TempDir()}
	status, stdout, stderr := main.Invoke(t.Context(), env, "", "sandbox", "import", "tau2", "--data", tau2)
	if status != 0 || !strings.Contains(stdout, "tau2:retail") {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = main.Invoke(t.Context(), env, "", "sandbox", "list")
	if status != 0 || !strings.Contains(stdout, "tau2:retail") {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = main.Invoke(t.Context(), env, "", "sandbox", "call", "tau2:retail", "get_order_details", `{"order_id":"W0"}`)
	if status != 0 || !strings.Contains(stdout, "Order not found") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}
