package domains_test

import (
	"encoding/json"
	"strings"
	"testing"

	"understudy/audit"
)

// card is what a task of retail-mini tells its user's agent.
type card struct {
	User string  `json:"user"`
	Card [][]any `json:"card"` // subject, field, value or null
	Goal string  `json:"goal"`
	Kind string  `json:"kind"`
}

// retail-mini makes thousands of tasks, each with a world of its own, that fit a
// tiny policy: short cards, closed vocabularies, about a fifth of the fields hidden.
func TestMiniTasks(t *testing.T) {
	env, err := registry.Environment(t.Context(), "retail-mini@3")
	if err != nil {
		t.Fatal(err)
	}
	n := 2000
	if raceEnabled {
		n = 300
	}
	tasks, err := env.(audit.Tasker).Tasks(t.Context(), 11, n)
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) != n {
		t.Fatalf("%d tasks, want %d", len(tasks), n)
	}
	again, err := env.(audit.Tasker).Tasks(t.Context(), 11, 50)
	if err != nil {
		t.Fatal(err)
	}
	prompts, words, tools, kinds := map[string]bool{}, map[string]bool{}, map[string]int{}, map[string]int{}
	fields, hidden, longest := 0, 0, 0
	for i, task := range tasks {
		if i < len(again) && again[i].Prompt != task.Prompt {
			t.Errorf("task %d depends on how many are asked for", i)
		}
		var c card
		if err := json.Unmarshal(task.User, &c); err != nil {
			t.Fatal(err)
		}
		for _, row := range c.Card {
			fields++
			if row[2] == nil {
				hidden++
			}
		}
		prompts[task.Prompt] = true
		kinds[c.Kind]++
		parts := strings.Fields(task.Prompt)
		longest = max(longest, len(parts))
		for _, w := range parts {
			words[w] = true
		}
		for _, call := range task.Solution {
			tools[call.Tool]++
		}
	}
	if len(prompts) < n*99/100 {
		t.Errorf("%d different prompts among %d tasks", len(prompts), n)
	}
	if share := float64(hidden) / float64(fields); share < 0.18 || share > 0.22 {
		t.Errorf("%.3f of the fields are hidden, want about a fifth", share)
	}
	if longest > 110 {
		t.Errorf("the longest prompt has %d words, want room for calls within a context of 256", longest)
	}
	if len(words) > 250 {
		t.Errorf("prompts use %d words, want at most 250 single tokens", len(words))
	}
	for _, name := range []string{"get_order", "cancel", "change", "give_back", "swap", "repay"} {
		if tools[name] < n/50 {
			t.Errorf("%s is in %d solutions of %d: too rare to learn", name, tools[name], n)
		}
	}
	for _, kind := range []string{"one", "two", "else"} {
		if kinds[kind] < n/20 {
			t.Errorf("kind %s has %d tasks of %d", kind, kinds[kind], n)
		}
	}
	t.Logf("longest prompt %d words, vocabulary %d, tools %v, kinds %v, hidden %.3f", longest, len(words), tools, kinds, float64(hidden)/float64(fields))
}
