package domains_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/sandbox/domains"
	"understudy/sandbox/starlark"
)

// record is one record of a state.
type record = map[string]any

// bench is an open session with its state at hand.
type bench struct {
	audit.Session
	state record
}

// open opens a domain of the shared registry, whose worlds are generated once.
func open(t *testing.T, ref string) bench {
	t.Helper()
	env, err := registry.Environment(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return openIn(t, env)
}

func openIn(t *testing.T, env audit.Environment) bench {
	t.Helper()
	s, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := s.(audit.Stater).State(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	b := bench{Session: s}
	if err := json.Unmarshal(raw, &b.state); err != nil {
		t.Fatal(err)
	}
	return b
}

// find is the record with the smallest id in a table for which is holds.
func (b bench) find(t *testing.T, table string, is func(record) bool) (string, record) {
	t.Helper()
	at := any(b.state)
	for key := range strings.SplitSeq(table, "/") {
		at = at.(record)[key]
	}
	best := ""
	for id, r := range at.(record) {
		if (best == "" || id < best) && is(r.(record)) {
			best = id
		}
	}
	if best == "" {
		t.Fatalf("no record of %s is what the test needs", table)
	}
	return best, at.(record)[best].(record)
}

// try calls a tool and returns "ok" or the family of the error.
func (b bench) try(t *testing.T, tool, arguments string, values ...any) string {
	t.Helper()
	obs, err := b.Call(t.Context(), audit.Call{Tool: tool, Arguments: fmt.Appendf(nil, arguments, values...)})
	if err != nil {
		t.Fatal(err)
	}
	if obs.Status == audit.StatusOK {
		return "ok"
	}
	if len(obs.Delta) != 0 || obs.Before != obs.After {
		t.Errorf("%s changed the state although it was %s", tool, obs.Status)
	}
	return string(obs.Error.Family)
}

func want(t *testing.T, got, want, reason string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", reason, got, want)
	}
}

func has(field, value string) func(record) bool {
	return func(r record) bool { return r[field] == value }
}

// both holds when all conditions hold.
func both(conditions ...func(record) bool) func(record) bool {
	return func(r record) bool {
		for _, is := range conditions {
			if !is(r) {
				return false
			}
		}
		return true
	}
}

func TestRetailRules(t *testing.T) {
	t.Parallel()
	b := open(t, "retail@1")
	users := b.state["users"].(record)
	owner := func(flag bool) func(record) bool {
		return func(r record) bool { return users[r["user_id"].(string)].(record)["under_review"] == flag }
	}
	const cancel = `{"order_id":%q,"reason":"no longer needed"}`
	id, order := b.find(t, "orders", both(has("status", "pending"), owner(false)))
	want(t, b.try(t, "cancel_order", cancel, strings.TrimPrefix(id, "#")), "not_found", "an order id without its #")
	want(t, b.try(t, "cancel_order", `{"order_id":%q,"reason":"bored"}`, id), "schema_invalid", "a reason outside the list")
	want(t, b.try(t, "cancel_order", `{"order_id":%q}`, id), "schema_invalid", "a missing argument")
	_, stranger := b.find(t, "users", func(r record) bool { return r["user_id"] != order["user_id"] })
	for method := range stranger["payment_methods"].(record) {
		want(t, b.try(t, "change_order_payment", `{"order_id":%q,"payment_method_id":%q}`, id, method), "authorization", "another customer's payment method")
	}
	want(t, b.try(t, "return_items", `{"order_id":%q,"item_ids":["I1"],"payment_method_id":"x"}`, id), "precondition", "returning what was not delivered")
	want(t, b.try(t, "cancel_order", cancel, id), "ok", "cancelling a pending order")
	want(t, b.try(t, "cancel_order", cancel, id), "conflict", "cancelling twice")
	held, _ := b.find(t, "orders", both(has("status", "pending"), owner(true)))
	want(t, b.try(t, "cancel_order", cancel, held), "authorization", "an account under review, which the prompt does not mention")
	processed, _ := b.find(t, "orders", both(has("status", "processed"), owner(false)))
	want(t, b.try(t, "cancel_order", cancel, processed), "precondition", "cancelling a processed order")
}

// TestRetailLimit asks for returns and exchanges until the customer has two open:
// the third is refused, whichever tool asks, and a customer next door is served.
func TestRetailLimit(t *testing.T) {
	t.Parallel()
	b := open(t, "retail@1")
	orders, products := b.state["orders"].(record), b.state["products"].(record)
	first := func(r record) record { return r["items"].([]any)[0].(record) }
	of := func(user record, is func(record) bool) []record {
		var found []record
		for _, id := range user["orders"].([]any) {
			if r := orders[id.(string)].(record); is(r) {
				found = append(found, r)
			}
		}
		return found
	}
	asked := func(r record) bool { return strings.Contains(r["status"].(string), "requested") }
	ready := func(r record) bool {
		delivered, _ := r["delivered_at"].(string)
		return r["status"] == "delivered" && delivered >= "2025-05-27" && products[first(r)["product_id"].(string)].(record)["final_sale"] == false
	}
	request := func(tool string, r record, more string) string {
		method := r["payment_history"].([]any)[0].(record)["payment_method_id"]
		return b.try(t, tool, `{"order_id":%q,"item_ids":[%q],"payment_method_id":%q`+more+`}`, r["order_id"], first(r)["item_id"], method)
	}
	_, user := b.find(t, "users", func(u record) bool {
		return u["under_review"] == false && len(of(u, asked)) <= 1 && len(of(u, asked))+len(of(u, ready)) >= 3
	})
	open, rest := len(of(user, asked)), of(user, ready)
	for ; open < 2; open++ {
		want(t, request("return_items", rest[0], ""), "ok", fmt.Sprintf("a return of a customer who has %d open", open))
		rest = rest[1:]
	}
	want(t, request("return_items", rest[0], ""), "limit", "a third return")
	want(t, request("exchange_items", rest[0], `,"new_item_ids":["any"]`), "limit", "a third exchange: returns and exchanges count together")
	_, next := b.find(t, "users", func(u record) bool {
		return u["under_review"] == false && u["user_id"] != user["user_id"] && len(of(u, asked)) == 0 && len(of(u, ready)) > 0
	})
	want(t, request("return_items", of(next, ready)[0], ""), "ok", "the limit is each customer's own")
}

// TestRetailVersions shows the changed rule of version 2 on one order.
func TestRetailVersions(t *testing.T) {
	t.Parallel()
	for version, outcome := range map[int]string{1: "ok", 2: "precondition"} {
		b := open(t, fmt.Sprintf("retail@%d", version))
		users, products := b.state["users"].(record), b.state["products"].(record)
		id, order := b.find(t, "orders", func(r record) bool {
			delivered, _ := r["delivered_at"].(string)
			item := r["items"].([]any)[0].(record)
			sale := products[item["product_id"].(string)].(record)["final_sale"] == true
			busy := false // with returns that count against the limit
			for _, other := range users[r["user_id"].(string)].(record)["orders"].([]any) {
				busy = busy || b.state["orders"].(record)[other.(string)].(record)["status"] == "return requested"
			}
			return r["status"] == "delivered" && delivered > "2025-05-12" && delivered < "2025-05-26" && !sale && !busy &&
				users[r["user_id"].(string)].(record)["under_review"] == false
		})
		item := order["items"].([]any)[0].(record)["item_id"]
		method := order["payment_history"].([]any)[0].(record)["payment_method_id"]
		got := b.try(t, "return_items", `{"order_id":%q,"item_ids":[%q],"payment_method_id":%q}`, id, item, method)
		want(t, got, outcome, fmt.Sprintf("returning after two to four weeks in version %d", version))
	}
}

func TestAirlineRules(t *testing.T) {
	t.Parallel()
	b := open(t, "airline@1")
	users := b.state["users"].(record)
	free := func(r record) bool { return users[r["user_id"].(string)].(record)["chargeback"] == false }
	coming := func(r record) bool { return r["flights"].([]any)[0].(record)["date"].(string) > "2025-09-12" }
	card := func(r record) string {
		for id := range users[r["user_id"].(string)].(record)["payment_methods"].(record) {
			if strings.HasPrefix(id, "credit") {
				return id
			}
		}
		return ""
	}
	const cabin = `{"reservation_id":%q,"cabin":%q,"payment_id":%q}`
	basic, r := b.find(t, "reservations", both(has("cabin", "basic_economy"), free, coming))
	want(t, b.try(t, "change_cabin", cabin, basic, "business", card(r)), "precondition", "basic economy cannot be changed")
	leg := r["flights"].([]any)[0].(record)
	flights := fmt.Sprintf(`[{"flight_number":%q,"date":"2025-09-20"}]`, leg["flight_number"])
	want(t, b.try(t, "change_flights", `{"reservation_id":%q,"flights":`+flights+`,"payment_id":%q}`, basic, card(r)), "precondition", "basic economy cannot move")
	stale := func(r record) bool { return r["created_at"].(string) < "2025-09-10" }
	locked, _ := b.find(t, "reservations", both(has("cabin", "economy"), has("insurance", "no"), free, coming, stale))
	want(t, b.try(t, "cancel_trip", `{"reservation_id":%q}`, locked), "precondition", "an uninsured economy trip after a day")
	sure, r := b.find(t, "reservations", both(has("cabin", "business"), free, coming))
	leg = r["flights"].([]any)[0].(record)
	seats := fmt.Sprintf("/flights/%s/dates/%s/available_seats/business", leg["flight_number"], leg["date"])
	before, err := b.Session.(audit.Stater).State(t.Context(), seats)
	if err != nil {
		t.Fatal(err)
	}
	want(t, b.try(t, "cancel_trip", `{"reservation_id":%q}`, sure), "ok", "a business trip")
	after, err := b.Session.(audit.Stater).State(t.Context(), seats)
	if err != nil || string(before) == string(after) {
		t.Errorf("the seats of a cancelled trip were not freed: %s, then %s (%v)", before, after, err)
	}
	want(t, b.try(t, "cancel_trip", `{"reservation_id":%q}`, sure), "conflict", "cancelling twice")
}

// TestAirlineCompat shows that tau2's behaviour has neither rule (design.md 10).
func TestAirlineCompat(t *testing.T) {
	t.Parallel()
	d, err := starlark.Load(domains.FS(), "airline", starlark.Options{Compat: starlark.CompatTau2})
	if err != nil {
		t.Fatal(err)
	}
	b := openIn(t, starlark.NewEnvironment(d))
	id, _ := b.find(t, "reservations", has("cabin", "basic_economy"))
	want(t, b.try(t, "cancel_reservation", `{"reservation_id":%q}`, id), "ok", "compat cancels basic economy")
	want(t, b.try(t, "cancel_reservation", `{"reservation_id":%q}`, id), "ok", "compat cancels again and again")
}

func TestTelecomRules(t *testing.T) {
	t.Parallel()
	b := open(t, "telecom@1")
	const roaming = `{"customer_id":%q,"line_id":%q,"enabled":true}`
	owners := func(active bool) func(record) bool {
		return func(r record) bool { return (r["account_status"] == "Active") == active }
	}
	mine, customer := b.find(t, "agent/customers", owners(true))
	other, _ := b.find(t, "agent/customers", func(r record) bool { return owners(true)(r) && r["customer_id"] != mine })
	line := customer["line_ids"].([]any)[0]
	want(t, b.try(t, "set_line_roaming", roaming, other, line), "authorization", "another customer's line")
	want(t, b.try(t, "add_data", `{"customer_id":%q,"line_id":%q,"gigabytes":6}`, mine, line), "limit", "more data than a cycle allows")
	bills := customer["bill_ids"].([]any)
	want(t, b.try(t, "request_payment", `{"customer_id":%q,"bill_id":%q}`, mine, bills[0]), "conflict", "asking for a paid bill")
	want(t, b.try(t, "request_payment", `{"customer_id":%q,"bill_id":%q}`, mine, bills[3]), "precondition", "asking for a draft")
	want(t, b.try(t, "pay_request", `{}`), "precondition", "paying without a request")
	closed, customer := b.find(t, "agent/customers", owners(false))
	want(t, b.try(t, "set_line_roaming", roaming, closed, customer["line_ids"].([]any)[0]), "authorization", "a suspended account, which the prompt does not mention")
}

// TestTelecomRoles pays a bill with two roles over one state.
func TestTelecomRoles(t *testing.T) {
	t.Parallel()
	b := open(t, "telecom@1")
	mine := b.state["user"].(record)["surroundings"].(record)["phone_number"]
	id, _ := b.find(t, "agent/lines", func(r record) bool { return r["phone_number"] == mine })
	owner, customer := b.find(t, "agent/customers", func(r record) bool { return fmt.Sprint(r["line_ids"].([]any)[0]) == id })
	paid := 0
	for _, bill := range customer["bill_ids"].([]any) {
		if b.state["agent"].(record)["bills"].(record)[bill.(string)].(record)["status"] == "Paid" {
			continue
		}
		if b.try(t, "request_payment", `{"customer_id":%q,"bill_id":%q}`, owner, bill) != "ok" {
			continue // the draft
		}
		paid++
		want(t, b.try(t, "pay_request", `{}`), "ok", "the phone sees the carrier's request")
		status, err := b.Session.(audit.Stater).State(t.Context(), "/agent/bills/"+bill.(string)+"/status")
		if err != nil || string(status) != `"Paid"` {
			t.Errorf("bill %s is %s after the payment (%v)", bill, status, err)
		}
	}
	if paid == 0 {
		t.Error("the phone's owner has no bill to pay: the test needs one")
	}
}
