"""A subway turnstile in BFCL's multi-turn convention, of our own making."""

import random


class Turnstile:
    def __init__(self):
        self.gates = {}
        self.cards = {}

    def _load_scenario(self, scenario, long_context=False):
        self.gates = scenario.get("gates", {})
        self.cards = scenario.get("cards", {})
        self._random = random.Random(scenario.get("seed", 7))

    def balance(self, card: str):
        if card not in self.cards:
            return {"error": "Card %s not found." % card}
        return {"balance": self.cards[card]}

    def enter(self, card: str, gate: str):
        if card not in self.cards:
            return {"error": "Card %s not found." % card}
        if self.cards[card] < 3:
            return {"error": "Insufficient balance."}
        self.cards[card] -= 3
        self.gates[gate] = self.gates.get(gate, 0) + 1
        return {"pass": "P%04d" % self._random.randint(0, 9999)}
