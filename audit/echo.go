package audit

// EchoMap says which parts of a tool's ok answer repeat state cells: JSON
// Pointer pattern of the answer (with * for one token) to the JSON Pointer of
// the cell after the call. In the cell's pointer, {name} stands for the
// argument of that name, {/pointer} for the answer's value there, and each *
// for what the pattern's stars matched, in order. A pattern may end at an
// object or an array: then every leaf below it is echoed.
//
//	{"": "/orders/{order_id}", "/refund": "/payments/{/payment_id}/refund"}
type EchoMap map[string]string
