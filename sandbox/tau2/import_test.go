package tau2_test

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"understudy/audit"
	"understudy/sandbox"
	engine "understudy/sandbox/starlark"
	"understudy/sandbox/tau2"
)

// bundles imports the small data of testdata, which is of our own making.
func bundles(t *testing.T) map[string]*tau2.Bundle {
	t.Helper()
	list, err := tau2.Import(t.Context(), os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*tau2.Bundle{}
	for _, b := range list {
		byName[b.Name] = b
	}
	return byName
}

func TestImportFillsModels(t *testing.T) {
	t.Parallel()
	all := bundles(t)
	for _, test := range []struct{ domain, pointer, want, reason string }{
		{"retail", "/orders/#W1/payment_history/0/amount", `5.0`, "a float field holds a float"},
		{"retail", "/orders/#W1/cancel_reason", `null`, "an absent field has its default"},
		{"retail", "/products/1/variants/11", `{"item_id":"11","options":{},"available":true,"price":5.0}`, "unknown fields go"},
		{"telecom", "/agent/plans/0/data_limit_gb", `2.0`, "TOML numbers too"},
		{"telecom", "/agent/customers/0/created_at", `"2025-01-02 03:04:05"`, "a datetime reads as Python's str"},
		{"telecom", "/user/device/network_mode_preference", `"4g_5g_preferred"`, "the phone's defaults"},
		{"telecom", "/user/device/active_apn_settings/mms_apn", `"mms"`, "nested defaults"},
		{"telecom", "/user/surroundings/phone_number", `null`, "nobody holds the phone yet"},
	} {
		session, err := engine.NewEnvironment(all[test.domain].Domain).Open(t.Context(), audit.Start{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := session.(audit.Stater).State(t.Context(), test.pointer)
		if err != nil || string(got) != test.want {
			t.Errorf("%s%s = %s (%v), want %s: %s", test.domain, test.pointer, got, err, test.want, test.reason)
		}
	}
}

func TestImportedTasksAreSolvable(t *testing.T) {
	t.Parallel()
	for name, b := range bundles(t) {
		env := engine.NewEnvironment(b.Domain)
		tasks, err := env.Tasks(t.Context(), 0, 0)
		if err != nil || len(tasks) != 1 || b.Tasks != 1 {
			t.Fatalf("%s: %d tasks (%v), want 1", name, len(tasks), err)
		}
		session, err := env.Open(t.Context(), audit.Start{Task: tasks[0].ID})
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range tasks[0].Solution {
			if obs, err := session.Call(t.Context(), call); err != nil || obs.Status != audit.StatusOK {
				t.Fatalf("%s: %s: %s (%v)", name, call.Tool, obs.Raw, err)
			}
		}
		if r, err := session.(audit.Checker).Check(t.Context(), ""); err != nil || !r.Success() {
			t.Errorf("%s: the reference solution passes %d of %d checks (%v)", name, r.Passed, r.Checks, err)
		}
	}
}

// A bundle on disk is a domain folder like any other.
func TestWriteOpensThroughTheRegistry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := bundles(t)["telecom"].Write(dir); err != nil {
		t.Fatal(err)
	}
	r := sandbox.New(os.DirFS(dir))
	defer r.Close()
	env, err := r.Environment(t.Context(), "telecom@1+tau2")
	if err != nil {
		t.Fatal(err)
	}
	session, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	obs, err := session.Call(t.Context(), audit.Call{Tool: "check_installed_apps", Role: "user"})
	if want := "The following apps are installed on the phone: zebra, apple"; err != nil || string(obs.Raw) != want {
		t.Errorf("got %s (%v), want %s: keys keep the order of the file", obs.Raw, err, want)
	}
	tools, err := env.Tools(t.Context())
	if err != nil || len(tools) != 43 {
		t.Errorf("%d tools (%v), want 13 of the agent and 30 of the user", len(tools), err)
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		data   fs.FS
		text   string
		code   audit.Code
		reason string
	}{
		{fstest.MapFS{}, "no tau2 data", audit.CodeNotFound, "an empty folder"},
		{fstest.MapFS{"retail/x": {}}, "read retail/db.json", audit.CodeInvalid, "a folder without its database"},
		{fstest.MapFS{"retail/db.json": {Data: []byte("{")}}, "read retail/db.json", audit.CodeInvalid, "broken JSON"},
		{fstest.MapFS{"retail/db.json": {Data: []byte(`{"products":{}}`)}}, "/users: required", audit.CodeInvalid, "a database without a table"},
		{fstest.MapFS{"telecom/db.toml": {Data: []byte("[[")}}, "read telecom/db.toml", audit.CodeInvalid, "broken TOML"},
	} {
		_, err := tau2.Import(t.Context(), test.data)
		if audit.ErrorCode(err) != test.code || !strings.Contains(err.Error(), test.text) || audit.ErrorHint(err) == "" {
			t.Errorf("%s: got %v, want %q with a hint", test.reason, err, test.text)
		}
	}
}

// An assertion that must not hold, left out, would make its task easier than it is.
func TestImportRefusesWhatItWouldLeaveOut(t *testing.T) {
	t.Parallel()
	data := fstest.MapFS{}
	for _, name := range []string{"db.toml", "user_db.toml", "tasks.json"} {
		text, err := os.ReadFile("testdata/telecom/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.Replace(text, []byte(`"assert_value": true`), []byte(`"assert_value": false`), 1)
		data["telecom/"+name] = &fstest.MapFile{Data: text}
	}
	_, err := tau2.Import(t.Context(), data)
	if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), "task pay: assertion assert_no_overdue_bill") {
		t.Errorf("got %v, want the assertion named", err)
	}
}

func TestReplayReportsBothSides(t *testing.T) {
	t.Parallel()
	const call = `{"episode":"e","step":0,"role":"assistant","tool":"cancel_pending_order","arguments":{"order_id":"#W1","reason":"no longer needed"},`
	const content = `"content":"{\"order_id\":\"#W1\"}",`
	for _, test := range []struct {
		line, what, reason string
	}{
		{call + `"error":true,"content":"Error: Order not found","delta":[]}`, "outcome", "the reference refused"},
		{call + `"error":false,` + content + `"delta":[]}`, "content", "another answer"},
		{`{"episode":"e","step":0,"role":"assistant","tool":"get_user_details","arguments":{"user_id":"nobody"},"error":true,"content":"Error: User not found","delta":[]}`, "", "the same refusal"},
		{`{"episode":"e","step":0,"role":"assistant","tool":"transfer_to_human_agents","arguments":{"summary":"s"},"error":false,"content":"Transfer successful","delta":[{"op":"add","path":"/x","value":1}]}`, "delta", "an effect that is not there"},
	} {
		_, found, err := bundles(t)["retail"].Replay(t.Context(), strings.NewReader(test.line))
		if err != nil {
			t.Fatal(err)
		}
		what := ""
		if len(found) > 0 {
			what = found[0].What
			if text := found[0].String(); !strings.Contains(text, "recorded:") || !strings.Contains(text, "ours:") {
				t.Errorf("%s: both sides are missing in %s", test.reason, text)
			}
		}
		if what != test.what {
			t.Errorf("%s: %q differs, want %q", test.reason, what, test.what)
		}
	}
}
