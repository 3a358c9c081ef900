package main_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace/tiny"
	"understudy/envace/train"
	"understudy/gpu/host"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

// smaller writes a recipe of ours with other values, and returns its path.
func smaller(t *testing.T, dir, recipe string, values map[string]string) string {
	t.Helper()
	text, err := os.ReadFile("../../envace/train/recipes/" + recipe + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		for key, value := range values {
			if strings.HasPrefix(line, key) {
				lines[i] = key + " " + value
			}
		}
	}
	path := filepath.Join(dir, "small.yaml")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// beginner writes a recipe and the warm start of a small policy that has seen a few
// demonstrations, and returns the recipe's path.
func beginner(t *testing.T, dir string) string {
	t.Helper()
	path := smaller(t, dir, "tiny", map[string]string{
		"model:":      "{layers: 1, width: 32, hidden: 64, heads: 2, kv_heads: 1, head: 16, context: 256}",
		"data:":       "{source: environment, train: 24, train_seed: 11, heldout: 6, heldout_seed: 12}",
		"warm_start:": "{steps: 60, batch: 16, learning_rate: 1e-2, until: 1, every: 60, tasks: 4, explore: 0.5, memories: 0.5}",
	})
	var err error
	c := train.Config{Arm: train.ArmBase, Seed: 1}
	if c.Recipe, err = train.ReadRecipe(path); err != nil {
		t.Fatal(err)
	}
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() { _ = registry.Close() })
	if c.Environment, err = registry.Environment(t.Context(), c.Recipe.Environment); err != nil {
		t.Fatal(err)
	}
	if c.Train, err = c.Environment.(audit.Tasker).Tasks(t.Context(), 11, 24); err != nil {
		t.Fatal(err)
	}
	if c.Rules, err = audit.NewRules(audit.RulesSpec{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	words, err := tiny.Learn(t.Context(), c.Environment, 11, 24)
	if err != nil {
		t.Fatal(err)
	}
	c.Format = tiny.Format{Vocabulary: words}
	device, err := host.New(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(device.Close)
	if err := train.Warm(t.Context(), c, device, filepath.Join(dir, "runs", "warm-s1")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "runs", "base-s1"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRehearse(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	recipe := beginner(t, dir)
	rehearse := func(args ...string) result {
		return run(t, program(t, dir, nil, append([]string{"rehearse", "--recipe", recipe, "--arm", "base", "--out", "runs"}, args...)...))
	}
	first := rehearse("--approve", "yes", "--execution", "once")
	for _, want := range []string{"attempt 1 in private", "attempt 2 in private", "of at most 48 tokens", "execution once", "ended: ", "journal: runs/base-s1/rehearsals.jsonl"} {
		if first.status != 0 || !strings.Contains(first.stdout, want) {
			t.Fatalf("%+v lacks %q", first, want)
		}
	}
	if again := rehearse("--approve", "yes", "--execution", "once"); again.status == 0 || !strings.Contains(again.stderr, "execution once is done") {
		t.Errorf("%+v: an execution is committed once (trap 9)", again)
	}
	swept := rehearse("--sweep", "--tasks", "2", "--svg", "frontier.svg")
	for _, want := range []string{"none", "2 parallel", "3 sequential", "external calls"} {
		if swept.status != 0 || !strings.Contains(swept.stdout, want) {
			t.Errorf("%+v lacks %q", swept, want)
		}
	}
	evaluate := func(args ...string) result {
		return run(t, program(t, dir, nil, append([]string{"eval", "--recipe", recipe, "--arm", "base", "--run", "runs", "--out", "results", "--tasks", "2", "--samples", "2", "--rehearse", "1"}, args...)...))
	}
	for range 2 { // the second time from what is there
		if got := evaluate(); got.status != 0 || !strings.Contains(got.stdout, "retail-mini") || !strings.Contains(got.stdout, "tiny/base/1, step 0") {
			t.Errorf("eval of the run: %+v", got)
		}
	}
	if got := evaluate("retail"); got.status == 0 || !strings.Contains(got.stderr, "plays retail-mini@1 alone") {
		t.Errorf("eval elsewhere: %+v", got)
	}
	file, err := os.Open(filepath.Join(dir, "frontier.svg"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	circles := 0
	for decoder := xml.NewDecoder(file); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "circle" {
			circles++
		}
	}
	if circles != 6 {
		t.Errorf("%d points in the picture, want one for each of 6 ways", circles)
	}
	for _, test := range []struct{ args, message string }{
		{"--mode both", "parallel or sequential"}, {"--approve maybe", "ask, yes or no"}, {"--task 99", "held-out tasks"}, {"--seed 9", "train"}, {"--attempts -1", "at least 0"},
	} {
		if got := rehearse(strings.Fields(test.args)...); got.status == 0 || !strings.Contains(got.stderr, test.message) {
			t.Errorf("%s: %+v, want a hint at %q", test.args, got, test.message)
		}
	}
}
