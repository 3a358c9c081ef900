"""Runs Python environment classes for Understudy, one JSON object a line.

Standard library only. A class is EnvScaler-style (class text, init config,
check functions), BFCL-style (_load_scenario, public methods, errors as
{"error": ...}), ACEBench-style (like BFCL, errors as {"status": false}), or a
tau2 toolkit (ValueError is a refusal). Requests name an op, replies carry the
same id and either "ok" or "fault". The parent kills a runner that hangs.
"""

import copy
import datetime
import importlib.util
import json
import math
import os
import random
import resource
import sys
import time
import types
import uuid

MAX_DEPTH = 200


class Fault(Exception):
    """What the environment, not the caller, did wrong."""


MOST_PROCESSES = 4096  # of the runner's user: a fork bomb ends before the machine's numbers do


def limit_resources(megabytes):
    """The jail that is always there: memory, processes, no core, no writing to files."""
    resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))
    # Shared memory is no data: the whole address space bounds it, with room for libraries and arenas.
    space = (4 * megabytes + 1024) << 20
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    most = MOST_PROCESSES if most == resource.RLIM_INFINITY else min(most, MOST_PROCESSES)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


# --- deterministic clock, randomness and identifiers -------------------------

CLOCK = [0.0]  # the current session's now, seconds since 1970, UTC


class FrozenDatetime(datetime.datetime):
    """datetime whose now is the session's."""

    @classmethod
    def now(cls, tz=None):
        frozen = cls.fromtimestamp(CLOCK[0], datetime.timezone.utc)
        return frozen.astimezone(tz) if tz else frozen.replace(tzinfo=None)

    @classmethod
    def utcnow(cls):
        return cls.now()

    @classmethod
    def today(cls):
        return cls.now()


class FrozenDate(datetime.date):
    """date whose today is the session's."""

    @classmethod
    def today(cls):
        now = FrozenDatetime.now()
        return cls(now.year, now.month, now.day)


def freeze_clock():
    datetime.datetime = FrozenDatetime
    datetime.date = FrozenDate
    time.time = lambda: CLOCK[0]
    uuid.uuid4 = lambda: uuid.UUID(int=random.getrandbits(128), version=4)
    uuid.uuid1 = uuid.uuid4


# --- values ------------------------------------------------------------------


def plain(value, depth=0, above=()):
    """JSON for any Python value: sets sorted, tuples as lists, non-finite
    numbers as text (JSON has none), other objects by their public attributes.
    What holds itself (a folder that knows its parent) is named there by how many
    levels further up it is."""
    if depth > MAX_DEPTH:
        raise Fault("a value is nested deeper than %d" % MAX_DEPTH)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if id(value) in above:
        return {"$above": len(above) - above.index(id(value))}
    above += (id(value),)
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): plain(v, depth + 1, above) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v, depth + 1, above) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v, depth + 1, above) for v in value), key=lambda v: json.dumps(v, sort_keys=True))
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(), depth + 1, above)
    if hasattr(value, "__dict__"):
        return {k: plain(v, depth + 1, above) for k, v in vars(value).items() if not k.startswith("_")}
    return str(value)


