package audit_test

import (
	"slices"
	"strings"
	"testing"

	"understudy/audit"
)

func defaults(tb testing.TB) *audit.Rules {
	tb.Helper()
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return rules
}

func TestEnvelopes(t *testing.T) {
	t.Parallel()
	okEmpty := audit.Outcome{Class: audit.OKEmpty}
	for _, tc := range []struct {
		raw    string
		want   audit.Outcome
		reason string
	}{
		{`{"order":1}`, ok(), "a plain object"},
		{`"W1"`, ok(), "a plain string"},
		{`u7`, ok(), "bare text"},
		{`{"error_tool_call":{"code":"INVALID_PARAMETERS","message":"x"}}`, failed(audit.SchemaInvalid), "EnvACE's simulator"},
		{`{"error_tool_call":{"code":"TOOL_NOT_AVAILABLE","message":"x"}}`, failed(audit.UnknownTool), "EnvACE's whitelist"},
		{`{"success":false,"message":"Order not found"}`, failed(audit.NotFound), "a success flag, family by text"},
		{`{"success":false,"error":"already cancelled"}`, failed(audit.Conflict), "its error text"},
		{`{"success":true,"error":null}`, ok(), "a null error is none"},
		{`{"success":true,"data":[]}`, okEmpty, "nothing found"},
		{`{"ok":false,"code":"NOT_OWNER"}`, failed(audit.Authorization), "family by code"},
		{`{"error":"Rate limit exceeded"}`, failed(audit.Limit), "an error string"},
		{`{"error":{"code":429,"message":"slow down"}}`, failed(audit.Limit), "field case T1"},
		{`{"error":{"code":"conflict","message":"x"}}`, failed(audit.Conflict), "our native domains"},
		{`{"error":""}`, ok(), "an empty error is none"},
		{`{"error":{}}`, ok(), "nor is an empty object"},
		{`{"error":false,"x":1}`, ok(), "nor is false"},
		{`{"error":true,"message":"permission denied"}`, failed(audit.Authorization), "an error flag"},
		{`{"isError":true,"content":[{"type":"text","text":"user does not exist"}]}`, failed(audit.NotFound), "MCP"},
		{`{"is_error":true,"content":[{"type":"text","text":"x"}],"structured_content":{"error":{"code":"PERMISSION_DENIED"}}}`, failed(audit.Authorization), "MCP in snake case, code in the structured part"},
		{`{"isError":false,"content":[{"type":"text","text":"{\"a\":1}"}]}`, ok(), "MCP success"},
		{`{"status":404,"error":"gone"}`, failed(audit.NotFound), "HTTP"},
		{`{"status_code":503,"body":"x"}`, failed(audit.Transient), "HTTP, down"},
		{`{"status":500,"message":"boom"}`, failed(audit.Internal), "HTTP, crashed"},
		{`{"status":200,"body":{"a":1}}`, ok(), "HTTP success"},
		{`{"status":404,"orders":3}`, ok(), "a number called status is no HTTP answer"},
		{`{"status":"pending","id":"W1"}`, ok(), "a domain's own status"},
		{`Error: Order not found`, failed(audit.NotFound), "an error text"},
		{`Error: Tool 'x' not found.`, failed(audit.UnknownTool), "of an unknown tool"},
		{`Error: f() missing 1 required positional argument: 'a'`, failed(audit.SchemaInvalid), "Python's TypeError"},
		{`"Error: Gift card balance is not enough"`, failed(audit.Precondition), "as a JSON string"},
		{`Error when executing tool: timed out`, failed(audit.Transient), "a backend's time-out"},
		{`Errors are listed in the manual`, ok(), "a sentence that begins alike"},
		{`{'success': False, 'error': 'no such user'}`, failed(audit.NotFound), "Python's repr"},
		{`{}`, okEmpty, "an empty object"},
		{`[]`, okEmpty, "an empty list"},
		{`null`, okEmpty, "null"},
		{`""`, okEmpty, "an empty string"},
		{`{"results":[],"count":0,"more":false}`, okEmpty, "a search without a hit"},
		{`{"order_id":"W1","items":[]}`, ok(), "an order without items is an order"},
		{`{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"}}`, failed(audit.UnknownTool), "JSON-RPC"},
		{`{"a":1`, failed(audit.Unparseable), "cut"},
		{``, failed(audit.Unparseable), "nothing"},
		{`{"x":NaN}`, failed(audit.Unparseable), "not a number"},
		{strings.Repeat("[", 100000), failed(audit.Unparseable), "too deep"},
	} {
		if got := defaults(t).Of("t").Read([]byte(tc.raw)).Outcome; got != tc.want {
			t.Errorf("%.80s: %v, want %v: %s", tc.raw, got, tc.want, tc.reason)
		}
	}
}

