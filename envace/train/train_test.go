package train_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/audit/lockfile"
	"understudy/envace"
	"understudy/envace/tiny"
	"understudy/envace/train"
	"understudy/gpu"
	"understudy/gpu/host"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

// lesson is a training that takes a second: the tiny recipe with a smaller model,
// fewer tasks and fewer steps.
func lesson(t *testing.T) train.Config {
	t.Helper()
	r, err := train.ReadRecipe("tiny")
	if err != nil {
		t.Fatal(err)
	}
	r.Model.Layers, r.Model.Width, r.Model.Hidden, r.Model.Heads, r.Model.KVHeads, r.Model.Head = 1, 32, 64, 2, 1, 16
	r.Data.Train, r.Data.Heldout = 24, 8
	r.Rollout.Prompts, r.Rollout.Rollouts, r.Rollout.Turns = 4, 4, 3
	r.WarmStart.Steps, r.WarmStart.Every, r.WarmStart.Batch, r.WarmStart.Tasks, r.WarmStart.LearningRate = 160, 80, 16, 8, 1e-2
	r.Steps, r.Checkpoints.Every, r.Evaluation = 12, 2, train.Evaluation{Every: 2, Tasks: 6, Samples: 1, Canaries: 12}
	registry := sandbox.New(domains.FS())
	t.Cleanup(func() { _ = registry.Close() })
	c := train.Config{Recipe: r, Arm: train.ArmEnvACE, Seed: 3, Progress: func(line string) { t.Log(line) }}
	if c.Environment, err = registry.Environment(t.Context(), r.Environment); err != nil {
		t.Fatal(err)
	}
	if c.Train, err = c.Environment.(audit.Tasker).Tasks(t.Context(), r.Data.TrainSeed, r.Data.Train); err != nil {
		t.Fatal(err)
	}
	if c.Test, err = c.Environment.(audit.Tasker).Tasks(t.Context(), r.Data.HeldoutSeed, r.Data.Heldout); err != nil {
		t.Fatal(err)
	}
	if c.Rules, err = audit.NewRules(audit.RulesSpec{}, nil, nil); err != nil {
		t.Fatal(err)
	}
	tools, err := c.Environment.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	words, err := tiny.Learn(t.Context(), c.Environment, 1, 24)
	if err != nil {
		t.Fatal(err)
	}
	c.Format, c.Grader = tiny.Format{Vocabulary: words}, brief{tiny.Checklist{Tools: tools, Rules: c.Rules}}
	return c
}

// brief adds to a grade the less the more was said, so that a policy that solves
// nothing yet has something to learn.
type brief struct{ tiny.Checklist }

func (b brief) Grade(ctx context.Context, t *envace.Trajectory) (envace.Grade, error) {
	grade, err := b.Checklist.Grade(ctx, t)
	said := 0
	for _, o := range t.Outputs() {
		said += len(o.Tokens)
	}
	grade.Reward = (grade.Reward + 1/float64(1+said)) / 2
	return grade, err
}

func machine(out string) train.Runtime {
	return train.Runtime{Out: out, Device: func(mode gpu.Mode) (gpu.Device, error) { return host.New(host.Options{Mode: mode}) }}
}

// kept collects the metrics of steps, and apart those of evaluations.
type kept struct {
	steps []map[string]float64
	looks []map[string]float64
	fail  int // step before which writing fails; 0 = never
}

func (k *kept) Write(metrics []audit.Metric) error {
	step := map[string]float64{}
	for _, m := range metrics {
		step[m.Name+"/"+string(m.Role)] = m.Value
	}
	if _, look := step[train.MetricImagined+"/"]; look {
		k.looks = append(k.looks, step)
		return nil
	}
	if k.fail > 0 && len(k.steps) == k.fail-1 {
		return errKilled
	}
	k.steps = append(k.steps, step)
	return nil
}

func (*kept) Close() error { return nil }

var errKilled = errors.New("killed")

// weights is a digest of all that a checkpoint holds.
func weights(t *testing.T, folder string) [32]byte {
	t.Helper()
	h := sha256.New()
	files := map[string][]byte{}
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, folder)] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h.Write([]byte(name))
		h.Write(files[name])
	}
	return [32]byte(h.Sum(nil))
}

