package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"understudy/audit"
	"understudy/audit/lockfile"
	"understudy/envace/chat"
	"understudy/envace/tiny"
	"understudy/gpu"
	"understudy/gpu/generate"
)

// evaluationsFile holds one Evaluated a line, the last at the last step.
const evaluationsFile = "evaluations.jsonl"

// Folder is where the run of an arm and seed keeps its files.
func Folder(out string, arm Arm, seed uint64) string {
	return filepath.Join(out, fmt.Sprintf("%s-s%d", arm, seed))
}

// Run trains one arm with one seed to its end, from its last checkpoint where there
// is one, evaluates on the way, and writes its metrics into its folder beside the
// given sinks. A cancelled context ends it in the middle of a step, too; the same
// call goes on from the last checkpoint.
func Run(ctx context.Context, c Config, r Runtime) (err error) {
	folder := Folder(r.Out, c.Arm, c.Seed)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("make the folder of the run: %w", err)
	}
	lock, err := claim(filepath.Join(folder, "run.lock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Remove()) }()
	t, err := Open(ctx, c, r)
	if err != nil {
		return stopped(ctx, err)
	}
	lines, err := Lines(folder, t.step)
	if err != nil {
		return errors.Join(err, t.Close())
	}
	events, err := Events(folder, time.Now)
	if err != nil {
		return errors.Join(err, lines.Close(), t.Close())
	}
	t.Sinks = append(slices.Clip(t.Sinks), lines, events)
	return errors.Join(stopped(ctx, t.run(ctx, folder)), lines.Close(), events.Close(), t.Close())
}

// stopped says why a run ended whose context did, instead of what that broke, which
// may have an error of its own, such as a sandbox's. A disk that is full is not that.
func stopped(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || audit.ErrorCode(err) == audit.CodeInfrastructure {
		return err
	}
	return fmt.Errorf("%w: the same command goes on from the last checkpoint, or begins its warm start again", context.Cause(ctx))
}

// claim keeps a second program out of what this one is writing.
func claim(path string) (*lockfile.Lock, error) {
	lock, err := lockfile.Acquire(path)
	if held, ok := errors.AsType[*lockfile.HeldError](err); ok {
		return nil, &audit.Error{
			Code: audit.CodeConflict, Message: strings.TrimSuffix(path, filepath.Ext(path)) + " is being written by another training", Err: held,
			Hint: "wait for that process or stop it, or give another --out folder",
		}
	}
	return lock, err
}

// Open loads a run at its last checkpoint, or at its warm start.
func Open(ctx context.Context, c Config, r Runtime) (*Trainer, error) {
	if err := c.lacks(); err != nil {
		return nil, err
	}
	digest, err := c.Recipe.Digest()
	if err != nil {
		return nil, err
	}
	start, err := startOf(ctx, c, r)
	if err != nil {
		return nil, err
	}
	path, at, err := latest(Folder(r.Out, c.Arm, c.Seed), state{Recipe: digest.String(), Arm: c.Arm, Seed: c.Seed})
	if err != nil {
		return nil, err
	}
	from := func(set audit.PolicyRole) string { return filepath.Join(path, setName(set)) }
	if path != "" {
		if err := c.sameRules(path, at.Rules); err != nil {
			return nil, err
		}
	} else {
		from = func(audit.PolicyRole) string { return start }
	}
	var learners []*learner
	undo := func(err error) error {
		for _, l := range learners {
			err = errors.Join(err, l.close())
		}
		return err
	}
	for _, set := range c.Arm.sets() {
		device, err := r.open(c.Recipe)
		if err != nil {
			return nil, undo(err)
		}
		l, err := c.load(device, set, from(set), start)
		if err != nil {
			done(device)
			return nil, undo(err)
		}
		learners = append(learners, l)
	}
	t, err := newTrainer(ctx, c, learners)
	if err != nil {
		return nil, undo(err)
	}
	if path != "" {
		if err := t.restore(path, at); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	return t, nil
}

// startOf is the folder of the model that every arm of the seed starts from. It is
// made when it is not there yet.
func startOf(ctx context.Context, c Config, r Runtime) (start string, err error) {
	folder, warm := c.start(r.Out)
	if !warm {
		return folder, nil
	}
	if err := os.MkdirAll(r.Out, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of the runs: %w", err)
	}
	lock, err := claim(folder + ".lock") // arms of a seed share it
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Remove()) }()
	device, err := r.open(c.Recipe)
	if err != nil {
		return "", err
	}
	defer done(device)
	return filepath.Join(folder, setName(audit.WholePolicy)), Warm(ctx, c, device, folder)
}

