package domains_test

import "maps"

// Two customers: C-201 with euros and dollars, C-202 with euros.
func financeWorld(more map[string]string) map[string]string {
	account := func(customer, kind, currency, amount, held string) string {
		return `{"customer_id": "` + customer + `", "kind": "` + kind + `", "currency": "` + currency + `", "balance": ` + amount + `, "booked_balance": ` + amount + `, "held": ` + held + `, "overdraft": 0, "status": "open"}`
	}
	world := map[string]string{
		"/customers/C-201":  `{"name": "Anouk Drost", "passcode": "111111", "tier": "basic", "review": false, "moved_today": 0, "payees": {"P-1": {"name": "Union Gym", "iban": "XK1000000001", "added_at": "2025-01-01T10:00:00"}}}`,
		"/customers/C-202":  `{"name": "Bela Grieg", "passcode": "222222", "tier": "basic", "review": true, "moved_today": 0, "payees": {}}`,
		"/accounts/A-2011":  account("C-201", "checking", "EUR", "300000", "5000"),
		"/accounts/A-2012":  account("C-201", "savings", "EUR", "10000", "0"),
		"/accounts/A-2013":  account("C-201", "checking", "USD", "10000", "0"),
		"/accounts/A-2021":  account("C-202", "checking", "EUR", "10000", "0"),
		"/cards/K-1":        `{"customer_id": "C-201", "account_id": "A-2011", "last4": "0001", "status": "active", "daily_limit": 50000}`,
		"/holds/H-1":        `{"account_id": "A-2011", "merchant": "Pico Rail", "amount": 5000, "status": "open", "placed_at": "2025-09-01T10:00:00"}`,
		"/holds/H-2":        `{"account_id": "A-2011", "merchant": "Pico Rail", "amount": 5000, "status": "open", "placed_at": "2025-09-08T10:00:00"}`,
		"/transfers/T-1":    `{"customer_id": "C-201", "from": "A-2011", "to": "A-2012", "amount": 100, "reference": "r", "status": "pending", "entry_id": null, "due": "2025-09-12"}`,
		"/entries/E-700001": `{"at": "2025-09-01T10:00:00", "kind": "card", "memo": "Pico Rail", "from": "A-2011", "to": "W-EUR", "amount": 900, "currency": "EUR", "card_id": "K-1"}`,
		"/entries/E-700002": `{"at": "2025-06-01T10:00:00", "kind": "card", "memo": "Pico Rail", "from": "A-2011", "to": "W-EUR", "amount": 900, "currency": "EUR", "card_id": "K-1"}`,
		"/entries/E-700003": `{"at": "2025-09-01T10:00:00", "kind": "card", "memo": "Halcyon Hotel", "from": "A-2011", "to": "W-EUR", "amount": 9000, "currency": "EUR", "card_id": "K-1"}`,
	}
	maps.Copy(world, more)
	return world
}

