package starlark_test

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// domain makes a domain of one tool t(db) whose body is given, one statement a line.
func domain(tb testing.TB, body string, wall time.Duration) (*starlark.Domain, error) {
	tb.Helper()
	lines := strings.Split(strings.TrimSpace(body), "\n")
	text := "def t(db):\n    " + strings.Join(lines, "\n    ") + "\ntool(t, effect=\"write\")\n"
	fsys := fstest.MapFS{
		"x/domain.yaml": {Data: []byte("name: x\n")},
		"x/state.star":  {Data: []byte("def state(rng):\n    return {\"n\": 1, \"l\": [1, 2], \"m\": {\"a\": {\"b\": 1}}}\n")},
		"x/domain.star": {Data: []byte(text)},
	}
	return starlark.Load(fsys, "x", starlark.Options{Limits: starlark.Limits{Wall: wall}})
}

type attack struct{ name, body, reason string }

// attacks are snippets that hang or exhaust plain Starlark, one reason each.
func attacks() []attack {
	return []attack{
		{"loop", "x = 0\nfor i in range(1000000):\n    for j in range(1000000):\n        x = i", "more steps than a call has"},
		{"range product", "return max(range(1 << 33))", "one step that runs for a minute"},
		{"all of a range", "return all(range(1, 1 << 33))", "one step that runs for a minute"},
		{"list of a range", "return len(list(range(1 << 28)))", "4 GB in one step"},
		{"set of a range", "return len(set(range(1 << 25)))", "7 GB in one step"},
		{"list times int", "return len([0] * (1 << 28))", "4 GB in one step"},
		{"int times tuple", "return len((1 << 28) * (0,))", "4 GB in one step"},
		{"text times int", "return len(\"a\" * ((1 << 30) - 1))", "1 GB in one step"},
		{"format", "s = \"a\" * 1000000\nreturn len((\"{0}\" * 1000).format(s))", "an output far larger than its inputs"},
		{"percent", "s = \"a\" * 1000000\nreturn len((\"%s\" * 1000) % tuple([s] * 1000))", "an output far larger than its inputs"},
		{"percent width", "return len(\"%999999999d\" % 1)", "a width that nobody means"},
		{"join", "s = \"a\" * 1000000\nreturn len(s.join([\"b\"] * 1000))", "an output far larger than its inputs"},
		{"replace", "s = \"a\" * 1000000\nreturn len(s.replace(\"a\", s))", "a terabyte in one step"},
		{"text of shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nreturn len(str(x))", "exponential in the number of levels"},
		{"json of shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nreturn json_text(x)", "exponential in the number of levels"},
		{"copy of shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nreturn copy(x)", "exponential in the number of levels"},
		{"response of shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nreturn x", "exponential in the number of levels"},
		{"store shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\ndb[\"x\"] = x", "exponential in the number of levels"},
		{"nested lists", "x = []\nfor i in range(100000):\n    x = [x]\nreturn str(x)", "quadratic, and deeper than JSON"},
		{"key of shared tuples", "x = (1, 1)\nfor i in range(60):\n    x = (x, x)\nd = {}\nd[x] = 1", "hashing takes 2^60 steps"},
		{"lookup of shared tuples", "x = (1, 1)\nfor i in range(60):\n    x = (x, x)\nreturn x in {\"a\": 1}", "hashing takes 2^60 steps"},
		{"get of shared tuples", "x = (1, 1)\nfor i in range(60):\n    x = (x, x)\nreturn {\"a\": 1}.get(x)", "hashing takes 2^60 steps"},
		{"dict of shared tuples", "x = (1, 1)\nfor i in range(60):\n    x = (x, x)\nreturn dict([(x, 1)])", "hashing takes 2^60 steps"},
		{"equality of shared lists", "x = [1]\ny = [1]\nfor i in range(60):\n    x = [x, x]\n    y = [y, y]\nreturn x == y", "exponential in the number of levels"},
		{"order of shared lists", "x = [1]\ny = [1]\nfor i in range(60):\n    x = [x, x]\n    y = [y, y]\nreturn x < y", "exponential in the number of levels"},
		{"sort of shared lists", "x = [1] * 1000\nfor i in range(3):\n    x = [x] * 1000\nreturn len(sorted([x, x]))", "wide and deep"},
		{"list doubling", "x = [0]\nfor i in range(60):\n    x = x + x", "doubles each step"},
		{"list doubling in place", "x = [0]\nfor i in range(60):\n    x += x", "doubles each step"},
		{"list doubling by extend", "x = [0]\nfor i in range(60):\n    x.extend(x)", "doubles each step"},
		{"state list doubling", "for i in range(60):\n    db[\"l\"] += list(db[\"l\"])", "doubles each step"},
		{"text doubling", "x = \"a\"\nfor i in range(60):\n    x += x", "doubles each step"},
		{"text doubling in a dict", "d = {\"x\": \"a\"}\nfor i in range(60):\n    d[\"x\"] += d[\"x\"]", "doubles each step"},
		{"copies of slices", "x = [0] * 100000\nkeep = []\nfor i in range(100000):\n    keep.append(x[:])", "1.6 MB a step"},
		{"squaring", "x = 3\nfor i in range(60):\n    x = x * x", "an integer that doubles in length"},
		{"squaring in place", "x = 3\nfor i in range(60):\n    x *= x", "an integer that doubles in length"},
		{"shift", "return 1 << 500", "fits"},
		{"shift far", "return 1 << (1 << 40)", "terabytes"},
		{"int of a long text", "return int(\"9\" * 1000000)", "quadratic to read"},
		{"dicts", "keep = []\nfor i in range(1000000):\n    keep.append({})", "half a kilobyte each"},
		{"dict comprehensions", "keep = []\nfor i in range(1000000):\n    keep.append({k: 1 for k in \"a\".elems()})", "half a kilobyte each"},
		{"collisions", "d = {}\nfor i in range(1000000):\n    d[i << 32] = 1", "every key in one bucket"},
		{"state writes", "for i in range(1000000):\n    db[\"k%d\" % i] = {\"a\": [1, 2, 3]}", "more than a call may write"},
		{"spread", "def f(*a):\n    return len(a)\nx = [0] * 1000000\nreturn [f(*x) for i in range(100000)]", "16 MB a step"},
		{"zip", "x = [0] * 100000\nreturn [len(zip(x, x)) for i in range(100000)]", "megabytes a step"},
		{"find", "return find([0] * 1000000, lambda v: find([0] * 1000000, lambda w: False))", "more steps than a call has"},
		{"calculate", "return calculate(\"(\" * 5000)", "deep recursion"},
		{"split", "x = \"a \" * 1000000\nreturn [len(x.split(\" \")) for i in range(100000)]", "16 MB a step"},
	}
}

