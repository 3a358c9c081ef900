package eval_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/eval"
)

// A run that was cut short goes on: what is known is not played again, what was
// unknown and what a crash cut off is.
func TestResume(t *testing.T) {
	t.Parallel()
	dir, tasks := t.TempDir(), ownTasks(t, "retail-mini", 3)
	policy := gold()
	runner := eval.Runner{Rollout: envace.Rollout{Policy: policy, ReadAct: readAct}, Samples: 2, Seed: 1, Parallel: 1}
	book, err := eval.OpenBook(dir, runOf(tasks, 2))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []eval.Result{{Task: tasks[0].ID, Success: true, Score: 1, Stop: envace.StopDone}, {Task: tasks[1].ID, Unknown: "the server was away"}} {
		if err := book.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "b.jsonl")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"task":"` + tasks[2].ID); err != nil { // a crash in the middle of a line
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	f, results := playIn(t, dir, runner, tasks)
	if len(results) != 6 || f.Samples != 6 || f.Average.Value != 1 {
		t.Fatalf("%d results, %d known, %v", len(results), f.Samples, f.Average)
	}
	asked := policy.asked.Load()
	if _, again := playIn(t, dir, runner, tasks); len(again) != 6 || policy.asked.Load() != asked {
		t.Errorf("a complete run was played again")
	}
	other := runOf(tasks, 3)
	if _, err := eval.OpenBook(dir, other); audit.ErrorCode(err) != audit.CodeConflict || !contains(err.Error(), "samples was 2 and is 3") {
		t.Errorf("results of another run: %v", err)
	}
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := eval.OpenBook(dir, other); audit.ErrorCode(err) != audit.CodeInvalid || audit.ErrorHint(err) == "" {
		t.Errorf("a file of something else: %v", err)
	}
}

// Two evaluations in one folder would drop each other's results: the second is told
// to go elsewhere, until the first is done, even if it failed to open.
func TestOneEvaluationAFolder(t *testing.T) {
	t.Parallel()
	dir, run := t.TempDir(), eval.Run{Benchmark: "b", Samples: 1}
	first, err := eval.OpenBook(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Write(eval.Result{Task: "one"}); err != nil {
		t.Fatal(err)
	}
	_, err = eval.OpenBook(dir, run)
	if audit.ErrorCode(err) != audit.CodeConflict || !contains(err.Error(), filepath.Join(dir, "b.jsonl")) || !contains(audit.ErrorHint(err), "--out") {
		t.Errorf("a second evaluation: got %v, want a conflict that names the file and the way out", err)
	}
	other, err := eval.OpenBook(dir, eval.Run{Benchmark: "c"})
	if err != nil {
		t.Fatalf("another benchmark beside it: %v", err)
	}
	if err := errors.Join(first.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := eval.OpenBook(dir, eval.Run{Benchmark: "b", Samples: 2}); audit.ErrorCode(err) != audit.CodeConflict {
		t.Errorf("results of another run: %v", err)
	}
	again, err := eval.OpenBook(dir, run)
	if err != nil {
		t.Fatalf("after the first was closed: %v", err)
	}
	if !again.Has("one", 0) {
		t.Error("the first evaluation's result is gone")
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*.lock")); err != nil || len(names) > 0 {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

// After a line that was not written whole, as on a full disk, nothing follows: what was
// kept before can be read.
func TestNothingFollowsHalfALine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book, err := eval.OpenBook(dir, eval.Run{Benchmark: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := book.Write(eval.Result{Task: "one"}); err != nil {
		t.Fatal(err)
	}
	full, err := os.Open(os.DevNull) // only to be read
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	file := book.Swap(full)
	for try := range 2 {
		if err := book.Write(eval.Result{Task: "two"}); err == nil {
			t.Errorf("try %d: it says that a line was written", try)
		}
		book.Swap(file) // there is room again
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	if played, err := eval.ReadAll(dir); err != nil || len(played) != 1 || played[0].Figures.Samples != 1 {
		t.Errorf("read again: %+v, %v", played, err)
	}
}