func financeRules() []scenario {
	all := []int{1, 2, 3}
	hello := step{"verify_customer", `{"customer_id":"C-201","passcode":"111111"}`, "ok", `"verified":true`}
	wrong := step{"verify_customer", `{"customer_id":"C-201","passcode":"000000"}`, "ok", `"verified":false`}
	send := func(from, to, amount string) string {
		return `{"from_account":"` + from + `","to_account":"` + to + `","amount":` + amount + `,"reference":"r"}`
	}
	return []scenario{
		{"finance", all, "nothing is shown before the customer is verified", financeWorld(nil), []step{
			{"get_account", `{"account_id":"A-2011"}`, "authentication", ""},
			{"transfer", send("A-2011", "A-2012", "1"), "authentication", ""},
			hello,
			{"get_account", `{"account_id":"A-2011"}`, "ok", `"available":295000`},
			{"get_account", `{"account_id":"A-2021"}`, "authorization", ""},
			{"get_account", `{"account_id":"A-9"}`, "not_found", ""},
			{"get_customer", `{"customer_id":"C-202"}`, "authorization", ""},
		}},
		{"finance", all, "three wrong passcodes lock the desk, and a wrong one ends the verification", financeWorld(nil), []step{
			hello, wrong,
			{"get_account", `{"account_id":"A-2011"}`, "authentication", ""},
			wrong, wrong,
			{"verify_customer", `{"customer_id":"C-201","passcode":"111111"}`, "limit", "locked"},
		}},
		{"finance", all, "held money cannot be spent, and currencies do not mix", financeWorld(nil), []step{
			hello,
			{"transfer", send("A-2011", "A-2011", "1"), "conflict", ""},
			{"transfer", send("A-2011", "A-2013", "1"), "precondition", "USD"},
			{"transfer", send("A-2011", "A-2012", "295001"), "limit", `"available":295000`},
			{"transfer", send("A-2011", "B-FX-EUR", "1"), "not_found", ""},
			{"transfer", send("A-2011", "A-2012", "0"), "schema_invalid", ""},
			{"transfer", send("A-2011", "A-2012", "295000"), "ok", `"status":"done"`},
			{"transfer", send("A-2011", "A-2012", "1"), "limit", ""},
		}},
		{"finance", all, "a tier has a daily allowance for money that leaves", financeWorld(nil), []step{
			hello,
			{"transfer", send("A-2011", "A-2021", "150000"), "ok", ""},
			{"transfer", send("A-2011", "A-2021", "50001"), "limit", `"used":150000`},
			{"transfer", send("A-2011", "A-2012", "50001"), "ok", ""},
		}},
		{"finance", all, "money under review does not leave", financeWorld(nil), []step{
			{"verify_customer", `{"customer_id":"C-202","passcode":"222222"}`, "ok", ""},
			{"transfer", send("A-2021", "A-2011", "1"), "authorization", "review"},
		}},
		{"finance", all, "an exchange rounds down and both sides are booked", financeWorld(nil), []step{
			hello,
			{"exchange", `{"from_account":"A-2011","to_account":"A-2013","amount":1001}`, "ok", `"bought":1093`},
			{"exchange", `{"from_account":"A-2011","to_account":"A-2012","amount":1}`, "precondition", ""},
		}},
		{"finance", []int{1}, "version 1 pays a new payee at once", financeWorld(map[string]string{"/customers/C-201/payees/P-1/added_at": `"2025-09-09T09:00:00"`}), []step{
			hello, {"pay_payee", `{"from_account":"A-2011","payee_id":"P-1","amount":100,"reference":"r"}`, "ok", ""},
		}},
		{"finance", []int{2, 3}, "from version 2 a new payee waits a day", financeWorld(map[string]string{"/customers/C-201/payees/P-1/added_at": `"2025-09-09T09:00:00"`}), []step{
			hello, {"pay_payee", `{"from_account":"A-2011","payee_id":"P-1","amount":100,"reference":"r"}`, "precondition", "24 hours"},
		}},
		{"finance", all, "holds, disputes and pending transfers have their conditions", financeWorld(nil), []step{
			hello,
			{"release_hold", `{"hold_id":"H-2"}`, "precondition", "7 days"},
			{"release_hold", `{"hold_id":"H-1"}`, "ok", ""},
			{"release_hold", `{"hold_id":"H-1"}`, "conflict", ""},
			{"open_dispute", `{"entry_id":"E-700002","reason":"not_mine"}`, "precondition", "60 days"},
			{"open_dispute", `{"entry_id":"E-700003","reason":"not_mine"}`, "authorization", "case worker"},
			{"open_dispute", `{"entry_id":"E-700001","reason":"not_mine"}`, "ok", `"credited":900`},
			{"open_dispute", `{"entry_id":"E-700001","reason":"not_mine"}`, "conflict", ""},
			{"cancel_transfer", `{"transfer_id":"T-1"}`, "ok", ""},
			{"cancel_transfer", `{"transfer_id":"T-1"}`, "conflict", ""},
		}},
		{"finance", all, "a lost card stays lost, and a limit stays within the tier", financeWorld(nil), []step{
			hello,
			{"set_card_limit", `{"card_id":"K-1","daily_limit":100001}`, "limit", `"highest":100000`},
			{"set_card_limit", `{"card_id":"K-1","daily_limit":50000}`, "conflict", ""},
			{"set_card_status", `{"card_id":"K-1","status":"lost"}`, "ok", ""},
			{"set_card_status", `{"card_id":"K-1","status":"active"}`, "precondition", ""},
			{"set_card_limit", `{"card_id":"K-1","daily_limit":100}`, "precondition", ""},
		}},
		{"finance", []int{3}, "version 3 renames the balance and replaces lost cards", financeWorld(nil), []step{
			hello,
			{"get_account", `{"account_id":"A-2012"}`, "ok", `"booked_balance":10000`},
			{"replace_card", `{"card_id":"K-1"}`, "precondition", ""},
			{"set_card_status", `{"card_id":"K-1","status":"lost"}`, "ok", ""},
			{"replace_card", `{"card_id":"K-1"}`, "ok", `"replaces":"K-1"`},
			{"replace_card", `{"card_id":"K-1"}`, "conflict", ""},
		}},
		{"finance", []int{1, 2}, "replace_card is unknown before version 3", financeWorld(nil), []step{{"replace_card", `{"card_id":"K-1"}`, "unknown_tool", ""}}},
	}
}

