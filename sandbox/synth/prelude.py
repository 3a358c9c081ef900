# What a synthesised domain's code relies on, in Python: the names that a sandbox
# declares for it. The domain's own functions follow, as they run in the sandbox.
import copy as _copy
import datetime as _datetime
import json as _json
import math as _math

_python_type = type
_python_round = round
version, compat = 1, ""
_world = {}


class _Refusal(Exception):
    def __init__(self, family, message, details):
        super().__init__(message)
        self.family, self.message, self.details = family, message, details


def error(family, message, **details):
    raise _Refusal(family, str(message), details)


def fail(*words):
    raise RuntimeError(" ".join(str(w) for w in words))


def attempt(fn, *args, **kwargs):
    try:
        return fn(*args, **kwargs), None
    except _Refusal as refusal:
        told = {"family": refusal.family, "message": refusal.message}
        if refusal.details:
            told["details"] = refusal.details
        return None, told


def _declare(*_, **__):
    return None


string = integer = number = boolean = anything = enum = array = object = optional = date = _declare
tool = check = invariant = after_call = _declare


def role():
    return "assistant"


def type(x):
    names = {dict: "dict", list: "list", str: "string", int: "int", float: "float", bool: "bool", tuple: "tuple"}
    return "NoneType" if x is None else names.get(_python_type(x), "function")


def _rows(table):
    return list(table.values()) if isinstance(table, dict) else list(table)


def find(table, fn):
    for row in _rows(table):
        if fn(row):
            return row
    return None


def find_all(table, fn):
    return [row for row in _rows(table) if fn(row)]


def copy(x):
    return _copy.deepcopy(x)


def chars(s):
    return list(s)


def lower_ci(s):
    return s.lower()


def json_text(x):
    return _json.dumps(x)


def parse_json(s):
    return _json.loads(s)


def text(x):
    return str(x)


def repr_py(x):
    return repr(x)


def fixed(x, n=2):
    return "%.*f" % (n, x)


def round(x, n=None):
    return _python_round(x) if n is None else _python_round(x, n)


def _date(s):
    return _datetime.datetime.strptime(s, "%Y-%m-%dT%H:%M:%S" if "T" in s else "%Y-%m-%d")


def now():
    return _world["$sys"]["clock"]


def date_add(date, days=0, hours=0, minutes=0):
    moved = _date(date) + _datetime.timedelta(days=days, hours=hours, minutes=minutes)
    return moved.strftime("%Y-%m-%dT%H:%M:%S" if "T" in date else "%Y-%m-%d")


def hours_between(a, b):
    return (_date(b) - _date(a)).total_seconds() / 3600


def days_between(a, b):
    return _math.floor(hours_between(a, b) / 24)


def weekday(date):
    return _date(date).strftime("%A")


def _permute(n, digits, prefix, seed):
    space, h = 10**digits, 0xCBF29CE484222325
    for byte in ("%s/%s" % (seed, prefix)).encode():
        h = (h ^ byte) * 0x100000001B3 % (1 << 64)
    return "%0*d" % (digits, (n % space * (7368787 % space) + h % space) % space)


def new_id(prefix, digits=7):
    counters = _world["$sys"]["counters"]
    n = counters.get(prefix, 0)
    counters[prefix] = n + 1
    return prefix + _permute(n, digits, prefix, str(_world["$sys"].get("seed")))


def changed(a, b):
    return sorted(k for k in set(a) | set(b) if k not in a or k not in b or a[k] != b[k])


def _answer(self, fn, arguments):
    global _world
    before = _copy.deepcopy(self.__dict__)
    _world = self.__dict__
    try:
        return {"success": True, "data": _copy.deepcopy(fn(self.__dict__, **arguments))}
    except _Refusal as refusal:
        self.__dict__.clear()
        self.__dict__.update(before)
        return {"success": False, "error": refusal.message}
    except Exception:
        self.__dict__.clear()
        self.__dict__.update(before)
        raise
