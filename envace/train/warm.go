package train

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/audit/atomicfile"
	"understudy/envace"
	"understudy/envace/chat"
	"understudy/envace/tiny"
	"understudy/gpu"
)

// warm is what a warm start leaves beside the parameters.
type warm struct {
	Steps   int     `json:"steps"`
	Success float64 `json:"success"` // executed, on tasks of the training set
	Loss    float64 `json:"loss"`
	Recipe  string  `json:"recipe"`
	// Rules are those that answers were read by, where somebody wrote some.
	Rules audit.Digest `json:"rules,omitzero"`
}

const warmFile = "warm.json"

// Warm distils the sandbox's answers and the reference solutions into a random
// model until it solves as many tasks as the recipe says, or recorded conversations
// into the recipe's model for so many steps, and saves it in folder. It is shared by
// all arms of a seed; one that is there already is used.
func Warm(ctx context.Context, c Config, device gpu.Device, folder string) error {
	digest, err := c.Recipe.Digest()
	if err != nil {
		return err
	}
	var found warm
	if readJSON(filepath.Join(folder, warmFile), &found) == nil {
		if found.Recipe != digest.String() {
			return &audit.Error{Code: audit.CodeConflict, Message: folder + " is the warm start of another recipe", Hint: "give another --out folder, or delete this one"}
		}
		return c.sameRules(folder, found.Rules)
	}
	w := c.Recipe.WarmStart
	format, isTiny := c.Format.(tiny.Format)
	model, err := c.beginner(device)
	if err != nil {
		return err
	}
	how := c.learning()
	how.optimizer = gpu.DefaultAdamW(w.LearningRate)
	how.optimizer.Moments = c.Recipe.moments()
	how.optimizer.Warmup, how.optimizer.Total, how.optimizer.MinLR, how.optimizer.Clip = w.Steps/50, w.Steps, w.LearningRate/20, 1
	l, err := newLearner(audit.WholePolicy, model, nil, how)
	if err != nil {
		return err
	}
	c.Arm = ArmBase // whose world needs nothing
	t, err := newTrainer(ctx, c, []*learner{l})
	if err != nil {
		return errors.Join(err, l.close())
	}
	result, err := t.distil(ctx)
	if err == nil {
		result.Recipe, result.Rules = digest.String(), c.Rules.Written()
		err = atomicfile.Folder(folder, func(partial string) error {
			err := errors.Join(model.Save(filepath.Join(partial, setName(audit.WholePolicy)), warmType), writeJSON(filepath.Join(partial, warmFile), result))
			if isTiny {
				err = errors.Join(err, format.Vocabulary.Save(filepath.Join(partial, wordsFile)))
			}
			return err
		})
	}
	return errors.Join(err, t.Close())
}

const wordsFile = "words.json"

// beginner is the model before its warm start: of random parameters in the tiny
// format, else the one that the recipe names.
func (c Config) beginner(device gpu.Device) (*gpu.Model, error) {
	if f, ok := c.Format.(tiny.Format); ok {
		return gpu.NewRandom(device, c.Recipe.Model.config(f.Vocabulary.Size()), c.Seed)
	}
	return gpu.Load(device, c.Recipe.Model.Dir, gpu.LoadConfig{Trainable: true})
}

// distil trains on demonstrations, looking now and then at how many tasks are
// solved in the sandbox.
func (t *Trainer) distil(ctx context.Context) (warm, error) {
	w, result := t.Recipe.WarmStart, warm{}
	demonstrate, err := t.demonstrator()
	if err != nil {
		return result, err
	}
	for result.Steps < w.Steps {
		rows, err := demonstrate(ctx, result.Steps)
		if err != nil {
			return result, err
		}
		micros, err := pack(rows, t.Recipe.MicroTokens, 1, func(int) bool { return true })
		if err != nil {
			return result, err
		}
		if result.Loss, err = t.learners[0].imitate(micros); err != nil {
			return result, fmt.Errorf("warm start, step %d: %w", result.Steps+1, err)
		}
		result.Steps++
		if result.Loss < w.Loss {
			break
		}
		if w.Every == 0 || result.Steps%w.Every != 0 {
			continue
		}
		if w.Tasks == 0 {
			t.Progress(fmt.Sprintf("warm start, step %d: loss %.3f", result.Steps, result.Loss))
			continue
		}
		if result.Success, err = t.solved(ctx, w.Tasks); err != nil {
			return result, err
		}
		t.Progress(fmt.Sprintf("warm start, step %d: loss %.3f, %.0f %% of %d tasks solved", result.Steps, result.Loss, 100*result.Success, w.Tasks))
		if result.Success >= w.Until {
			break
		}
	}
	return result, nil
}

// demonstrator makes the rows of a step of the warm start.
func (t *Trainer) demonstrator() (func(ctx context.Context, number int) ([]row, error), error) {
	switch f := t.Format.(type) {
	case tiny.Format:
		d := newDemonstrator(f, t.Config, t.rollout.Tools)
		return func(ctx context.Context, number int) ([]row, error) { return t.demonstrations(ctx, d, number) }, nil
	case *chat.Format:
		return func(_ context.Context, number int) ([]row, error) { return t.imitations(f, number) }, nil
	}
	return nil, fmt.Errorf("no warm start is known for %T", t.Format)
}

// demonstrations are a step's rows, made side by side.
func (t *Trainer) demonstrations(ctx context.Context, d *demonstrator, number int) ([]row, error) {
	rows := make([]row, t.Recipe.WarmStart.Batch)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range rows {
		group.Go(func() error {
			draw := number*len(rows) + i
			random := rand.New(rand.NewPCG(t.derive("demonstration", draw, 0), 0)) //nolint:gosec // reproducible draws
			var err error
			rows[i], err = d.row(ctx, t.Train[t.draw(draw)], random)
			return err
		})
	}
	return rows, group.Wait()
}

// solved is the share of n training tasks that ACT solves in the sandbox, sampling
// as it will in training; those whose world fails do not count.
func (t *Trainer) solved(ctx context.Context, n int) (float64, error) {
	n = min(n, len(t.Train))
	checks := make([]*audit.CheckResult, n)
	group, ctx := errgroup.WithContext(ctx)
	for i := range checks {
		group.Go(func() error {
			rollout := t.rolloutOf(t.Train[len(t.Train)-1-i])
			rollout.Source = envace.Executing{Environment: t.Environment}
			trajectory, err := rollout.Run(ctx, t.Train[len(t.Train)-1-i], t.derive("warm", i, 0))
			if err != nil {
				return err
			}
			checks[i] = trajectory.Check
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("look at the warm start: %w", err)
	}
	var solved mean
	for _, check := range checks {
		if check != nil {
			solved.sum, solved.n = solved.sum+truth(check.Success()), solved.n+1
		}
	}
	return solved.sum / max(solved.n, 1), nil
}
