package tau2_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/fstest"

	"understudy/audit"
	engine "understudy/sandbox/starlark"
	"understudy/sandbox/tau2"
)

// TestPythonTexts pins the wording of CPython's and pydantic's refusals, each as
// CPython 3.11 and pydantic 2.13 give it.
func TestPythonTexts(t *testing.T) {
	t.Parallel()
	const more = "\n    For further information visit https://errors.pydantic.dev/2.13/v/"
	calculate := func(e string) string { return fmt.Sprintf(`{"expression":%q}`, e) }
	all := bundles(t)
	for _, test := range []struct{ domain, role, tool, arguments, want, reason string }{
		{"retail", "", "calculate", calculate("(10.5*3)-1"), "30.5", "arithmetic"},
		{"retail", "", "calculate", calculate("2**10//3"), "341.0", "powers and floors"},
		{"retail", "", "calculate", calculate("1.005*100"), "100.5", "rounding is of the exact binary value"},
		{"retail", "", "calculate", calculate("-2**2"), "-4.0", "a power binds more than a sign"},
		{"retail", "", "calculate", calculate("7/0"), "Error: division by zero", "of integers"},
		{"retail", "", "calculate", calculate("7.0/0"), "Error: float division by zero", "of floats"},
		{"retail", "", "calculate", calculate("2+x"), "Error: Invalid characters in expression", "letters"},
		{"retail", "", "calculate", calculate("1+"), "Error: invalid syntax (<string>, line 1)", "an operand is missing"},
		{"retail", "", "calculate", calculate(""), "Error: invalid syntax (<string>, line 0)", "nothing"},
		{"retail", "", "calculate", calculate("(1+2"), "Error: '(' was never closed (<string>, line 1)", "open"},
		{"retail", "", "calculate", calculate("1+2)"), "Error: unmatched ')' (<string>, line 1)", "closed"},
		{"retail", "", "calculate", calculate("2(3)"), "Error: 'int' object is not callable", "looks like a call"},
		{"retail", "", "calculate", calculate("9**9**9"), "Error: int too large to convert to float", "bounded, where the reference hangs"},
		{"retail", "", "get_order_details", `{}`, "Error: RetailTools.get_order_details() missing 1 required positional argument: 'order_id'", "one is missing"},
		{"retail", "", "find_user_id_by_name_zip", `{}`, "Error: RetailTools.find_user_id_by_name_zip() missing 3 required positional arguments: 'first_name', 'last_name', and 'zip'", "three are missing"},
		{"retail", "", "list_all_product_types", `{"a":1}`, "Error: RetailTools.list_all_product_types() got an unexpected keyword argument 'a'", "one too many"},
		{"retail", "", "get_order_details", `{"order_id":[]}`, "Error: unhashable type: 'list'", "a list as a key"},
		{"retail", "", "nothing", `{}`, "Error: Tool 'nothing' not found.", "an unknown tool"},
		{"telecom", "assistant", "make_payment", `{}`, "Error: Tool 'make_payment' not found.", "the other role's tool"},
		{"telecom", "assistant", "set_user_info", `{"name":"a","phone_number":"b"}`, "Error: Tool 'set_user_info' not found.", "what only tasks may use"},
		{"telecom", "user", "set_apn_settings", `{"apn_settings":{"apn_name":"x"}}`, "Error: 1 validation error for APNSettings\napn_name\n  Input should be 'internet' or 'broken' [type=enum, input_value='x', input_type=str]" + more + "enum", "a value outside the enum"},
		{"telecom", "user", "set_apn_settings", `{"apn_settings":{"mms_port":"x","foo":1}}`, "Error: 2 validation errors for APNSettings\nmms_port\n  Input should be a valid integer, unable to parse string as an integer [type=int_parsing, input_value='x', input_type=str]" + more + "int_parsing\nfoo\n  Extra inputs are not permitted [type=extra_forbidden, input_value=1, input_type=int]" + more + "extra_forbidden", "two faults"},
		{"telecom", "user", "set_apn_settings", `{"apn_settings":{"reset_at_reboot":"yes","mms_port":"80"}}`, "APN settings set to: internet\nStatus Bar: 📶⁴ Excellent | 5G | 📱 Data Enabled | 🔋 50%", "lax conversions"},
		{"telecom", "", "get_data_usage", `{"customer_id":"C1","line_id":"L1"}`, `{"line_id": "L1", "data_used_gb": "0.0", "data_limit_gb": "2.0", "data_refueling_gb": "0.0", "cycle_end_date": "2025-02-28"}`, "numbers as text"},
		{"telecom", "", "refuel_data", `{"customer_id":"C1","line_id":"L1","gb_amount":"2"}`, "Error: '<=' not supported between instances of 'str' and 'int'", "a comparison of types"},
	} {
		session, err := engine.NewEnvironment(all[test.domain].Domain).Open(t.Context(), audit.Start{})
		if err != nil {
			t.Fatal(err)
		}
		obs, err := session.Call(t.Context(), audit.Call{Tool: test.tool, Arguments: []byte(test.arguments), Role: test.role})
		if err != nil || string(obs.Raw) != test.want {
			t.Errorf("%s: %s(%s)\n got %s (%v)\nwant %s", test.reason, test.tool, test.arguments, obs.Raw, err, test.want)
		}
	}
}

// FuzzCalculate feeds the calculator anything: it answers or refuses, and soon.
func FuzzCalculate(f *testing.F) {
	for _, seed := range []string{"1+2*3", "((2)", "9**9**9", "1//0", "-2**-2", "..", "007", "2(3)", "()", "1 2", "(1 2)", "é"} {
		f.Add(seed)
	}
	list, err := tau2.Import(f.Context(), os.DirFS("testdata"))
	if err != nil {
		f.Fatal(err)
	}
	session, err := engine.NewEnvironment(list[0].Domain).Open(f.Context(), audit.Start{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		arguments, err := json.Marshal(map[string]string{"expression": expression})
		if err != nil {
			t.Fatal(err)
		}
		obs, err := session.Call(t.Context(), audit.Call{Tool: "calculate", Arguments: arguments})
		if err != nil || obs.Status != audit.StatusOK && obs.Status != audit.StatusRefused {
			t.Errorf("calculate(%q): %s %s (%v)", expression, obs.Status, obs.Raw, err)
		}
	})
}

// FuzzImport feeds the importer broken databases: it imports them or says what is wrong.
func FuzzImport(f *testing.F) {
	toml, err := os.ReadFile("testdata/telecom/db.toml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(toml))
	f.Add("[[plans]]\nplan_id = 1\n")
	f.Add("customers = [1, {}]\nx = 2025-01-01T00:00:00Z\n")
	f.Fuzz(func(t *testing.T, db string) {
		data := fstest.MapFS{"telecom/db.toml": {Data: []byte(db)}, "telecom/user_db.toml": {}}
		if _, err := tau2.Import(t.Context(), data); err != nil && audit.ErrorHint(err) == "" {
			t.Errorf("no hint: %v", err)
		}
	})
}
