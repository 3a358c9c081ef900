package domains_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"understudy/audit"
)

// step is one call of a scenario and what must become of it.
type step struct {
	tool, arguments string
	want            string // "ok", or the family of the refusal
	contains        string // in the answer
}

// scenario is a rule of a domain, told in calls. States are patched so that the
// rule, and not the seed's luck, decides.
type scenario struct {
	domain   string
	versions []int // in which it holds
	reason   string
	state    map[string]string // JSON Pointer → JSON value
	steps    []step
}

func TestScenarios(t *testing.T) {
	for _, s := range append(append(append(miniRules(), deliveryRules()...), financeRules()...), campaignRules()...) {
		for _, v := range s.versions {
			t.Run(s.domain+"@"+strconv.Itoa(v)+"/"+strings.ReplaceAll(s.reason, " ", "_"), func(t *testing.T) {
				t.Parallel()
				s.run(t, v)
			})
		}
	}
}

func (s scenario) run(t *testing.T, version int) {
	t.Helper()
	ref := s.domain + "@" + strconv.Itoa(version)
	env, err := registry.Environment(t.Context(), ref)
	if err != nil {
		t.Fatalf("%s: %v (%s)", ref, err, audit.ErrorHint(err))
	}
	base, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := base.(audit.Stater).State(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	session, err := env.Open(t.Context(), audit.Start{State: patched(t, text, s.state)})
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range s.steps {
		seen, err := session.Call(t.Context(), audit.Call{Tool: c.tool, Arguments: json.RawMessage(c.arguments), Role: "assistant"})
		if err != nil {
			t.Fatal(err)
		}
		got := "ok"
		if seen.Error != nil {
			got = string(seen.Error.Family)
		}
		if got != c.want || !strings.Contains(string(seen.Raw), c.contains) {
			t.Errorf("step %d, %s %s: got %s %s, want %s with %q", i+1, c.tool, c.arguments, got, seen.Raw, c.want, c.contains)
		}
		if c.want != "ok" && len(seen.Delta) > 0 {
			t.Errorf("step %d, %s: a refused call changed %v", i+1, c.tool, seen.Delta)
		}
	}
}

// patched sets values in a JSON text; every pointer but its last part must exist.
func patched(t *testing.T, text []byte, values map[string]string) []byte {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	var root map[string]any
	if err := decoder.Decode(&root); err != nil {
		t.Fatal(err)
	}
	for _, pointer := range slices.Sorted(maps.Keys(values)) { // a row before its fields
		parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
		at := root
		for _, part := range parts[:len(parts)-1] {
			at = at[part].(map[string]any) // a panic here is a pointer of ours that leads nowhere
		}
		var value any
		decoder := json.NewDecoder(strings.NewReader(values[pointer]))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%s: %v", pointer, err)
		}
		at[parts[len(parts)-1]] = value
	}
	out, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The mini world of these rules: U1 has #01, #02 is U2's; P1 and P2 are mugs, P4 is a lamp.
func miniWorld(status, pay string, more map[string]string) map[string]string {
	world := map[string]string{
		"/users/U1":    `{"gift": 5, "card": 20}`,
		"/products/P1": `{"kind": "mug", "price": 10, "stock": 3}`,
		"/products/P2": `{"kind": "mug", "price": 14, "stock": 3}`,
		"/products/P3": `{"kind": "mug", "price": 30, "stock": 0}`,
		"/products/P4": `{"kind": "lamp", "price": 8, "stock": 3}`,
		"/orders/#01":  `{"user": "U1", "status": "` + status + `", "items": ["P1", "P4"], "pay": "` + pay + `", "total": 18, "sum": 18}`,
		"/orders/#02":  `{"user": "U2", "status": "pending", "items": ["P1"], "pay": "card", "total": 10, "sum": 10}`,
	}
	maps.Copy(world, more)
	return world
}

func miniRules() []scenario {
	all := []int{1, 2, 3}
	cancel := `{"user":"U1","order":"#01","reason":"mistake"}`
	return []scenario{
		{"retail-mini", all, "a pending order is cancelled once and refunded", miniWorld("pending", "card", nil), []step{
			{"cancel", cancel, "ok", `"status":"cancelled"`},
			{"get_user", `{"user":"U1"}`, "ok", `"card":2`},
			{"cancel", cancel, "conflict", ""},
		}},
		{"retail-mini", all, "what is on its way is not cancelled", miniWorld("delivered", "card", nil), []step{{"cancel", cancel, "precondition", "delivered"}}},
		{"retail-mini", all, "an order id keeps its #, and orders have owners", miniWorld("pending", "card", nil), []step{
			{"cancel", `{"user":"U1","order":"01","reason":"mistake"}`, "not_found", ""},
			{"cancel", `{"user":"U1","order":"#02","reason":"mistake"}`, "authorization", ""},
			{"cancel", `{"user":"U1","order":"#01","reason":"bored"}`, "schema_invalid", ""},
			{"cancel", `{"user":"U1","order":"#01"}`, "schema_invalid", ""},
		}},
		{"retail-mini", all, "an item becomes another of its kind, once, if there is one and it can be paid", miniWorld("pending", "gift", nil), []step{
			{"change", `{"user":"U1","order":"#01","item":"P1","new":"P4"}`, "precondition", "mug"},
			{"change", `{"user":"U1","order":"#01","item":"P1","new":"P1"}`, "conflict", ""},
			{"change", `{"user":"U1","order":"#01","item":"P1","new":"P3"}`, "limit", "sold out"},
			{"change", `{"user":"U1","order":"#01","item":"P2","new":"P1"}`, "not_found", "not in the order"},
			{"change", `{"user":"U1","order":"#01","item":"P1","new":"P2"}`, "ok", `"items":["P2","P4"]`},
			{"get_user", `{"user":"U1"}`, "ok", `"gift":1`},
			{"change", `{"user":"U1","order":"#01","item":"P2","new":"P1"}`, "conflict", "changed already"},
		}},
		{"retail-mini", all, "a gift card never goes below zero", miniWorld("pending", "gift", map[string]string{"/users/U1": `{"gift": 3, "card": 0}`}), []step{
			{"change", `{"user":"U1","order":"#01","item":"P1","new":"P2"}`, "limit", "gift card"},
		}},
		{"retail-mini", []int{1}, "a return goes back to the card in version 1", miniWorld("delivered", "card", nil), []step{
			{"give_back", `{"user":"U1","order":"#01","item":"P1","pay":"card"}`, "ok", `"total":8`},
		}},
		{"retail-mini", []int{2, 3}, "a return goes to the gift card only from version 2", miniWorld("delivered", "card", nil), []step{
			{"give_back", `{"user":"U1","order":"#01","item":"P1","pay":"card"}`, "precondition", "gift card"},
			{"give_back", `{"user":"U1","order":"#01","item":"P1","pay":"gift"}`, "ok", `"status":"delivered"`},
		}},
		{"retail-mini", []int{3}, "version 3 calls the total sum and can move a payment", miniWorld("pending", "card", nil), []step{
			{"get_order", `{"user":"U1","order":"#01"}`, "ok", `"sum":18`},
			{"repay", `{"user":"U1","order":"#01","pay":"card"}`, "conflict", ""},
			{"repay", `{"user":"U1","order":"#01","pay":"gift"}`, "limit", ""},
		}},
		{"retail-mini", []int{1, 2}, "repay is unknown before version 3", nil, []step{{"repay", `{"user":"U1","order":"#01","pay":"gift"}`, "unknown_tool", ""}}},
	}
}

// An order of two soups in the field names of every version.
func deliveryWorld(status string, more map[string]string) map[string]string {
	world := map[string]string{
		"/customers/c-1001": `{"name": "Ada Dorn", "phone": "+49 555 1", "addresses": {"a-1": {"label": "home", "street": "1 Elm", "zone": "Station"}, "a-2": {"label": "work", "street": "2 Elm", "zone": "Hillcrest"}, "a-3": {"label": "other", "street": "3 Elm", "zone": "North Quay"}}, "wallet": 500, "charged": 0, "age_verified": false, "blocked": false, "refunds": 0}`,
		"/stores/s-11":      `{"name": "Ladle", "kind": "restaurant", "zones": ["Station", "Hillcrest"], "minimum": 1000, "paused": false, "menu": {"i-1": {"name": "Soup", "price": 600, "stock": 5, "age_restricted": false}, "i-2": {"name": "Wine", "price": 1800, "stock": 5, "age_restricted": true}}, "windows": {"2025-06-12T16:00:00": {"capacity": 3, "booked": 0}, "2025-06-12T18:00:00": {"capacity": 3, "booked": 1}, "2025-06-12T19:00:00": {"capacity": 1, "booked": 1}, "2025-06-12T20:00:00": {"capacity": 3, "booked": 0}}}`,
		"/orders":           `{"o-1": {"customer_id": "c-1001", "store_id": "s-11", "address_id": "a-1", "window": "2025-06-12T18:00:00", "slot": "2025-06-12T18:00:00", "status": "` + status + `", "lines": [{"item_id": "i-1", "name": "Soup", "price": 600, "quantity": 2, "refunded": 0}], "delivery_fee": 320, "tip": 0, "total": 1520, "paid_with": "card", "payments": [{"kind": "charge", "amount": 1520}], "moves": 0, "courier_id": null, "delivered_at": "2025-06-12T08:00:00"}}`,
	}
	maps.Copy(world, more)
	return world
}

func deliveryRules() []scenario {
	all := []int{1, 2, 3}
	mine := `{"customer_id":"c-1001","order_id":"o-1",`
	order := func(items, window, pay string) string {
		return `{"customer_id":"c-1001","store_id":"s-11","address_id":"a-1","lines":[` + items + `],"window":"` + window + `","pay_with":"` + pay + `"}`
	}
	soups := `{"item_id":"i-1","quantity":2}`
	return []scenario{
		{"delivery", all, "a placed order is cancelled once with a full refund", deliveryWorld("placed", nil), []step{
			{"cancel_order", mine + `"reason":"too_slow"}`, "ok", `"total":0`},
			{"cancel_order", mine + `"reason":"too_slow"}`, "conflict", ""},
			{"set_tip", mine + `"amount":100}`, "conflict", "cancelled"},
		}},
		{"delivery", []int{1}, "version 1 cancels an order in preparation and keeps the fee", deliveryWorld("preparing", nil), []step{{"cancel_order", mine + `"reason":"too_slow"}`, "ok", `"total":320`}}},
		{"delivery", []int{2, 3}, "from version 2 an order in preparation stays", deliveryWorld("preparing", nil), []step{{"cancel_order", mine + `"reason":"too_slow"}`, "precondition", "preparing"}}},
		{"delivery", all, "an order needs stock, a window with room, its minimum, an adult for wine, and money", deliveryWorld("delivered", nil), []step{
			{"place_order", order(`{"item_id":"i-1","quantity":6}`, "2025-06-12T20:00:00", "card"), "limit", "Only 5"},
			{"place_order", order(soups, "2025-06-12T19:00:00", "card"), "limit", "full"},
			{"place_order", order(soups, "2025-06-12T16:00:00", "card"), "precondition", "30 minutes"},
			{"place_order", order(soups, "2025-06-12T21:00:00", "card"), "not_found", "no window"},
			{"place_order", order(`{"item_id":"i-1","quantity":1}`, "2025-06-12T20:00:00", "card"), "precondition", "minimum"},
			{"place_order", order(`{"item_id":"i-2","quantity":1}`, "2025-06-12T20:00:00", "card"), "authorization", "age"},
			{"place_order", order(soups+","+soups, "2025-06-12T20:00:00", "card"), "conflict", "twice"},
			{"place_order", order(soups, "2025-06-12T20:00:00", "wallet"), "limit", "wallet"},
			{"place_order", order(`{"item_id":"i-1","quantity":0}`, "2025-06-12T20:00:00", "card"), "schema_invalid", ""},
			{"place_order", order(soups, "2025-06-12T20:00:00", "card"), "ok", `"total":1520`},
		}},
		{"delivery", all, "blocked customers and paused stores take no orders", deliveryWorld("placed", map[string]string{"/stores/s-11/paused": "true"}), []step{{"place_order", order(soups, "2025-06-12T20:00:00", "card"), "precondition", "no orders"}}},
		{"delivery", all, "an address needs a zone that the store serves, and the fee follows it", deliveryWorld("placed", nil), []step{
			{"change_address", mine + `"address_id":"a-1"}`, "conflict", ""},
			{"change_address", mine + `"address_id":"a-3"}`, "precondition", "North Quay"},
			{"change_address", mine + `"address_id":"a-9"}`, "not_found", ""},
			{"change_address", mine + `"address_id":"a-2"}`, "ok", `"total":1650`},
		}},
		{"delivery", all, "an order moves to another window twice at most", deliveryWorld("placed", nil), []step{
			{"reschedule_order", mine + `"window":"2025-06-12T18:00:00"}`, "conflict", ""},
			{"reschedule_order", mine + `"window":"2025-06-12T20:00:00"}`, "ok", "T20:00"},
			{"reschedule_order", mine + `"window":"2025-06-12T18:00:00"}`, "ok", "T18:00"},
			{"reschedule_order", mine + `"window":"2025-06-12T20:00:00"}`, "limit", ""},
		}},
		{"delivery", all, "a refund has its time, its number of pieces and a supervisor above 40 euros", deliveryWorld("delivered", nil), []step{
			{"request_refund", mine + `"item_id":"i-1","quantity":3,"reason":"missing","pay_to":"wallet"}`, "limit", `"refundable":2`},
			{"request_refund", mine + `"item_id":"i-1","quantity":1,"reason":"missing","pay_to":"wallet"}`, "ok", `"refunded":600`},
			{"get_customer", `{"customer_id":"c-1001"}`, "ok", `"wallet":1100`},
			{"request_refund", mine + `"item_id":"i-1","quantity":2,"reason":"missing","pay_to":"wallet"}`, "limit", `"refundable":1`},
		}},
		{"delivery", all, "strangers' orders are not shown", deliveryWorld("placed", nil), []step{
			{"get_order", `{"customer_id":"c-1002","order_id":"o-1"}`, "authorization", ""},
			{"get_order", `{"customer_id":"c-1001","order_id":"o-2"}`, "not_found", ""},
			{"list_orders", `{"customer_id":"c-1001","status":"cancelled"}`, "ok", "[]"},
		}},
		{"delivery", []int{3}, "version 3 calls the window slot", deliveryWorld("placed", nil), []step{{"get_order", `{"customer_id":"c-1001","order_id":"o-1"}`, "ok", `"slot":"2025-06-12T18:00:00"`}}},
		{"delivery", []int{1, 2}, "before version 3 no courier is reassigned", nil, []step{{"reassign_courier", mine + `"courier_id":"k-31"}`, "unknown_tool", ""}}},
	}
}