// longAttacks are snippets that once outlasted the guard: native loops over long
// values, arguments that hide from their charge, and texts of errors.
func longAttacks() []attack {
	return []attack{
		{"sort of long texts", "a = \"x\" * 12000000\nl = [a + \"a\", a + \"b\"] * 200000\nreturn len(sorted(l))", "two thousand seconds of comparing in one step"},
		{"sort by long texts", "a = \"x\" * 12000000\nl = [a + \"a\", a + \"b\"]\nreturn len(sorted(range(200000), key=lambda i: l[i % 2]))", "the keys are what is compared"},
		{"maximum of long texts", "a = \"x\" * 12000000\nl = [a + \"a\", a + \"b\"] * 200000\nreturn len(max(l))", "minutes in one step"},
		{"search among long texts", "a = \"x\" * 12000000\nreturn (a + \"a\") in [a + \"b\"] * 400000", "minutes in one step"},
		{"search among long lists", "a = [0] * 100000\nreturn (a + [1]) in [a + [2]] * 100000", "minutes in one step"},
		{"dict of long texts", "a = \"x\" * 12000000\nreturn len(dict([(a, 1)] * 100000))", "a key is hashed each time"},
		{"update with long texts", "a = \"x\" * 12000000\nd = {}\nd.update([(a, 1)] * 100000)", "a key is hashed each time"},
		{"key of long texts", "a = \"x\" * 12000000\nreturn {(a,) * 9999: 1}", "a key is all of its parts"},
		{"int by name", "return int(x=\"9\" * 30000000)", "quadratic to read"},
		{"sort by name", "return len([sorted(iterable=range(1000000)) for i in range(1000)])", "16 MB a step"},
		{"list of code points", "c = (\"a\" * 1000000).codepoints()\nreturn len([list(c) for i in range(1000)])", "an iterable that does not know its length"},
		{"spread of code points", "c = (\"a\" * 1000000).codepoints()\ndef f(*a):\n    return a\nreturn len([f(*c) for i in range(1000)])", "an iterable that does not know its length"},
		{"find all by a built-in", "l = [1] * 1000000\nreturn len([find_all(l, bool) for i in range(1000)])", "a function that takes no steps"},
		{"fail with shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nfail(x)", "an error's text can be exponential"},
		{"print shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nprint(x)", "fits"},
		{"slice by shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nreturn [1][0:1:x]", "an error's text can be exponential"},
		{"round by shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nreturn round(1, x)", "an error's text can be exponential"},
		{"error of shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nerror(x, \"no\")", "an error's text can be exponential"},
		{"error about shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nerror(\"conflict\", \"no\", about=x)", "exponential in the number of levels"},
		{"store at shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\ndb[(x,)] = 1", "an error's text can be exponential"},
		{"enum of shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nenum(x)", "exponential in the number of levels"},
		{"weights of shared lists", "x = [1]\nfor i in range(60):\n    x = [x, x]\nseeded(1).weighted([x])", "an error's text can be exponential"},
		{"shuffle", "g = seeded(1)\nl = [1] * 1000000\nreturn len([g.shuffle(l) for i in range(1000)])", "16 MB a step"},
		{"text of control characters", "return len(repr(\"\\x00\" * 30000000))", "four bytes for one"},
		{"union with the state", "db[\"b\"] = [0] * 100000\nreturn len([db | {} for i in range(1000)])", "a copy of the whole state a step"},
	}
}

