package tau2

// The data models of tau2-bench (commit a2c0247), field by field.

func addressModel() model {
	return fields("address1", "address2", "city", "country", "state", "zip")
}

// retailModel is {products, users, orders}.
func retailModel() model {
	variant := fields("item_id", "options", "available", "price:float")
	method := fields("source", "id", "brand:optional", "last_four:optional", "balance:optionalfloat")
	line := fields("name", "product_id", "item_id", "price:float", "options")
	order := fields("order_id", "user_id").with(
		object("address", addressModel()),
		list("items", line),
		field{name: "status"},
		list("fulfillments", fields("tracking_id", "item_ids")),
		list("payment_history", fields("transaction_type", "amount:float", "payment_method_id")),
	)
	order = order.with(fields("cancel_reason=null", "exchange_items=null", "exchange_new_items=null",
		"exchange_payment_method_id=null", "exchange_price_difference:float=null", "return_items=null",
		"return_payment_method_id=null")...)
	return model{
		mapping("products", fields("name", "product_id").with(mapping("variants", variant))),
		mapping("users", fields("user_id").with(
			object("name", fields("first_name", "last_name")),
			object("address", addressModel()),
			field{name: "email"},
			mapping("payment_methods", method),
			field{name: "orders"},
		)),
		mapping("orders", order),
	}
}

// airlineModel is {flights, users, reservations}.
func airlineModel() model {
	day := fields("status", "available_seats:optional", "prices:optional",
		"estimated_departure_time_est:optional", "actual_departure_time_est:optional",
		"estimated_arrival_time_est:optional", "actual_arrival_time_est:optional")
	method := fields("source", "id", "brand:optional", "last_four:optional", "amount:optionalfloat")
	passenger := fields("first_name", "last_name", "dob")
	return model{
		mapping("flights", fields("flight_number", "origin", "destination",
			"scheduled_departure_time_est", "scheduled_arrival_time_est").with(mapping("dates", day))),
		mapping("users", fields("user_id").with(
			object("name", fields("first_name", "last_name")),
			object("address", addressModel()),
			field{name: "email"}, field{name: "dob"},
			mapping("payment_methods", method),
			list("saved_passengers", passenger),
			field{name: "membership"}, field{name: "reservations"},
		)),
		mapping("reservations", fields("reservation_id", "user_id", "origin", "destination", "flight_type", "cabin").with(
			list("flights", fields("flight_number", "origin", "destination", "date", "price")),
			list("passengers", passenger),
			list("payment_history", fields("payment_id", "amount")),
		).with(fields("created_at", "total_baggages", "nonfree_baggages", "insurance", "status=null")...)),
	}
}

// telecomModel is {agent, user}: the carrier's tables and the customer's phone.
func telecomModel() model {
	return model{object("agent", carrierModel()), object("user", phoneModel())}
}

func carrierModel() model {
	customer := fields("customer_id", "full_name", "date_of_birth", "email", "phone_number").with(
		object("address", fields("street", "city", "state", "zip_code")),
		field{name: "account_status"}.or(`"Pending Verification"`),
		list("payment_methods", fields("method_type", "account_number_last_4", "expiration_date")).or("[]"),
	).with(fields("line_ids=[]", "bill_ids=[]", `created_at:datetime="2025-01-01"`, "last_extension_date=null",
		"goodwill_credit_used_this_year:float=0.0")...)
	line := fields("line_id", "phone_number", `status="Pending Activation"`, "plan_id", "device_id=null",
		"data_used_gb:float=0.0", "data_refueling_gb:float=0.0", "roaming_enabled=false", "contract_end_date=null",
		"last_plan_change_date=null", "last_sim_replacement_date=null", "suspension_start_date=null")
	bill := fields("bill_id", "customer_id", "period_start", "period_end", "issue_date", "total_due:float", "due_date").with(
		list("line_items", fields("description", "amount:float", "date", "item_type")).or("[]"),
		field{name: "status"}.or(`"Draft"`),
	)
	device := fields("device_id", "device_type", "model", "imei=null", "is_esim_capable", "activated=false",
		"activation_date:datetime=null", "last_esim_transfer_date:datetime=null")
	return model{
		list("plans", fields("plan_id", "name", "data_limit_gb:float", "price_per_month:float", "data_refueling_price_per_gb:float")).or("[]"),
		list("customers", customer).or("[]"),
		list("lines", line).or("[]"),
		list("bills", bill).or("[]"),
		list("devices", device).or("[]"),
	}
}

func phoneModel() model {
	apn := fields(`apn_name="internet"`, "reset_at_reboot=false", `mms_apn="mms"`,
		`mmsc_url="http://mms.carrier.com/mms/wapenc"`, "mms_proxy=null", "mms_port=null")
	app := fields("app_name").with(object("permissions", fields("sms=false", "storage=false", "phone=false", "network=false")).or("{}"))
	device := fields(`sim_card_status="active"`, "sim_card_missing=false", "airplane_mode=false",
		`network_signal_strength="good"`, `network_technology_connected="5G"`, `network_connection_status="connected"`,
		"battery_level=80", "data_enabled=true", "roaming_enabled=false", `network_mode_preference="4g_5g_preferred"`).with(
		object("active_apn_settings", apn).or("{}"),
	).with(fields("wifi_enabled=false", "wifi_connected=false", "wifi_ssid=null", `wifi_signal_strength="none"`,
		"wifi_calling_enabled=false", "wifi_calling_mms_over_wifi=false", "data_saver_mode=false",
		"vpn_enabled_setting=false", "vpn_connected=false")...).with(
		object("vpn_details", fields("server_address=null", "protocol=null", `server_performance="unknown"`)).or("null"),
		mapping("app_statuses", app).or(`{"messaging":{"app_name":"messaging","permissions":{"sms":true,"storage":true,"phone":true}},`+
			`"browser":{"app_name":"browser","permissions":{"network":true,"storage":true}}}`),
	)
	around := fields("name=null", "phone_number=null", "is_abroad=false", "roaming_allowed=false",
		`signal_strength={"2G":"poor","3G":"fair","4G":"good","5G":"excellent"}`,
		"mobile_data_usage_exceeded=false", "line_active=true").with(
		object("payment_request", fields("bill_id", "amount_due:float", "paid=false")).or("null"),
	)
	return model{object("device", device).or("{}"), object("surroundings", around).or("{}")}
}
