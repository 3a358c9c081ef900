// Package mount reads files that declare environments and opens what they
// declare, by whatever adapter:
//
//	environments:
//	  shop:
//	    adapter: mcp-stdio
//	    command: ["python3", "shop_server.py"]
//	    tools:
//	      get_order: {effect: read}
//	      cancel_order: {effect: write}
//	    state_probes:
//	      - call: get_order
//	        args_from: [{path: "$.arguments.order_id"}]
//	    tasks:
//	      - id: cancel
//	        solution: [{tool: cancel_order, arguments: {order_id: "#W1"}}]
//	        checks: [{call: {tool: get_order, arguments: {order_id: "#W1"}}, at: /status, equals: cancelled}]
//
// Schema is the JSON Schema of these files; Parse checks a file against it and
// names the line of every fault. ${NAME} in a text is replaced by an environment
// variable when the environment is opened, and never printed.
package mount
