package domains_test

import (
	"encoding/json"
	"reflect"
	"testing"

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