def response_text(value):
    """The bytes that an agent sees: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(plain(value), ensure_ascii=False)


# --- environments ------------------------------------------------------------


def load_module(declared, path):
    """A class's module, from source text or from a file on the user's disk."""
    if declared["file"]:
        for folder in path + [os.path.dirname(os.path.abspath(declared["file"]))]:
            if folder not in sys.path:
                sys.path.insert(0, folder)
        found = importlib.util.spec_from_file_location("environment_" + declared["class"], declared["file"])
        module = importlib.util.module_from_spec(found)
        sys.modules[found.name] = module
        found.loader.exec_module(module)
        return module
    module = types.ModuleType("environment_" + declared["class"])
    sys.modules[module.__name__] = module
    exec(compile(declared["source"], declared["class"] + ".py", "exec"), module.__dict__)
    return module


class Environment:
    """The classes of an environment. Keyed ones share a world in which the
    configuration and the state of each stand under its name."""

    def __init__(self, spec):
        self.kind = spec["kind"]
        self.keyed = spec["keyed"]
        self.classes = {}
        claims = {}  # tool to the class that it was given to
        modules = {}  # classes of one file share its module
        for declared in spec["classes"]:
            name = declared["class"]
            origin = (declared["file"], declared["source"])
            if origin not in modules:
                modules[origin] = load_module(declared, spec["path"])
            if not isinstance(vars(modules[origin]).get(name), type):
                raise Fault("class %s is not defined" % name)
            self.classes[name] = vars(modules[origin])[name]
            for tool in declared["tools"]:
                claims.setdefault(tool, []).append(name)
        self.owners = {tool: self.owner(tool, claims.get(tool) or list(self.classes)) for tool in spec["tools"]}
        missing = sorted(tool for tool, owner in self.owners.items() if owner is None)
        if missing:
            raise Fault("declared tools without a method: " + ", ".join(missing))

    def owner(self, tool, candidates):
        """The name of the class whose method a tool is; None = there is none."""
        found = [name for name in candidates if callable(getattr(self.classes[name], tool, None))]
        if len(found) > 1:
            raise Fault("tool %s is a method of %s; name it among the tools of one" % (tool, " and ".join(found)))
        return found[0] if found else None

    def open(self, config):
        """An instance of each class, by name."""
        if not self.keyed:
            return {name: self.instance(cls, config) for name, cls in self.classes.items()}
        unknown = sorted(set(config) - set(self.classes))
        if unknown:
            raise Fault("the configuration is keyed by class, and no class is named " + ", ".join(unknown))
        return {name: self.instance(cls, config.get(name, {})) for name, cls in self.classes.items()}

    def instance(self, cls, config):
        if self.kind == "envscaler":
            instance = self.construct(cls, copy.deepcopy(config))
            for key, value in config.items():
                setattr(instance, key, copy.deepcopy(value))
            return instance
        instance = cls()
        loader = getattr(instance, "_load_scenario", None)
        if loader:
            loader(copy.deepcopy(config))
        return instance

    def construct(self, cls, config):
        try:
            return cls(config)
        except TypeError:
            return cls()

    def public(self, instances):
        """The public attributes: an environment's state."""
        state = {
            name: {k: v for k, v in vars(instance).items() if not k.startswith("_")} for name, instance in instances.items()
        }
        return state if self.keyed else next(iter(state.values()))


class Session:
    current = None  # the session whose clock and random state are in force

    def __init__(self, environment, config, seed, clock):
        self.environment = environment
        self.clock = clock
        self.random = random.Random(seed).getstate()
        self.text = None
        self.enter()
        self.instances = environment.open(config)
        self.state()

    def clone(self):
        if Session.current is self:
            self.random = random.getstate()
        other = copy.copy(self)
        other.instances = copy.deepcopy(self.instances)
        return other

    def enter(self):
        """Makes the clock and the shared generator this session's."""
        if Session.current is self:
            return
        if Session.current is not None:
            Session.current.random = random.getstate()
        random.setstate(self.random)
        CLOCK[0] = self.clock
        Session.current = self

    def state(self):
        """The public attributes as JSON; remembered, so that an unchanged state
        costs no line."""
        self.text = json.dumps(plain(self.environment.public(self.instances)), ensure_ascii=False)
        return self.text

    def call(self, tool, arguments):
        self.enter()
        result = self.run(tool, arguments)
        before = self.text
        after = self.state()
        result["changed"] = after != before
        if result["changed"]:
            result["state"] = after
        return result

    def run(self, tool, arguments):
        owner = self.environment.owners.get(tool)
        if owner is None:
            raise Fault("tool %s is not declared" % tool)
        kind = self.environment.kind
        try:
            value = getattr(self.instances[owner], tool)(**arguments)
        except BaseException as error:  # the class is not ours: whatever it raises is data
            if kind == "tau2" and isinstance(error, ValueError):
                return {"status": "refused", "raw": "Error: %s" % error, "message": str(error)}
            # The instance may be half changed: the caller rebuilds it.
            return {"status": "fault", "raw": "", "message": "%s: %s" % (type(error).__name__, error)}
        return dict(verdict(kind, value), raw=response_text(value))


