"""A car park in the manner of BFCL's multi-turn classes."""


class CarPark:
    def _load_scenario(self, scenario, long_context=False):
        self.places = dict(scenario["places"])
        self._log = []

    def look(self, place):
        if place not in self.places:
            return {"error": f"Place {place} not found."}
        return {"place": place, "car": self.places[place]}

    def park(self, place, car):
        if place not in self.places:
            return {"error": f"Place {place} not found."}
        if self.places[place]:
            return {"error": f"Place {place} is already taken."}
        self.places[place] = car
        return {"parked": car}