// The parts share one warm start, which is most of the time.
func TestTrainer(t *testing.T) {
	c, out := lesson(t), filepath.Join(t.TempDir(), "runs [1]*") // signs that patterns know
	t.Run("arms", func(t *testing.T) { testArms(t, c, out) })
	t.Run("evaluation", func(t *testing.T) { testEvaluationChangesNothing(t, c, out) })
	t.Run("trap 5", func(t *testing.T) { testTrap05ASecondUpdateIsClipped(t, c, out) })
	t.Run("grader", func(t *testing.T) { testTheGraderIsMeasured(t, c, out) })
	t.Run("doubt", func(t *testing.T) { testTooManyUnknownsStopTheRun(t, c, out) })
	t.Run("doubt of dropped groups", func(t *testing.T) { testUnknownsOfDroppedGroupsCount(t, c, out) })
	t.Run("evaluation of grpo-sandbox", func(t *testing.T) { testEvaluationOfTheSandboxArm(t, c, out) })
	t.Run("resume", func(t *testing.T) { testRunResumesBitForBit(t, c, out) })
}

// A run that is cut short and goes on, for ten steps, is the run that was not. On the way, traps 2 and
// 5 of facts/envace.md, section 6: the generator's log-probabilities are those of
// training, so that the first update's ratios are 1.
func testRunResumesBitForBit(t *testing.T, c train.Config, out string) {
	t.Helper()
	whole := &kept{}
	c.Sinks = []train.Sink{whole}
	if err := train.Run(t.Context(), c, machine(out)); err != nil {
		t.Fatal(err)
	}
	final := filepath.Join(train.Folder(out, c.Arm, c.Seed), "step-000012")
	want := weights(t, final)
	for i, step := range whole.steps {
		if step["ratio_gap/"] != 0 || step["ratio/"] != 1 || step["clip_fraction/"] != 0 {
			t.Errorf("step %d: ratio %v, gap %v, clipped %v: the generator's log-probabilities are those of training", i+1, step["ratio/"], step["ratio_gap/"], step["clip_fraction/"])
		}
		if step["length/act"] == 0 || step["length/rehearse"] == 0 || step["entropy/act"] == 0 {
			t.Errorf("step %d: %v", i+1, step)
		}
	}
	evaluations, err := train.ReadEvaluations(filepath.Join(train.Folder(out, c.Arm, c.Seed), "evaluations.jsonl"))
	if err != nil || len(evaluations) != 7 || evaluations[6].Step != 12 || len(evaluations[6].Tasks) != 6 {
		t.Errorf("evaluations %+v, %v", evaluations, err)
	}

	for i, look := range whole.looks { // trap 8 (a) and (d): with every checkpoint
		e := evaluations[i]
		fsr, tracked := look[train.MetricCanaryFSR+"/rehearse"]
		gap := e.Rate(func(x train.EvaluatedTask) int { return x.Imagined }) - e.Rate(func(x train.EvaluatedTask) int { return x.Executed })
		if f := e.Of(audit.Canary); !tracked || f == nil || fsr != f.Value(string(audit.FigureFSR)).Value || look[train.MetricGap+"/"] != gap {
			t.Errorf("evaluation %d: %v", i, look)
		}
	}
	if len(whole.looks) != 7 {
		t.Errorf("%d evaluations were written", len(whole.looks))
	}

	// The same again, killed in its third step, after the checkpoint of the second.
	if err := os.RemoveAll(train.Folder(out, c.Arm, c.Seed)); err != nil {
		t.Fatal(err)
	}
	c.Sinks = []train.Sink{&kept{fail: 3}}
	if err := train.Run(t.Context(), c, machine(out)); !errors.Is(err, errKilled) {
		t.Fatalf("the run ended with %v", err)
	}
	if err := os.MkdirAll(filepath.Join(train.Folder(out, c.Arm, c.Seed), ".step-000003.partial"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(train.Folder(out, c.Arm, c.Seed), "step-000019.bak"), 0o755); err != nil { // a copy is no checkpoint
		t.Fatal(err)
	}
	cut(t, filepath.Join(train.Folder(out, c.Arm, c.Seed), "evaluations.jsonl"))
	testOneTrainingAFolder(t, c, out)
	again := &kept{}
	c.Sinks = []train.Sink{again}
	if err := train.Run(t.Context(), c, machine(out)); err != nil {
		t.Fatal(err)
	}
	if got := weights(t, final); got != want {
		t.Error("the resumed run ends with other parameters, moments or draws")
	}
	if !slices.EqualFunc(again.steps, whole.steps[2:], maps.Equal) {
		t.Errorf("the resumed run's steps: %v\nthe whole run's: %v", again.steps, whole.steps[2:])
	}

	testDamagedCheckpoints(t, c, out, final)
	testStoppedInItsWarmStart(t, c, out)
	c.Recipe.Loss.ClipLow = .1
	if err := train.Run(t.Context(), c, machine(out)); audit.ErrorCode(err) != audit.CodeConflict {
		t.Errorf("another recipe in the same folder: %v", err)
	}
}

// cut leaves half a line at a file's end, as a program that was killed does.
func cut(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"step":4,"ta`...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func testStoppedInItsWarmStart(t *testing.T, c train.Config, out string) {
	t.Helper()
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errKilled)
	err := train.Run(ctx, c, machine(filepath.Join(out, "stopped")))
	if !errors.Is(err, errKilled) || !strings.Contains(err.Error(), "the same command goes on") || strings.Contains(err.Error(), "context canceled") {
		t.Errorf("stopped in its warm start: %v", err)
	}
}

