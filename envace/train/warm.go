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
	"understudy/envace"
	"understudy/envace/tiny"
	"understudy/gpu"
)

// warm is what a warm start leaves beside the parameters.
type warm struct {
	Steps   int     `json:"steps"`
	Success float64 `json:"success"` // executed, on tasks of the training set
	Loss    float64 `json:"loss"`
	Recipe  string  `json:"recipe"`
}

const warmFile = "warm.json"

// Warm distils the sandbox's answers and the reference solutions into a random
// model until it solves as many tasks as the recipe says, and saves it in folder.
// It is shared by all arms of a seed; one that is there already is used.
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
		return nil
	}
	format, ok := c.Format.(tiny.Format)
	if !ok {
		return errors.New("a warm start is for the tiny format: other models come trained")
	}
	w := c.Recipe.WarmStart
	model, err := gpu.NewRandom(device, c.Recipe.Model.config(format.Vocabulary.Size()), c.Seed)
	if err != nil {
		return err
	}
	how := c.learning()
	how.optimizer = gpu.DefaultAdamW(w.LearningRate)
	how.optimizer.Warmup, how.optimizer.Total, how.optimizer.MinLR, how.optimizer.Clip = w.Steps/50, w.Steps, w.LearningRate/20, 1
	l, err := newLearner(audit.WholePolicy, model, nil, how)
	if err != nil {
		return err
	}
	t, err := newTrainer(ctx, c, []*learner{l})
	if err != nil {
		return errors.Join(err, l.close())
	}
	result, err := t.distil(ctx, format)
	if err == nil {
		result.Recipe = digest.String()
		err = atomically(folder, func(partial string) error {
			return errors.Join(model.Save(filepath.Join(partial, setName(audit.WholePolicy)), gpu.F32),
				format.Vocabulary.Save(filepath.Join(partial, wordsFile)), writeJSON(filepath.Join(partial, warmFile), result))
		})
	}
	return errors.Join(err, t.Close())
}

const wordsFile = "words.json"

// distil trains on demonstrations, looking now and then at how many tasks are
// solved in the sandbox.
func (t *Trainer) distil(ctx context.Context, format tiny.Format) (warm, error) {
	w, result := t.Recipe.WarmStart, warm{}
	d := newDemonstrator(format, t.Config, t.rollout.Tools)
	for result.Steps < w.Steps {
		rows, err := t.demonstrations(ctx, d, result.Steps)
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
		if result.Steps%w.Every != 0 {
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
// as it will in training.
func (t *Trainer) solved(ctx context.Context, n int) (float64, error) {
	n = min(n, len(t.Train))
	done := make([]bool, n)
	group, ctx := errgroup.WithContext(ctx)
	rollout := t.rollout
	rollout.Source = envace.Executing{Environment: t.Environment}
	for i := range done {
		group.Go(func() error {
			trajectory, err := rollout.Run(ctx, t.Train[len(t.Train)-1-i], t.derive("warm", i, 0))
			if err != nil {
				return err
			}
			done[i] = trajectory.Check != nil && trajectory.Check.Success()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("look at the warm start: %w", err)
	}
	solved := 0.0
	for _, d := range done {
		solved += truth(d)
	}
	return solved / float64(n), nil
}
