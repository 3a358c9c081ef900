"""A shop with a database behind it, as an MCP server on stdin and stdout.

Standard library only. Every process makes a database of its own, which ends with
it: that is what keeps episodes apart.
"""

import json
import sqlite3
import sys
import time

TEXT = {"type": "string"}


def schema(**properties):
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class Refusal(Exception):
    """A business rule says no."""


class Shop:
    def __init__(self):
        self.db = sqlite3.connect(":memory:")
        self.db.executescript(
            """
            CREATE TABLE orders (id TEXT PRIMARY KEY, owner TEXT, status TEXT, cents INTEGER);
            CREATE TABLE wallets (owner TEXT PRIMARY KEY, cents INTEGER);
            INSERT INTO orders VALUES ('W1', 'ann', 'pending', 2500), ('W2', 'bob', 'shipped', 900),
                                      ('W3', 'ann', 'pending', 9007199254740993);
            INSERT INTO wallets VALUES ('ann', 100), ('bob', 0);
            """
        )

    def get_order(self, order_id):
        row = self.db.execute(
            "SELECT id, owner, status, cents FROM orders WHERE id = ?", (order_id,)
        ).fetchone()
        if row is None:
            raise Refusal(f"order {order_id} not found")
        return dict(zip(("order_id", "owner", "status", "cents"), row), seen_at=time.time())

    def get_wallet(self, owner):
        row = self.db.execute("SELECT cents FROM wallets WHERE owner = ?", (owner,)).fetchone()
        if row is None:
            raise Refusal(f"user {owner} not found")
        return {"owner": owner, "cents": row[0]}

    def cancel_order(self, order_id, reason):
        order = self.get_order(order_id)
        if order["status"] != "pending":
            raise Refusal(f"order {order_id} is already {order['status']}")
        with self.db:
            self.db.execute("UPDATE orders SET status = 'cancelled' WHERE id = ?", (order_id,))
            self.db.execute(
                "UPDATE wallets SET cents = cents + ? WHERE owner = ?",
                (order["cents"], order["owner"]),
            )
        return {"order_id": order_id, "status": "cancelled", "refund": order["cents"]}


TOOLS = [
    {"name": "get_order", "description": "Looks up one order.", "inputSchema": schema(order_id=TEXT)},
    {"name": "get_wallet", "description": "Looks up a user's wallet.", "inputSchema": schema(owner=TEXT)},
    {
        "name": "cancel_order",
        "description": "Cancels a pending order and pays it back.",
        "inputSchema": schema(order_id=TEXT, reason=TEXT),
    },
]


def call(shop, params):
    try:
        answer = getattr(shop, params["name"])(**params["arguments"])
        return {"content": [{"type": "text", "text": json.dumps(answer)}], "structuredContent": answer}
    except Refusal as refusal:
        return {"content": [{"type": "text", "text": str(refusal)}], "isError": True}


def main():
    shop = Shop()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        method, result, error = message["method"], None, None
        if method == "initialize":
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "shop", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": TOOLS}
        elif method == "tools/call":
            result = call(shop, message["params"])
        else:
            error = {"code": -32601, "message": "no method " + method}
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        reply.update({"error": error} if error else {"result": result})
        print(json.dumps(reply), flush=True)


main()
