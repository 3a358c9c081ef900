package proof_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"understudy/audit"
	"understudy/sandbox/proof"
	"understudy/sandbox/starlark"
)

// till is a small domain; %RULE%, %CHECKS% and %EFFECT% are where its faults go.
const till = `
def state(rng, size = None):
    boxes = {"x%d" % i: {"coins": 100 + 10 * i, "label": "box %d" % i} for i in range(6)}
    return {"boxes": boxes, "log": {"calls": 0}}

def move(db, from_box, to_box, coins):
    if from_box not in db["boxes"] or to_box not in db["boxes"]:
        error("not_found", "no such box")
    if from_box == to_box:
        error("conflict", "one box")
    source, target = db["boxes"][from_box], db["boxes"][to_box]
    if source["coins"] < coins:
        error("limit", "too few coins")
    source["coins"] -= coins
    %RULE%
    return {"left": source["coins"]}

def count(db, box):
    if box not in db["boxes"]:
        error("not_found", "no such box")
    %READ%
    return db["boxes"][box]

BOX = string("box, such as x1")
tool(move, "Move coins.", params = {"from_box": BOX, "to_box": BOX, "coins": integer("coins", min = 1, max = 200)}, effect = "write", errors = %ERRORS%)
tool(count, "Count a box.", params = {"box": BOX}, effect = "read", errors = ["not_found"])

def kept(initial, final):
    total = sum([b["coins"] for b in final["boxes"].values()])
    return None if total == sum([b["coins"] for b in initial["boxes"].values()]) else "%d coins are left" % total

invariant(kept)

def holds(initial, final, box, coins):
    return final["boxes"][box]["coins"] == coins

def others(initial, final, boxes):
    return all([k in boxes for k in changed(initial["boxes"], final["boxes"])])

check(holds)
check(others)

def tasks(db, rng, n):
    made = []
    for i in range(n):
        solution = [{"tool": "count", "arguments": {"box": "x0"}}, {"tool": "move", "arguments": {"from_box": "x0", "to_box": "x3", "coins": 10 + i}}]
        made.append({"id": "t%d" % i, "prompt": "move some", "solution": %SOLUTION%, "checks": %CHECKS%})
    return made
`

// sound is the till without a fault.
func sound() map[string]string {
	return map[string]string{
		"%RULE%": `target["coins"] += coins`, "%READ%": "pass", "%ERRORS%": `["not_found", "conflict", "limit"]`, "%SOLUTION%": "solution",
		"%CHECKS%": `[{"check": "holds", "params": {"box": "x0", "coins": 90 - i}}, {"check": "holds", "params": {"box": "x3", "coins": 140 + i}}, {"check": "others", "params": {"boxes": ["x0", "x3"]}}]`,
	}
}

func environment(t *testing.T, faults map[string]string) audit.Environment {
	t.Helper()
	text := till
	for place, sound := range sound() {
		if fault, ok := faults[place]; ok {
			sound = fault
		}
		text = strings.ReplaceAll(text, place, sound)
	}
	d, err := starlark.Load(fstest.MapFS{
		"till/domain.yaml": {Data: []byte("name: till\nfiles: [domain.star]\ntasks: 4\n")},
		"till/domain.star": {Data: []byte(text)},
	}, "till", starlark.Options{})
	if err != nil {
		t.Fatalf("load: %v (%s)", err, audit.ErrorHint(err))
	}
	return starlark.NewEnvironment(d)
}

func TestTasksFindWhatIsWrong(t *testing.T) {
	for _, row := range []struct {
		reason    string
		faults    map[string]string
		fault     string  // in a fault of the report; "" = none
		survivors string  // in a surviving mutant; "" = none
		rate      float64 // at most
	}{
		{"a sound domain", nil, "", "", 1},
		{
			"checks that look at one box only",
			map[string]string{"%CHECKS%": `[{"check": "holds", "params": {"box": "x0", "coins": 90 - i}}]`},
			"an agent that destroys", `change_target: move to_box: "x3" becomes`, 0.95,
		},
		{
			"checks that hold from the start",
			map[string]string{"%CHECKS%": `[{"check": "others", "params": {"boxes": ["x0", "x3"]}}]`},
			"the initial state passes already", "drop_step", 0.8,
		},
		{
			"a reference that does something else",
			map[string]string{"%SOLUTION%": "solution[:1]"},
			"the reference solution fails", "", 1,
		},
		{
			"a reference that is refused",
			map[string]string{"%SOLUTION%": `solution + [{"tool": "move", "arguments": {"from_box": "x0", "to_box": "x0", "coins": 1}}]`},
			"a step of the reference solution", "", 1,
		},
		{"no reference", map[string]string{"%SOLUTION%": "[]"}, "no reference solution", "", 1},
	} {
		report, err := proof.Tasks(t.Context(), environment(t, row.faults), proof.TaskConfig{})
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		faults, survivors := strings.Join(report.Faults(), "\n"), strings.Join(report.Survivors(), "\n")
		if row.fault == "" && faults != "" || !strings.Contains(faults, row.fault) {
			t.Errorf("%s: faults %q, want %q", row.reason, faults, row.fault)
		}
		if row.survivors == "" && survivors != "" || !strings.Contains(survivors, row.survivors) {
			t.Errorf("%s: survivors %q, want %q", row.reason, survivors, row.survivors)
		}
		if report.KillRate() > row.rate {
			t.Errorf("%s: kill rate %.2f, want at most %.2f", row.reason, report.KillRate(), row.rate)
		}
	}
}