// TestAttacks runs every attack on one call: it must end within bounded processor
// time and memory, and leave the state as it was. (A busy machine bends other time.)
func TestAttacks(t *testing.T) {
	for i, tt := range append(attacks(), longAttacks()...) {
		if raceEnabled && i%12 != 0 {
			continue // one goroutine, ten times slower: the run without the detector tries them all
		}
		t.Run(tt.name, func(t *testing.T) {
			d, err := domain(t, tt.body, 500*time.Millisecond)
			if err != nil {
				t.Logf("refused when loaded: %v", err)
				return
			}
			s, err := starlark.NewEnvironment(d).Open(t.Context(), audit.Start{})
			if err != nil {
				t.Fatal(err)
			}
			peak := watchMemory(t)
			started := processor(t)
			obs, err := s.Call(t.Context(), audit.Call{Tool: "t"})
			took := processor(t) - started
			t.Logf("%v, %d MB: %s %.120s", took.Round(time.Millisecond), peak()>>20, obs.Status, obs.Raw)
			if err != nil {
				t.Fatal(err)
			}
			if took > 5*time.Second {
				t.Errorf("took %v: %s", took, tt.reason)
			}
			if used := peak(); used > 400<<20 {
				t.Errorf("used %d MB: %s", used>>20, tt.reason)
			}
			if obs.Status != audit.StatusFault && obs.Status != audit.StatusRefused && tt.reason != "fits" {
				if obs.Status != audit.StatusOK || len(obs.Raw) > 1<<20 {
					t.Errorf("got %s with %d bytes: %s", obs.Status, len(obs.Raw), tt.reason)
				}
			}
			if obs.Status != audit.StatusOK && (obs.Before != obs.After || len(obs.Delta) != 0) {
				t.Errorf("the state changed by %s", obs.Delta)
			}
		})
	}
}

// watchMemory samples the heap until the test asks for the peak since now.
func watchMemory(t *testing.T) func() uint64 {
	t.Helper()
	debug.FreeOSMemory() // so that attacks do not add up
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base := m.HeapAlloc
	stop, peaks := make(chan struct{}), make(chan uint64, 1)
	go func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		high := base
		for {
			select {
			case <-stop:
				peaks <- high - base
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				high = max(high, m.HeapAlloc)
			}
		}
	}()
	peak, done := uint64(0), false
	return func() uint64 {
		if !done {
			close(stop)
			peak, done = <-peaks, true
		}
		return peak
	}
}

func TestSourceAttacks(t *testing.T) {
	tests := []struct{ name, text, want, reason string }{
		{"parentheses", "x = " + strings.Repeat("(", 400_000), "nesting", "a parser that recurses"},
		{"while", "def t(db):\n    while True:\n        pass", "while", "not offered"},
		{"recursion", "def f(n):\n    return f(n)\nf(1)", "recursively", "a stack without end"},
		{"method value", "x = \"a\".join\n", "a method can only be called", "would escape the guard"},
		{"getattr", "x = getattr(\"a\", \"join\")\n", "not offered", "would escape the guard"},
		{"load", "load(\"x.star\", \"y\")\n", "load is not offered", "one scope"},
		{"hidden name", "x = $add(1, 2)\n", "", "cannot be written"},
		{"augmented call", "def f():\n    return [0]\nf()[0] += 1\n", "name", "the target would be read twice"},
		{"huge file", strings.Repeat("x = 1\n", 200_000), "larger than", "a domain is a few files of a few screens"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := fstest.MapFS{"x/domain.yaml": {Data: []byte("name: x\n")}, "x/domain.star": {Data: []byte(tt.text)}}
			started := processor(t)
			_, err := starlark.Load(fsys, "x", starlark.Options{})
			took := processor(t) - started
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %.300v, want an error with %q: %s", err, tt.want, tt.reason)
			}
			if took > 5*time.Second {
				t.Errorf("took %v: %s", took, tt.reason)
			}
		})
	}
}

