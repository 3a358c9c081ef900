package tau2_test

import (
	"os"
	"path/filepath"
	"testing"

	"understudy/audit"
	engine "understudy/sandbox/starlark"
	"understudy/sandbox/tau2"
)

// dataFolder is where the recordings are: $UNDERSTUDY_DATA, or shared/data beside
// the checkout.
func dataFolder() string {
	if dir := os.Getenv("UNDERSTUDY_DATA"); dir != "" {
		return filepath.Join(dir, "tau2")
	}
	return filepath.Join("..", "..", "..", "shared", "data", "tau2")
}

// TestConformance replays every recording of tau2-bench's own toolkits: same
// outcome, same content, same delta on each line (issue 3).
func TestConformance(t *testing.T) {
	t.Parallel()
	dir := dataFolder()
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recordings in %s: set UNDERSTUDY_DATA to the folder that holds tau2/ (this is the one test that may skip)", dir)
	}
	bundles, err := tau2.Import(t.Context(), os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bundles {
		t.Run(b.Name+"/tasks", func(t *testing.T) {
			t.Parallel()
			solve(t, b)
		})
		files, err := filepath.Glob(filepath.Join(dir, b.Name, "trace.*.jsonl"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no recordings: %v", b.Name, err)
		}
		for _, file := range files {
			t.Run(b.Name+"/"+filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				replay(t, b, file)
			})
		}
	}
}

// solve runs the reference actions of each imported task: its checks must hold.
func solve(t *testing.T, b *tau2.Bundle) {
	t.Helper()
	env := engine.NewEnvironment(b.Domain)
	tasks, err := env.Tasks(t.Context(), 0, 0)
	if err != nil || len(tasks) != b.Tasks {
		t.Fatalf("%d tasks (%v), want %d", len(tasks), err, b.Tasks)
	}
	for _, task := range tasks {
		session, err := env.Open(t.Context(), audit.Start{Task: task.ID})
		if err != nil {
			t.Fatalf("%s: %v", task.ID, err)
		}
		for _, call := range task.Solution {
			if _, err := session.Call(t.Context(), call); err != nil { // a refused action is part of the data
				t.Fatalf("%s: %v", task.ID, err)
			}
		}
		result, err := session.(audit.Checker).Check(t.Context(), "")
		if err != nil || result.Passed != result.Checks {
			t.Errorf("%s: the reference actions pass %d of %d checks (%v): %v", task.ID, result.Passed, result.Checks, err, result.Failed)
		}
		_ = session.Close()
	}
	t.Logf("%d tasks solved by their reference actions", len(tasks))
}

func replay(t *testing.T, b *tau2.Bundle, file string) {
	t.Helper()
	recording, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer recording.Close()
	lines, disagreements, err := b.Replay(t.Context(), recording)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range disagreements {
		t.Error(d)
	}
	t.Logf("%d of %d lines reproduced", lines-len(disagreements), lines)
}