func testDamagedCheckpoints(t *testing.T, c train.Config, out, final string) {
	t.Helper()
	for _, file := range []string{"policy/model.safetensors", "policy/config.json", "policy.optimizer.safetensors", "state.json"} {
		path := filepath.Join(final, file)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, broken := range []string{"", "{}", string(whole[:len(whole)/2])} {
			if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
				t.Fatal(err)
			}
			err := train.Run(t.Context(), c, machine(out))
			if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), final) || !strings.Contains(audit.ErrorHint(err), "delete") {
				t.Errorf("%s holds %.9q: %v", file, broken, err)
			}
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func testOneTrainingAFolder(t *testing.T, c train.Config, out string) {
	t.Helper()
	for _, held := range []string{filepath.Join(train.Folder(out, c.Arm, c.Seed), "run.lock"), filepath.Join(out, fmt.Sprintf("warm-s%d.lock", c.Seed))} {
		lock, err := lockfile.Acquire(held)
		if err != nil {
			t.Fatal(err)
		}
		err = train.Run(t.Context(), c, machine(out))
		if audit.ErrorCode(err) != audit.CodeConflict || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
			t.Errorf("a second training beside %s: %v", filepath.Base(held), err)
		}
		if err := lock.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}

func testEvaluationChangesNothing(t *testing.T, c train.Config, out string) {
	t.Helper()
	run := func(looks int) [32]byte {
		trainer, err := train.Open(t.Context(), c, machine(out))
		if err != nil {
			t.Fatal(err)
		}
		for range looks {
			if _, err := trainer.Evaluate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := trainer.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		if err := errors.Join(trainer.Save(folder), trainer.Close()); err != nil {
			t.Fatal(err)
		}
		return weights(t, folder)
	}
	if run(0) != run(2) {
		t.Error("a step after two evaluations is another one than without")
	}
}

// Trap 5 of facts/envace.md, section 6: the first update of a batch clips nothing, the
// second one does.
func testTrap05ASecondUpdateIsClipped(t *testing.T, c train.Config, out string) {
	t.Helper()
	trainer, err := train.Open(t.Context(), c, machine(out))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trainer.Close() }()
	trainer.Recipe.Loss.Updates, trainer.Recipe.Loss.ClipLow, trainer.Recipe.Loss.ClipHigh = 2, 1e-7, 1e-7
	metrics, err := trainer.Step(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := &kept{}
	if err := seen.Write(metrics); err != nil {
		t.Fatal(err)
	}
	if step := seen.steps[0]; !(step["clip_fraction/"] > 0) || step["ratio_gap/"] == 0 {
		t.Errorf("two updates: clipped %v, gap %v, both means over updates of which the first has 0", step["clip_fraction/"], step["ratio_gap/"])
	}
}