// TestSemantics is Starlark as a domain's author meets it.
func TestSemantics(t *testing.T) {
	tests := []struct{ body, want, reason string }{
		{`return db["m"] == {"a": {"b": 1}}`, "true", "a live map equals a plain dict"},
		{`return {"a": {"b": 1}} != db["m"]`, "false", "on either side"},
		{`return db["l"] == [1, 2]`, "true", "a live list equals a plain list"},
		{`return 1 in db["l"]`, "true", "membership in a live list"},
		{`return "a" in db["m"] and "z" not in db["m"]`, "true", "membership in a live map"},
		{`return [{"b": 1}] == [db["m"]["a"]]`, "true", "nested inside plain values"},
		{`return type(db["m"]) + type(db["l"])`, `"dictlist"`, "handles are named as what they stand for"},
		{"db[\"l\"] += [3]\nreturn db[\"l\"]", "[1,2,3]", "in place"},
		{"db[\"n\"] += 2\nreturn db[\"n\"]", "3", "in place"},
		{"x = [1]\ny = x\nx += [2]\nreturn y", "[1,2]", "a plain list is extended in place, as in Python"},
		{"db[\"l\"] = [v for v in db[\"l\"] if v > 1]\nreturn db[\"l\"]", "[2]", "the filter idiom"},
		{`return "%.2f|%05d|%s|%-4s|" % (1.005, 42, 1234567.0, "ab")`, `"1.00|00042|1234567.0|ab  |"`, "Python's formats"},
		{`return "{:.2f} {:,} {} {x}".format(2.5, 1234567, 1.0, x="y")`, `"2.50 1,234,567 1.0 y"`, "Python's formats"},
		{`return "{:,}|{:,}|{:,}".format(1234567.5, 2500.0, -1000000)`, `"1,234,567.5|2,500.0|-1,000,000"`, "a float keeps its fraction between its commas"},
		{`return str(1234567.0) + str([1, "a", True, None, 1.5])`, `"1234567.0[1, 'a', True, None, 1.5]"`, "Python's str"},
		{`return [round(2.5), round(3.5), round(2.675, 2), round(-0.5), round(1234.5678, -2)]`, "[2,4,2.67,0,1200.0]", "half to even on the binary value"},
		{`return round(5, 2)`, "5", "an integer stays one"},
		{`return [date_add("2025-02-27", days=3), date_add("2025-02-27T23:30:00", hours=1)]`, `["2025-03-02","2025-02-28T00:30:00"]`, "dates"},
		{`return [days_between("2025-01-01", "2025-01-31"), hours_between("2025-01-01", "2025-01-01T12:30:00"), weekday("2025-01-01")]`, `[30,12.5,"Wednesday"]`, "dates"},
		{`return [calculate("2 + 3 * (4 - 1) / 2"), calculate("-0.1*3")]`, `["6.5","-0.3"]`, "arithmetic"},
		{"v, e = attempt(lambda: error(\"conflict\", \"no\", n=1))\nreturn [v, e]", `[null,{"family":"conflict","message":"no","details":{"n":1}}]`, "a caught refusal"},
		{`return db["l"][::-1] + db["l"][1:]`, "[2,1,2]", "slices"},
		{`return ["abc"[-1], "abc"[1:], "abc"[::-1], [1, 2, 3][:-1]]`, `["c","bc","cba",[1,2]]`, "slices"},
		{`return find(db["m"], lambda v: v["b"] == 1)`, `{"b":1}`, "the first value"},
		{`return new_id("#W") != new_id("#W")`, "true", "fresh ids"},
		{`return now()`, `"2025-01-15T09:00:00"`, "the world's clock"},
		{"db[\"x\"] = db[\"m\"][\"a\"]\ndb[\"x\"][\"b\"] = 2\nreturn db[\"m\"]", `{"a":{"b":1}}`, "storing copies"},
		{"d = {\"a\": 1}\nd |= {\"b\": 2}\nreturn d", `{"a":1,"b":2}`, "dict union"},
		{`return sorted(db["m"].keys()) + [k for k, v in db["m"].items()]`, `["a","a"]`, "iteration"},
		{`return [sum([0.1, 0.2]), sum([1, 2]), fixed(3, 2)]`, `[0.30000000000000004,3,"3.00"]`, "numbers"},
		{`return chars("né")`, `["n","é"]`, "characters, not bytes"},
	}
	for _, tt := range tests {
		d, err := domain(t, tt.body, time.Hour)
		if err != nil {
			t.Errorf("%s: %v", tt.body, err)
			continue
		}
		s, err := starlark.NewEnvironment(d).Open(t.Context(), audit.Start{})
		if err != nil {
			t.Fatal(err)
		}
		obs, err := s.Call(t.Context(), audit.Call{Tool: "t"})
		if err != nil || obs.Status != audit.StatusOK || string(obs.Raw) != tt.want {
			t.Errorf("%s\ngot  %s %s, %v\nwant %s: %s", tt.body, obs.Status, obs.Raw, err, tt.want, tt.reason)
		}
	}
}

