package domains_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"understudy/audit"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

// Worlds that a card leaves possible show the card, allow the goal, and differ only
// where the card is hidden.
func TestPossibleWorldsAgreeWithTheCard(t *testing.T) {
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() { _ = registry.Close() })
	env, err := registry.Environment(t.Context(), "retail-mini@1")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := env.(audit.Tasker).Tasks(t.Context(), 5, 12)
	if err != nil {
		t.Fatal(err)
	}
	hidden, different := 0, 0
	for _, task := range tasks {
		worlds, err := env.(audit.Believer).Possible(t.Context(), task.ID, nil, 7, 4)
		if err != nil {
			t.Fatal(err)
		}
		if len(worlds) != 4 {
			t.Errorf("task %s: %d worlds", task.ID, len(worlds))
		}
		for _, text := range worlds {
			h, d := compareCard(t, task, text)
			hidden, different = hidden+h, different+d
			session, err := env.Open(t.Context(), audit.Start{State: text})
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range task.Solution {
				if seen, err := session.Call(t.Context(), call); err != nil || seen.Status != audit.StatusOK {
					t.Errorf("task %s: %s is answered %s (%v) in a world where its goal is possible", task.ID, call.Tool, seen.Raw, err)
				}
			}
			_ = session.Close()
		}
	}
	if hidden == 0 || different == 0 {
		t.Errorf("%d hidden fields, %d of them drawn differently: nothing was tried", hidden, different)
	}
}

// A goal is drawn among what one may try: what the shop refuses is something else than
// to change what is not in the order.
func TestPossibleWorldsHaveWhatIsRefused(t *testing.T) {
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() { _ = registry.Close() })
	env, err := registry.Environment(t.Context(), "retail-mini@1")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := env.(audit.Tasker).Tasks(t.Context(), 15, 60)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, task := range tasks {
		var facts struct {
			Card [][3]any `json:"card"`
			Goal string   `json:"goal"`
			Kind string   `json:"kind"`
		}
		if err := json.Unmarshal(task.User, &facts); err != nil {
			t.Fatal(err)
		}
		goal := strings.Fields(facts.Goal) // tool, order, item, ...
		veiled := slices.ContainsFunc(facts.Card, func(row [3]any) bool { return row[0] == goal[1] && row[1] == "items" && row[2] == nil })
		if facts.Kind != "else" || goal[0] == "cancel" || !veiled {
			continue
		}
		tried++
		worlds, err := env.(audit.Believer).Possible(t.Context(), task.ID, nil, 7, 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range worlds {
			var world struct {
				Orders map[string]struct {
					Items []string `json:"items"`
				} `json:"orders"`
			}
			if err := json.Unmarshal(text, &world); err != nil {
				t.Fatal(err)
			}
			if items := world.Orders[goal[1]].Items; !slices.Contains(items, goal[2]) {
				t.Errorf("task %s: %q in a world where the order holds %v", task.ID, facts.Goal, items)
			}
		}
	}
	if tried == 0 {
		t.Error("no task hides what the shop refuses")
	}
}

// A price that follows from a total is one of 28: a world that needs none is as much
// likelier as it is easier to guess.
func TestPossiblePricesCount(t *testing.T) {
	source, err := fs.Sub(domains.FS(), "retail-mini")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, name := range []string{"domain.yaml", "state.star", "domain.star", "tasks.star", "possible.star", "policy.md"} {
		text, err := fs.ReadFile(source, name)
		if err != nil {
			t.Fatal(err)
		}
		files["retail-mini/"+name] = &fstest.MapFile{Data: text}
	}
	draw := files["retail-mini/possible.star"]
	draw.Data = append(bytes.Replace(draw.Data, []byte("def possible("), []byte("def drawn("), 1), `
def possible(rng, given, n):
    seen = {"P1": {"price": 5}, "P2": {"price": None}}
    likely = [priced(rng, {"orders": {"#01": {"items": [p]}}}, ["P1", "P2"], seen, {"#01": 5})[1] for p in ("P1", "P2")]
    return [{"times": int(likely[0] / likely[1] + 0.5)}]
`...)
	registry := sandbox.New(files)
	t.Cleanup(func() { _ = registry.Close() })
	env, err := registry.Environment(t.Context(), "retail-mini@1")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := env.(audit.Tasker).Tasks(t.Context(), 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := env.(audit.Believer).Possible(t.Context(), tasks[0].ID, nil, 7, 1)
	if err != nil || len(got) != 1 || string(got[0]) != `{"times":28}` {
		t.Errorf("%s, %v: a shown price that is the total against a hidden one", got, err)
	}
}

// compareCard counts the card's hidden fields, and those of them where the world is
// not the first that comes to mind.
func compareCard(t *testing.T, task audit.Task, text []byte) (hidden, drawn int) {
	t.Helper()
	var facts struct {
		Card [][3]any `json:"card"`
	}
	var world map[string]map[string]map[string]any
	if err := json.Unmarshal(task.User, &facts); err != nil {
		t.Fatal(err)
	}
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	delete(whole, "$sys")
	rest, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(rest, &world); err != nil {
		t.Fatal(err)
	}
	for _, row := range facts.Card {
		subject, field := row[0].(string), row[1].(string)
		for _, table := range world {
			held, ok := table[subject]
			switch {
			case !ok:
			case row[2] == nil:
				hidden++
				if field == "stock" && held[field] != 2.0 {
					drawn++
				}
			case !reflect.DeepEqual(held[field], row[2]):
				t.Errorf("task %s: %s of %s is %v on the card and %v in a possible world", task.ID, field, subject, row[2], held[field])
			}
		}
	}
	return hidden, drawn
}