// start is the folder of the recipe's model, or of the warm start that it gets.
func (c Config) start(out string) (folder string, warm bool) {
	if c.Recipe.Model.Dir != "" && c.Recipe.WarmStart.Steps == 0 {
		return c.Recipe.Model.Dir, false
	}
	return warmFolder(out, c.Seed), true
}

// warmFolder is where the warm start that all arms of a seed share is kept.
func warmFolder(out string, seed uint64) string {
	return filepath.Join(out, fmt.Sprintf("warm-s%d", seed))
}

// load makes a learner of the parameters in a folder. The reference policy of the
// KL term is where the run began, also when it is resumed.
func (c Config) load(device gpu.Device, set audit.PolicyRole, folder, start string) (*learner, error) {
	model, err := gpu.Load(device, folder, gpu.LoadConfig{Trainable: true})
	if err != nil {
		return nil, damaged(filepath.Dir(folder), err)
	}
	var reference *gpu.Model
	if c.Recipe.Loss.KL != 0 {
		if reference, err = gpu.Load(device, start, gpu.LoadConfig{}); err != nil {
			return nil, errors.Join(damaged(filepath.Dir(start), err), model.Close())
		}
	}
	return newLearner(set, model, reference, c.learning())
}

// learning is how the recipe's parameter sets are generated with and trained.
func (c Config) learning() learning {
	var end []int32
	switch f := c.Format.(type) {
	case tiny.Format:
		end = []int32{f.Vocabulary.End()}
	case *chat.Format:
		end = f.End()
	}
	return learning{
		generator: generate.Config{Batch: 64, Prefill: 1024, Context: c.Recipe.longestRow(), End: end, Memory: c.KVMemory},
		trainer:   gpu.TrainerConfig{Tokens: c.Recipe.MicroTokens, Expanded: c.Recipe.MicroTokens, Checkpoint: c.Recipe.GradientCheckpoints},
		optimizer: c.Recipe.adamW(c.Recipe.Optimizer.LearningRate),
	}
}

func (t *Trainer) run(ctx context.Context, folder string) error {
	evaluations, err := earlier(filepath.Join(folder, evaluationsFile), t.step)
	if err != nil {
		return err
	}
	for _, e := range evaluations {
		if err := t.sameRules(fmt.Sprintf("the evaluation of step %d in %s", e.Step, folder), e.Rules); err != nil {
			return err
		}
	}
	steps := t.Recipe.Steps
	if t.Arm == ArmBase {
		steps = 0
	}
	started, first := time.Now(), t.step
	for {
		if n := len(evaluations); t.due(steps) && (n == 0 || evaluations[n-1].Step < t.step) {
			e, err := t.Evaluate(ctx)
			if err != nil {
				return err
			}
			evaluations = append(evaluations, e)
			if err := appendLine(filepath.Join(folder, evaluationsFile), e); err != nil {
				return err
			}
			t.Progress(t.evaluatedLine(e))
			if err := t.write(e.metrics()); err != nil {
				return err
			}
			if line := rising(evaluations); line != "" {
				t.Progress(line)
			}
		}
		if t.step >= steps {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		metrics, err := t.Step(ctx)
		if err != nil {
			return err
		}
		if err := t.write(metrics); err != nil {
			return err
		}
		t.Progress(t.stepLine(metrics, steps, time.Since(started)/time.Duration(t.step-first)))
		if t.step%t.Recipe.Checkpoints.Every == 0 || t.step == steps {
			if err := t.Save(folder); err != nil {
				return err
			}
		}
	}
}

func (t *Trainer) write(metrics []audit.Metric) error {
	for _, sink := range t.Sinks {
		if err := sink.Write(metrics); err != nil {
			return err
		}
	}
	return nil
}

// due says whether the step is one at which the run is evaluated.
func (t *Trainer) due(steps int) bool {
	return t.step == steps || t.Recipe.Evaluation.Every > 0 && t.step%t.Recipe.Evaluation.Every == 0
}

func (t *Trainer) stepLine(metrics []audit.Metric, steps int, each time.Duration) string {
	value := func(name string, role audit.PolicyRole) float64 {
		for _, m := range metrics {
			if m.Name == name && m.Role == role {
				return m.Value
			}
		}
		return 0
	}
	line := fmt.Sprintf("%s s%d  step %d/%d  reward %.3f  %.0f tokens/s  %s left", t.Arm, t.Seed, t.step, steps,
		value(audit.MetricReward, audit.WholePolicy), value(metricTokens, audit.WholePolicy)/each.Seconds(), (each * time.Duration(steps-t.step)).Round(time.Second))
	if t.Arm == ArmCalibrated {
		line += fmt.Sprintf("  φ %.3f  FSR %.2f", value(audit.MetricFidelity, audit.RehearseRole), value(audit.MetricFSR, audit.RehearseRole))
	}
	return line
}

func appendLine(path string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}