def verdict(kind, value):
    """ok or refused, by the convention of the kind."""
    if isinstance(value, dict):
        if kind == "envscaler" and value.get("success") is False:
            return {"status": "refused", "message": str(value.get("error", value.get("message", "")))}
        if kind == "bfcl" and "error" in value:
            return {"status": "refused", "message": str(value["error"])}
        if kind == "acebench" and value.get("status") is False:
            return {"status": "refused", "message": str(value.get("message", ""))}
    return {"status": "ok", "message": ""}


# --- operations --------------------------------------------------------------


class Runner:
    def __init__(self):
        self.environment = None
        self.sessions = {}
        self.snapshots = {}

    def load(self, request):
        self.environment = Environment(request["spec"])
        return {}

    def open(self, request):
        session = Session(self.environment, request["config"], request["seed"], request["clock"])
        self.sessions[request["session"]] = session
        return {"state": session.text}

    def close(self, request):
        self.sessions.pop(request["session"], None)
        return {}

    def call(self, request):
        return self.session(request).call(request["tool"], request["arguments"])

    def dry_run(self, request):
        """The call in a copy of the whole process: exact, whatever the class holds."""
        session = self.session(request)
        session.enter()
        randomness = random.getstate()  # Python seeds the child's generator anew
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            random.setstate(randomness)
            try:
                reply = json.dumps(session.call(request["tool"], request["arguments"]))
            except BaseException as error:
                reply = json.dumps({"status": "fault", "raw": "", "message": str(error), "changed": False})
            with os.fdopen(write, "w") as out:
                out.write(reply)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        if not text:
            raise Fault("the rehearsing process died")
        return json.loads(text)

    def fork(self, request):
        self.sessions[request["target"]] = self.session(request).clone()
        return {}

    def snapshot(self, request):
        self.snapshots[request["snapshot"]] = self.session(request).clone()
        return {}

    def restore(self, request):
        kept = self.snapshots.get(request["snapshot"])
        if kept is None:
            raise Fault("snapshot %s is not known" % request["snapshot"])
        self.sessions[request["session"]] = kept.clone()
        return {"state": kept.text}

    def drop(self, request):
        self.snapshots.pop(request["snapshot"], None)
        return {}

    def check(self, request):
        """Runs EnvScaler check functions over the final state; initial_state is
        a global of each, as their authors expect."""
        results = []
        for source in request["checks"]:
            scope = {"initial_state": json.loads(request["initial"])}
            try:
                exec(compile(source, "check.py", "exec"), scope)
                results.append(scope["check_func"](json.loads(request["final"])) is True)
            except BaseException:
                results.append(False)
        return {"results": results}

    def session(self, request):
        session = self.sessions.get(request["session"])
        if session is None:
            raise Fault("session %s is not open" % request["session"])
        return session


def take_channel():
    """Requests and replies, moved away from stdin and stdout: what a class asks for
    there finds nothing, and what it or its programs print goes to the log."""
    requests, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return requests, replies


def main():
    limit_resources(int(sys.argv[1]))
    requests, replies = take_channel()
    freeze_clock()
    runner = Runner()
    for line in requests:
        request = json.loads(line)
        reply = {"id": request["id"]}
        try:
            reply["ok"] = getattr(runner, request["op"])(request)
        except BaseException as error:  # SystemExit too: a class that leaves takes no other session along
            reply["fault"] = "%s: %s" % (type(error).__name__, error) if not isinstance(error, Fault) else str(error)
        replies.write(json.dumps(reply, ensure_ascii=True) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