func TestSoakFindsWhatIsWrong(t *testing.T) {
	for _, row := range []struct {
		reason, finding string
		faults          map[string]string
	}{
		{"a sound domain", "", nil},
		{"coins vanish when many are moved", "kept", map[string]string{"%RULE%": `target["coins"] += coins if coins < 60 else coins - 1`}},
		{"a read writes", "declared to read", map[string]string{"%READ%": `db["log"]["calls"] += 1`}},
		{"an undeclared family", "does not declare", map[string]string{"%ERRORS%": `["not_found"]`}},
		{"a fault in a rule", "status fault", map[string]string{"%RULE%": `target["coins"] += [coins][coins // 50]`}},
	} {
		report, err := proof.Soak(t.Context(), environment(t, row.faults), proof.SoakConfig{Calls: 1500, Seed: 7})
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		if row.finding == "" {
			if len(report.Findings) > 0 || report.Calls != 1500 {
				t.Errorf("%s: %d calls, findings %v", row.reason, report.Calls, report.Findings)
			}
			continue
		}
		if len(report.Findings) == 0 || !strings.Contains(report.Findings[0].Text, row.finding) {
			t.Errorf("%s: findings %v, want %q", row.reason, report.Findings, row.finding)
		}
	}
}

// A violation is pinned to the call that made it, not to the look that saw it.
func TestSoakNamesTheCall(t *testing.T) {
	env := environment(t, map[string]string{"%RULE%": `target["coins"] += coins - (1 if coins == 10 else 0)`})
	report, err := proof.Soak(t.Context(), env, proof.SoakConfig{Calls: 5000, Every: 500, Session: 500})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) == 0 {
		t.Fatal("no finding among 5,000 calls")
	}
	if text := string(report.Findings[0].Call.Arguments); !strings.Contains(text, `"coins":10`) {
		t.Errorf("blames %s, want a move of 10 coins", text)
	}
}

// The same seed draws the same calls, another one draws others.
func TestGeneratorIsSeeded(t *testing.T) {
	env := environment(t, nil)
	tools, err := env.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	session, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := session.(audit.Stater).State(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	draws := func(seed uint64) string {
		g, err := proof.NewGenerator(tools, seed)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Observe(text); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for range 200 {
			call := g.Next()
			b.WriteString(call.Tool)
			b.Write(call.Arguments)
		}
		return b.String()
	}
	first := draws(1)
	if first != draws(1) {
		t.Error("one seed, two sequences")
	}
	if first == draws(2) {
		t.Error("two seeds, one sequence")
	}
	for _, want := range []string{`"box":"x`, `"from_box":"x`} {
		if !strings.Contains(first, want) {
			t.Errorf("no %s among 200 draws: ids do not come from the state", want)
		}
	}
}

// Arguments follow their schema: patterns, dates, bounds and enums.
func TestGeneratorFollowsSchemas(t *testing.T) {
	tool := audit.Tool{Name: "book", Effect: audit.Write, Role: "assistant", Input: json.RawMessage(`{"type": "object", "properties": {
		"code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{3,5}(-X)?$"}, "day": {"type": "string", "format": "date"},
		"seats": {"type": "integer", "minimum": 2, "maximum": 9}, "cabin": {"enum": ["eco", "first"]}
	}, "required": ["code", "day", "seats", "cabin"], "additionalProperties": false}`)}
	g, err := proof.NewGenerator([]audit.Tool{tool}, 3)
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile(`^[A-Z]{2}[0-9]{3,5}(-X)?$`)
	seats := map[int]bool{}
	for range 300 {
		call, ok := g.NextWrite()
		if !ok {
			t.Fatal("no writing tool")
		}
		var got struct {
			Code, Day, Cabin string
			Seats            int
		}
		if err := json.Unmarshal(call.Arguments, &got); err != nil {
			t.Fatalf("%s: %v", call.Arguments, err)
		}
		_, err := time.Parse(time.DateOnly, got.Day)
		if err != nil || !code.MatchString(got.Code) || got.Seats < 2 || got.Seats > 9 || got.Cabin != "eco" && got.Cabin != "first" {
			t.Errorf("outside the schema: %s", call.Arguments)
		}
		seats[got.Seats] = true
	}
	if len(seats) < 6 {
		t.Errorf("only %d of 8 seat counts among 300 draws", len(seats))
	}
}

// Patterns of strangers' tools are given up where they multiply or match nothing.
func TestGeneratorGivesUpPatterns(t *testing.T) {
	multiplies := strings.Repeat("(", 16) + "a*" + strings.Repeat(")*", 16)
	for _, pattern := range []string{multiplies, `[^\x00-\x{10FFFF}]`} {
		text, err := json.Marshal(pattern)
		if err != nil {
			t.Fatal(err)
		}
		tool := audit.Tool{Name: "find", Effect: audit.Write, Input: json.RawMessage(`{"type": "object", "properties": {
			"code": {"type": "string", "pattern": ` + string(text) + `}}, "required": ["code"]}`)}
		g, err := proof.NewGenerator([]audit.Tool{tool}, 1)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if call, _ := g.NextWrite(); len(call.Arguments) > 20_000 {
				t.Errorf("%s: %d bytes of arguments", pattern, len(call.Arguments))
			}
		}
	}
}

// An environment without tools is no soak, and no panic either.
func TestSoakNeedsTools(t *testing.T) {
	if _, err := proof.Soak(t.Context(), toolless{environment(t, nil)}, proof.SoakConfig{Calls: 10}); !errors.Is(err, proof.ErrCannotSoak) {
		t.Errorf("%v, want ErrCannotSoak", err)
	}
}

type toolless struct{ audit.Environment }

func (toolless) Tools(context.Context) ([]audit.Tool, error) { return nil, nil }