// TestFaults are mistakes of a domain: loud, placed, and without effect.
func TestFaults(t *testing.T) {
	tests := []struct{ body, want, reason string }{
		{"d = {}\ndb[\"x\"] = d\nd[\"a\"] = 1", "frozen", "a stored dict is no longer the variable's"},
		{"m = db[\"m\"][\"a\"]\ndb[\"m\"].pop(\"a\")\nm[\"b\"] = 2", "stale handle", "a removed value"},
		{"for k in db[\"m\"]:\n    db[\"m\"][k + \"x\"] = 1", "during an iteration", "as in Python"},
		{"db[\"x\"] = float(\"nan\")", "not a JSON number", "NaN"},
		{"db[1] = 2", "keys of the state are strings", "JSON"},
		{"db[\"x\"] = \"é\"[0:1]", "UTF-8", "half a character"},
		{"db[\"é\"[0:1]] = 1", "UTF-8", "half a character as a key"},
		{"db[\"x\"] = {\"é\"[0:1]: 1}", "UTF-8", "half a character as a key within"},
		{"return date_add(\"2025-01-01\", hours=-9223372036854775807-1)", "out of range", "a span that has no opposite"},
		{"db[\"x\"] = t", "cannot be stored", "a function"},
		{"return db[\"nope\"]", "nope", "a missing key"},
		{"error(\"nonsense\", \"x\")", "not an error family", "the families are closed"},
		{"return 1 / 0", "division by zero", "arithmetic"},
	}
	for _, tt := range tests {
		d, err := domain(t, tt.body, time.Hour)
		if err != nil {
			t.Errorf("%s: %v", tt.body, err)
			continue
		}
		s, err := starlark.NewEnvironment(d).Open(t.Context(), audit.Start{})
		if err != nil {
			t.Fatal(err)
		}
		obs, err := s.Call(t.Context(), audit.Call{Tool: "t"})
		if err != nil || obs.Status != audit.StatusFault || !strings.Contains(obs.Error.Message, tt.want) || !strings.Contains(obs.Error.Message, "x/domain.star:") {
			t.Errorf("%s\ngot %s %s, %v; want a fault at file:line:column with %q: %s", tt.body, obs.Status, obs.Raw, err, tt.want, tt.reason)
		}
		if obs.Before != obs.After || len(obs.Delta) != 0 {
			t.Errorf("%s: the state changed", tt.body)
		}
	}
}

func TestSyntaxErrorsCarryHints(t *testing.T) {
	tests := []struct{ body, want, hint string }{
		{"while True:\n    pass", "x/domain.star:2:5", "range"},
		{"try:\n    pass", "x/domain.star:2:", "attempt"},
		{"return f\"{x}\"", "x/domain.star:2:", "f-strings"},
		{"return 2 ** 3", "x/domain.star:2:", "multiply"},
		{"return nope", "x/domain.star:2:12", "define the name"},
	}
	for _, tt := range tests {
		_, err := domain(t, tt.body, time.Hour)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(audit.ErrorHint(err), tt.hint) {
			t.Errorf("%q: got %v (hint %q), want %q and a hint with %q", tt.body, err, audit.ErrorHint(err), tt.want, tt.hint)
		}
	}
}
