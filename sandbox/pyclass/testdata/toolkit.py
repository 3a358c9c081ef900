"""A toolkit that refuses by ValueError, as tau2's do, of our own making."""


class Desk:
    def __init__(self):
        self.seats = {"a": None}

    def take(self, seat: str, who: str):
        if seat not in self.seats:
            raise ValueError("Seat not found")
        self.seats[seat] = who
        return "Seat taken"
