"""A lending library in the manner of EnvScaler's environments."""


class Library:
    def __init__(self, init_config):
        self.books = init_config["books"]
        self.loans = {}

    def find_book(self, book_id):
        if book_id not in self.books:
            return {"success": False, "error": "book not found"}
        return {"success": True, "data": dict(self.books[book_id], book_id=book_id)}

    def lend(self, book_id, member):
        if book_id not in self.books:
            return {"success": False, "error": "book not found"}
        if self.books[book_id]["copies"] < 1:
            return {"success": False, "error": "no copies left"}
        self.books[book_id]["copies"] -= 1
        self.loans[book_id] = member
        return {"success": True, "message": "lent to " + member}
