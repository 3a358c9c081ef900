package starlark_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"understudy/audit"
	"understudy/sandbox/starlark"
)

// garden is a domain whose tasks have worlds of their own.
const garden = `
def state(rng, size = None):
    return {"beds": {"b1": {"plants": rng.int(1, 1000000)}, "b2": {"plants": 0}}}

def water(db, bed, day):
    db["beds"][bed]["watered"] = day
    return db["beds"][bed]

tool(water, "Water a bed.", params = {"bed": enum(["b1", "b2"]), "day": date("when")}, effect = "write")

def only(initial, final, bed):
    return changed(initial["beds"], final["beds"]) == [bed]

check(only)

def tasks(db, rng, n):
    made = []
    for i in range(n):
        seed = rng.int(1, 1000)
        plants = state(seeded(seed))["beds"]["b1"]["plants"]
        made.append({
            "id": "t%d" % i, "world": seed, "prompt": "water b1", "user": {"plants": plants},
            "solution": [{"tool": "water", "arguments": {"bed": "b1", "day": "2025-05-01"}}],
            "checks": [{"check": "only", "params": {"bed": "b1"}}],
        })
    return made
`

func gardenEnvironment(t *testing.T) *starlark.Environment {
	t.Helper()
	files := fstest.MapFS{
		"garden/domain.yaml": {Data: []byte("name: garden\nfiles: [domain.star]\ntasks: 5\n")},
		"garden/domain.star": {Data: []byte(garden)},
	}
	d, err := starlark.Load(files, "garden", starlark.Options{})
	if err != nil {
		t.Fatalf("load: %v (%s)", err, audit.ErrorHint(err))
	}
	return starlark.NewEnvironment(d)
}

// A task's session starts in the world that the task's maker saw.
func TestTaskWorld(t *testing.T) {
	env := gardenEnvironment(t)
	tasks, err := env.Tasks(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	worlds := map[string]bool{}
	for _, task := range tasks {
		session, err := env.Open(t.Context(), audit.Start{Task: task.ID})
		if err != nil {
			t.Fatal(err)
		}
		got, err := session.(audit.Stater).State(t.Context(), "/beds/b1/plants")
		if err != nil {
			t.Fatal(err)
		}
		var want struct{ Plants json.Number }
		if err := json.Unmarshal(task.User, &want); err != nil {
			t.Fatal(err)
		}
		if string(got) != want.Plants.String() {
			t.Errorf("%s opens with %s plants, its maker saw %s", task.ID, got, want.Plants)
		}
		worlds[string(got)] = true
	}
	if len(worlds) < 4 {
		t.Errorf("%d different worlds among %d tasks: every task has its own", len(worlds), len(tasks))
	}
}

// The size of a task's list stands in its id, which anybody may write: no id makes
// the domain generate without end, and lists that were asked for are not all kept.
func TestTaskIDsOfStrangers(t *testing.T) {
	env := gardenEnvironment(t)
	for _, id := range []string{"t0~1.1000000000", "t0~1.-5", "t0~1.99999999999999999999"} {
		if _, err := env.Open(t.Context(), audit.Start{Task: id}); audit.ErrorCode(err) != audit.CodeLimit {
			t.Errorf("task %s: got %v, want a limit", id, err)
		}
	}
	for seed := range uint64(100) {
		if _, err := env.Tasks(t.Context(), seed+1, 2); err != nil {
			t.Fatal(err)
		}
	}
	if n := starlark.TaskLists(env); n > 40 {
		t.Errorf("%d lists of tasks are kept", n)
	}
}

// changed() names the rows that differ, and nothing else.
func TestChanged(t *testing.T) {
	env := gardenEnvironment(t)
	for _, row := range []struct {
		bed, reason string
		want        bool
	}{
		{"b1", "the bed of the task", true},
		{"b2", "another bed", false},
	} {
		session, err := env.Open(t.Context(), audit.Start{Task: "t0"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.Call(t.Context(), audit.Call{Tool: "water", Arguments: json.RawMessage(`{"bed":"` + row.bed + `","day":"2025-05-01"}`)}); err != nil {
			t.Fatal(err)
		}
		got, err := session.(audit.Checker).Check(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if got.Success() != row.want {
			t.Errorf("%s was watered: success %v, want %v (%s)", row.bed, got.Success(), row.want, row.reason)
		}
	}
}

// A date parameter accepts days of the calendar only, so that no handler has to reckon with others.
func TestDateParameter(t *testing.T) {
	env := gardenEnvironment(t)
	for _, row := range []struct {
		day, reason string
		want        audit.Status
	}{
		{"2024-02-29", "a leap day", audit.StatusOK},
		{"2025-02-29", "no leap year", audit.StatusInvalid},
		{"2025-13-01", "no such month", audit.StatusInvalid},
		{"2025-5-1", "not padded", audit.StatusInvalid},
		{"tomorrow", "a word", audit.StatusInvalid},
	} {
		session, err := env.Open(t.Context(), audit.Start{})
		if err != nil {
			t.Fatal(err)
		}
		seen, err := session.Call(t.Context(), audit.Call{Tool: "water", Arguments: json.RawMessage(`{"bed":"b1","day":"` + row.day + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		if seen.Status != row.want {
			t.Errorf("day %q: status %s, want %s (%s): %s", row.day, seen.Status, row.want, row.reason, seen.Raw)
		}
	}
}

// A task may bring its whole world as data, and no world at all is no excuse to
// fall back on the generated one.
func TestTaskState(t *testing.T) {
	tasks := `[{"id":"t0","prompt":"water b2","state":{"beds":{"b1":{"plants":7},"b2":{"plants":0}}},` +
		`"solution":[],"checks":[{"check":"only","params":{"bed":"b2"}}]}]`
	load := func(tasks string) *starlark.Environment {
		d, err := starlark.Load(fstest.MapFS{
			"garden/domain.yaml": {Data: []byte("name: garden\nfiles: [domain.star]\n")},
			"garden/domain.star": {Data: []byte(garden)},
			"garden/tasks.json":  {Data: []byte(tasks)},
		}, "garden", starlark.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return starlark.NewEnvironment(d)
	}
	session, err := load(tasks).Open(t.Context(), audit.Start{Task: "t0"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := session.(audit.Stater).State(t.Context(), "/beds/b1/plants")
	if err != nil || string(got) != "7" {
		t.Errorf("b1 holds %s plants (%v), the task says 7", got, err)
	}
	if _, err := load(strings.Replace(tasks, `"state":{`, `"state":[],"user":{`, 1)).Tasks(t.Context(), 0, 0); err == nil {
		t.Error("a state that is a list was taken")
	}
}

// Versions are numbers: a person reads them in their order.
func TestLabelsAreInOrder(t *testing.T) {
	got := starlark.Manifest{Versions: map[string]string{"10": "", "2": "", "1": ""}}.Labels()
	if strings.Join(got, " ") != "1 2 10" {
		t.Errorf("got %v, want 1 2 10", got)
	}
}
