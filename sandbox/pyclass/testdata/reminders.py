"""Reminders in ACEBench's convention, of our own making."""


class Reminders:
    def __init__(self):
        self.items = []

    def _load_scenario(self, scenario):
        self.items = scenario.get("items", [])

    def add(self, text: str):
        if any(i == text for i in self.items):
            return {"status": False, "message": "this reminder already exists"}
        self.items.append(text)
        return {"status": True, "message": "added"}