// The desk is growth's: m-1 runs with 1,000 cents of which 300 are spent, m-2 is brand's.
func campaignWorld(more map[string]string) map[string]string {
	campaign := func(team, status string) string {
		return `{"name": "N", "team": "` + team + `", "channel": "push", "status": "` + status + `", "budget": 1000, "spent": 300, "spend_to_date": 300, "starts": "2025-11-01", "ends": "2025-11-30", "segment_id": "g-0", "cap": {"per_user": 1, "window_days": 7}}`
	}
	world := map[string]string{
		"/pools":          `{"growth": 500, "retention": 0, "brand": 0}`,
		"/segments/g-0":   `{"countries": ["DE"], "min_orders": 0, "tag": null}`,
		"/campaigns/m-1":  campaign("growth", "running"),
		"/campaigns/m-2":  campaign("brand", "running"),
		"/campaigns/m-3":  campaign("growth", "draft"),
		"/coupons/SAVE10": `{"campaign_id": "m-1", "kind": "percent", "value": 10, "min_basket": 1000, "max_uses": 1, "uses": 0, "per_user": 1, "expires": "2025-12-01", "status": "active"}`,
		"/users/u-1":      `{"country": "DE", "orders": 1, "tags": [], "opted_out": [], "seen": {}, "bought": []}`,
		"/users/u-2":      `{"country": "DE", "orders": 1, "tags": [], "opted_out": ["push"], "seen": {}, "bought": []}`,
		"/users/u-3":      `{"country": "FR", "orders": 1, "tags": [], "opted_out": [], "seen": {}, "bought": []}`,
	}
	maps.Copy(world, more)
	return world
}

