"""A lending library in EnvScaler's convention, of our own making."""

import datetime
import random
import time


class LendingLibrary:
    def __init__(self, config):
        self.books = {}
        self.members = {}
        self.loans = []
        self.tags = set()
        self._hits = 0

    def find_book(self, book_id: str):
        book = self.books.get(book_id)
        if book is None:
            return {"success": False, "error": "book %s not found" % book_id}
        return {"success": True, "data": dict(book, book_id=book_id)}

    def lend(self, book_id: str, member_id: str):
        if member_id not in self.members:
            return {"success": False, "error": "member not found"}
        book = self.books.get(book_id)
        if book is None:
            return {"success": False, "error": "book not found"}
        if book["copies"] == 0:
            return {"success": False, "error": "no copies left"}
        book["copies"] -= 1
        due = (datetime.datetime.now() + datetime.timedelta(days=14)).date()
        self.loans.append({"book": book_id, "member": member_id, "due": due.isoformat(), "slip": random.randint(1, 10**6)})
        self._hits += 1
        return {"success": True, "message": "due " + due.isoformat()}

    def tag(self, word: str):
        self.tags.add(word)
        return {"success": True, "data": self.tags}

    def weigh(self):
        return {"success": True, "data": {"nan": float("nan"), "pair": (1, 2.5)}}

    def crash(self):
        self.books.clear()
        raise KeyError("shelf")

    def hang(self):
        time.sleep(3600)

    def spin(self):
        while True:
            pass

    def eat(self):
        self.meal = "x" * (1 << 33)
        return {"success": True}

    def write(self, path: str):
        with open(path, "w") as f:
            f.write("x")
        return {"success": True}

    def connect(self):
        import socket
        try:
            s = socket.create_connection(("127.0.0.1", 1), timeout=1)
            s.close()
        except OSError as error:
            return {"success": True, "data": error.errno}

    def reach(self, pid: str):
        """What another process is answered for: a signal, a queued one, its limits."""
        import ctypes, os, resource
        libc = ctypes.CDLL(None, use_errno=True)

        def queued(pid):
            info = (ctypes.c_int * 32)()
            info[2] = -1  # SI_QUEUE, which one process may send another
            number = {"x86_64": 129, "aarch64": 138}[os.uname().machine]  # rt_sigqueueinfo
            if libc.syscall(number, pid, 0, ctypes.byref(info)) != 0:
                raise OSError(ctypes.get_errno(), "rt_sigqueueinfo")

        answers = []
        for ask in (lambda p: os.kill(p, 0), queued, lambda p: resource.prlimit(p, resource.RLIMIT_NOFILE)):
            try:
                ask(int(pid))
                answers.append("done")
            except OSError as error:
                answers.append(error.errno)
        return {"success": True, "data": answers}

    def shout(self):
        print("this is not a reply")
        return {"success": True}
