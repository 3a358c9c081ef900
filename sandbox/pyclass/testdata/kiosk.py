"""A station's kiosk in BFCL's multi-turn convention, of our own making."""


class Kiosk:
    def _load_scenario(self, scenario, long_context=False):
        self.stock = scenario.get("stock", {})
        self.till = scenario.get("till", 0)

    def price(self, item: str):
        if item not in self.stock:
            return {"error": "Item %s not found." % item}
        return {"price": self.stock[item]["price"]}

    def buy(self, item: str):
        if item not in self.stock:
            return {"error": "Item %s not found." % item}
        if self.stock[item]["left"] < 1:
            return {"error": "Item %s is sold out." % item}
        self.stock[item]["left"] -= 1
        self.till += self.stock[item]["price"]
        return {"bought": item}

    def balance(self, card: str):
        """Also a method of Turnstile: which one a tool is has to be said."""
        return {"error": "The kiosk takes cash."}