func campaignRules() []scenario {
	all := []int{1, 2, 3}
	serve := func(user string) string { return `{"campaign_id":"m-1","user_id":"` + user + `"}` }
	redeem := func(user, basket string) string {
		return `{"code":"SAVE10","user_id":"` + user + `","basket":` + basket + `}`
	}
	return []scenario{
		{"campaign", all, "a user is served within segment, consent and cap", campaignWorld(nil), []step{
			{"serve", serve("u-3"), "precondition", "segment"},
			{"serve", serve("u-2"), "authorization", "opted out"},
			{"serve", serve("u-1"), "ok", `"left":698`},
			{"serve", serve("u-1"), "limit", "cap"},
			{"serve", `{"campaign_id":"m-2","user_id":"u-1"}`, "authorization", "brand"},
			{"serve", serve("u-0"), "not_found", ""},
		}},
		{"campaign", []int{1}, "version 1 moves everything that is unspent", campaignWorld(nil), []step{
			{"move_budget", `{"source":"m-1","amount":701}`, "limit", `"available":700`},
			{"move_budget", `{"source":"m-1","amount":700}`, "ok", `"pool":1200`},
		}},
		{"campaign", []int{2, 3}, "from version 2 a running campaign keeps a fifth", campaignWorld(map[string]string{"/campaigns/m-1/spent": "0", "/campaigns/m-1/spend_to_date": "0"}), []step{
			{"move_budget", `{"source":"m-1","amount":801}`, "limit", `"available":800`},
			{"move_budget", `{"source":"m-1","amount":800}`, "ok", `"pool":1300`},
		}},
		{"campaign", all, "money stays within the team", campaignWorld(nil), []step{
			{"move_budget", `{"source":"m-1","target":"m-2","amount":1}`, "authorization", ""},
			{"move_budget", `{"source":"m-1","target":"m-1","amount":1}`, "conflict", ""},
			{"move_budget", `{"target":"m-1","amount":501}`, "limit", `"available":500`},
		}},
		{"campaign", all, "a campaign lives in order, and ends once", campaignWorld(nil), []step{
			{"set_status", `{"campaign_id":"m-1","status":"draft"}`, "precondition", "allowed"},
			{"set_status", `{"campaign_id":"m-1","status":"running"}`, "conflict", ""},
			{"set_status", `{"campaign_id":"m-3","status":"running"}`, "precondition", ""},
			{"set_status", `{"campaign_id":"m-1","status":"live"}`, "schema_invalid", ""},
			{"set_status", `{"campaign_id":"m-1","status":"ended"}`, "ok", `"budget":300`},
			{"get_desk", `{}`, "ok", `"pool":1200`},
			{"set_status", `{"campaign_id":"m-1","status":"running"}`, "precondition", ""},
		}},
		{"campaign", all, "a coupon has its basket, its uses and its user", campaignWorld(nil), []step{
			{"redeem_coupon", redeem("u-1", "999"), "precondition", "basket"},
			{"redeem_coupon", redeem("u-1", "5000"), "ok", `"discount":500`},
			{"redeem_coupon", redeem("u-1", "5000"), "conflict", ""},
			{"redeem_coupon", redeem("u-2", "5000"), "limit", "used"},
			{"void_coupon", `{"code":"SAVE10"}`, "ok", ""},
			{"void_coupon", `{"code":"SAVE10"}`, "conflict", ""},
			{"redeem_coupon", redeem("u-2", "5000"), "precondition", "void"},
			{"create_coupon", `{"campaign_id":"m-1","code":"SAVE10","kind":"percent","value":5}`, "conflict", ""},
			{"create_coupon", `{"campaign_id":"m-1","code":"MORE60","kind":"percent","value":60}`, "limit", `"highest":50`},
			{"create_coupon", `{"campaign_id":"m-1","code":"low","kind":"percent","value":5}`, "schema_invalid", ""},
		}},
		{"campaign", all, "an empty audience and an empty ranking are answers", campaignWorld(nil), []step{
			{"audience", `{"segment_id":"g-11","channel":"push"}`, "ok", "[]"},
			{"rank", `{"user_id":"u-801","surface":"outlet"}`, "ok", "[]"},
		}},
		{"campaign", all, "one rule for a value, and only for what exists", campaignWorld(nil), []step{
			{"add_rule", `{"surface":"home","action":"pin","field":"category","value":"boats"}`, "not_found", "shoes"},
			{"add_rule", `{"surface":"home","action":"boost","field":"brand","value":"Dune"}`, "precondition", "weight"},
			{"add_rule", `{"surface":"home","action":"pin","field":"category","value":"toys"}`, "conflict", ""},
			{"add_rule", `{"surface":"home","action":"pin","field":"brand","value":"Dune"}`, "ok", `"rule_id"`},
			{"rank", `{"user_id":"u-1","surface":"home","limit":1}`, "ok", `"brand":"Dune"`},
			{"remove_rule", `{"rule_id":"r-1"}`, "ok", ""},
			{"remove_rule", `{"rule_id":"r-1"}`, "not_found", ""},
		}},
		{"campaign", []int{3}, "version 3 renames spent and takes redemptions back", campaignWorld(map[string]string{"/redemptions/x-1": `{"code": "SAVE10", "user_id": "u-1", "basket": 1000, "discount": 100, "status": "granted"}`}), []step{
			{"get_campaign", `{"campaign_id":"m-1"}`, "ok", `"spend_to_date":300`},
			{"refund_redemption", `{"redemption_id":"x-1"}`, "ok", `"left":800`},
			{"refund_redemption", `{"redemption_id":"x-1"}`, "conflict", ""},
		}},
		{"campaign", []int{1, 2}, "refund_redemption is unknown before version 3", nil, []step{{"refund_redemption", `{"redemption_id":"x-1"}`, "unknown_tool", ""}}},
	}
}