func TestAToolsOwnTable(t *testing.T) {
	t.Parallel()
	rules, err := audit.ParseRules([]byte(`
version: "1"
tools:
  "*":
    codes: {E7: limit}
  pay:
    fields: [{pointer: /state, failed: [declined, failed], code: /why/code, message: /why/text}]
    texts: [{match: "card .* blocked", family: authorization}]
  search:
    empty: [/hits]
    envelopes: [error_key]
`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		tool, raw string
		want      audit.Outcome
		reason    string
	}{
		{"pay", `{"state":"DECLINED","why":{"text":"card 7 blocked"}}`, failed(audit.Authorization), "its own field and text"},
		{"pay", `{"state":"declined","why":{"code":"E7"}}`, failed(audit.Limit), "a code of every tool"},
		{"pay", `{"state":"done"}`, ok(), "its field says success"},
		{"pay", `{"state":"done","error":"ignored"}`, ok(), "and decides"},
		{"other", `{"state":"declined"}`, ok(), "another tool's field"},
		{"search", `{"hits":[],"query":"x"}`, audit.Outcome{Class: audit.OKEmpty}, "its own emptiness"},
		{"search", `{"success":false}`, ok(), "an envelope that it does not use"},
	} {
		if got := rules.Of(tc.tool).Read([]byte(tc.raw)).Outcome; got != tc.want {
			t.Errorf("%s %s: %v, want %v: %s", tc.tool, tc.raw, got, tc.want, tc.reason)
		}
	}
}

func TestBadRulesNameTheNearestWord(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rules, paths, want, reason string }{
		{"tools: {t: {envelops: []}}", "", "envelopes", "a wrong key"},
		{"tools: {t: {envelopes: [error_kay]}}", "", `"error_key"`, "a wrong envelope"},
		{"tools: {t: {codes: {X: notfound}}}", "", `"not_found"`, "a wrong family"},
		{"tools: {t: {texts: [{match: x, family: confict}]}}", "", `"conflict"`, "a wrong family of a text"},
		{`tools: {t: {texts: [{match: "(", family: conflict}]}}`, "", "text rule", "a bad expression"},
		{"tools: {t: {fields: [{pointer: a}]}}", "", "JSON Pointer", "no pointer"},
		{"format: execution", "", "execution_result", "a wrong format"},
		{"defects: [{tool: t}]", "", "environment", "a defect without its place"},
		{"tools: [", "", "YAML", "no YAML"},
		{"", "version: \"1\"\ntools: {t: {/a: numbr}}", "number", "a wrong path rule"},
	} {
		_, err := audit.ParseRules([]byte(tc.rules), []byte(tc.paths), nil)
		if err == nil {
			t.Errorf("%s: accepted %q", tc.reason, tc.rules+tc.paths)
			continue
		}
		if text := err.Error() + " " + audit.ErrorHint(err); !strings.Contains(text, tc.want) {
			t.Errorf("%s: %q does not name %s", tc.reason, text, tc.want)
		}
	}
}

func TestRulesHaveADigest(t *testing.T) {
	t.Parallel()
	base := defaults(t).Digest()
	seen := []audit.Digest{base}
	for _, text := range []struct{ rules, paths string }{
		{`version: "2"`, ""},
		{`format: execution_result`, ""},
		{`tools: {t: {empty: [/a]}}`, ""},
		{`tools: {t: {echo: {"": /a}}}`, ""},
		{"", "version: \"1\"\ntools: {t: {/a: volatile}}"},
	} {
		rules, err := audit.ParseRules([]byte(text.rules), []byte(text.paths), nil)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(seen, rules.Digest()) {
			t.Errorf("%+v has the digest of other rules", text)
		}
		seen = append(seen, rules.Digest())
	}
	if defaults(t).Digest() != base {
		t.Error("the same rules have two digests")
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"error":{"code":1}}`, `Error: x`, `{'a': None}`, `{"isError":true,"content":[]}`, "\xff", `{"status":404,"body":[]}`} {
		f.Add([]byte(seed))
	}
	rules := defaults(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		a := rules.Of("t").Read(raw)
		if (a.Outcome.Class == audit.Failed) != (a.Outcome.Family != "") {
			t.Fatalf("%q: outcome %+v", raw, a.Outcome)
		}
		if !a.Valid && a.Outcome.Family != audit.Unparseable {
			t.Fatalf("%q: not valid, yet %v", raw, a.Outcome)
		}
	})
}
