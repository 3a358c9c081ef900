"""A toll gate in the manner of BFCL's multi-turn classes."""


class TollGate:
    def _load_scenario(self, scenario, long_context=False):
        self.fee = scenario["fee"]
        self.passed = []

    def show_fee(self):
        return {"fee": self.fee}

    def pass_gate(self, car):
        if car in self.passed:
            return {"error": f"Car {car} has already passed."}
        self.passed.append(car)
        return {"paid": self.fee}
