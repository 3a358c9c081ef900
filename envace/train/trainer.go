package train

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/grpo"
	"understudy/envace/local"
)

// Config is what a training needs beside its recipe.
type Config struct {
	Recipe Recipe
	Arm    Arm
	Seed   uint64

	Environment audit.Environment // evaluation executes in it, if there is one; only some arms train in it
	Format      envace.Format
	Source      envace.Source // of grpo-simulator and grpo-recorded
	Grader      envace.Grader // of the training's rollouts
	Imagined    envace.Grader // of an evaluation's rehearsed rollouts; nil = Grader
	Scorer      audit.Scorer  // pays fidelity; only envace+calibration asks it
	Rules       *audit.Rules  // by which answers are read and compared
	Train, Test []audit.Task
	Scenes      map[string]Scene // by task; those of an environment have none
	// Conversations are what a warm start in the chat format imitates, by task.
	Conversations map[string][]envace.Item
	Sinks         []Sink
	KVMemory      int64             // bytes for keys and values of rollouts; 0 = what the generator takes by itself
	Progress      func(line string) // nil = silent
	// Farm has workers on other machines do the rollouts; nil = they are done here. The
	// trajectories are the same, bit for bit, in exact mode.
	Farm Farm
}

// Trainer is a training at one of its steps. It is used by one goroutine.
type Trainer struct {
	Config
	learners []*learner
	policy   envace.Policy
	rollout  envace.Rollout
	doubt    doubt
	step     int   // done so far
	cursor   int   // tasks drawn so far
	away     *away // nil: rollouts are done here
}

// newTrainer makes a training of parameter sets that the caller loaded; they are
// closed with the trainer. learners come from the warm start or from a checkpoint.
func newTrainer(ctx context.Context, c Config, learners []*learner) (*Trainer, error) {
	t, err := playing(ctx, c, &local.Policy{Format: c.Format, Temperature: c.Recipe.Rollout.Temperature, Engines: engines(learners)})
	if err != nil {
		return nil, err
	}
	t.learners = learners
	if c.Farm != nil {
		t.away = &away{farm: c.Farm}
	}
	t.rollout.Source, err = t.source()
	return t, err
}

// playing is a trainer without parameter sets of its own, which only says how the
// policy rolls out tasks; in which world is left to the caller.
func playing(ctx context.Context, c Config, policy envace.Policy) (*Trainer, error) {
	t := &Trainer{Config: c, policy: policy}
	if t.Progress == nil {
		t.Progress = func(string) {}
	}
	t.rollout = envace.Rollout{
		Policy: t.policy, ReadAct: c.Format.ReadAct, Limits: c.Recipe.limits(), Errors: c.Recipe.Rollout.Errors, Rules: c.Rules,
	}
	if c.Environment != nil {
		tools, err := c.Environment.Tools(ctx)
		if err != nil {
			return nil, fmt.Errorf("list the tools: %w", err)
		}
		t.rollout.Told, t.rollout.Tools = c.Environment.Info().Policy, tools
	}
	return t, nil
}

// lacks says what the arm's world needs and is not there, before anything is loaded.
func (c Config) lacks() error {
	missing := func(what, hint string) error {
		return &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("arm %s has no %s", c.Arm, what), Hint: hint}
	}
	switch {
	case c.Arm == ArmCalibrated && c.Environment == nil:
		return missing("environment to compare rehearsals with", "train in a recipe with an environment, or take the arm envace")
	case c.Arm == ArmSandbox && c.Environment == nil:
		return missing("environment to act in", "train in a recipe with an environment")
	case c.Arm == ArmSimulator && c.Source == nil:
		return missing("simulator", "give the URL of the server whose model answers calls: --policy URL")
	case c.Arm == ArmRecorded && c.Source == nil:
		return missing("recordings", "train on tasks whose calls are recorded: the conversations of --data, or the solutions of an environment's tasks")
	}
	return nil
}

// source is the world in which the arm's rollouts happen.
func (t *Trainer) source() (envace.Source, error) {
	if err := t.lacks(); err != nil {
		return nil, err
	}
	switch t.Arm {
	case ArmSandbox:
		return envace.Executing{Environment: t.Environment}, nil
	case ArmSimulator, ArmRecorded:
		return t.Source, nil
	case ArmBase, ArmEnvACE, ArmPerRole, ArmCalibrated, ArmFrozenRole, ArmFrozenActor:
	}
	return t.rehearsing(false), nil
}

func (t *Trainer) rehearsing(greedy bool) envace.Rehearsing {
	return envace.Rehearsing{Policy: t.policy, Read: t.Format.ReadRehearsal, Max: t.Recipe.Rollout.ResponseTokens, Greedy: greedy}
}

// Step does one training step and returns its metrics. After an error the trainer is
// only to be closed: the draws of the step are lost, and some parameter sets may have
// moved while others have not. A run goes on from its last checkpoint.
func (t *Trainer) Step(ctx context.Context) ([]audit.Metric, error) {
	var m meter
	groups, err := t.sample(ctx, &m)
	if err != nil {
		return nil, fmt.Errorf("step %d: %w", t.step+1, err)
	}
	if err := t.checkGrader(ctx, groups, &m); err != nil {
		return nil, fmt.Errorf("step %d: %w", t.step+1, err)
	}
	b := t.collect(groups, &m)
	if err := t.calibrate(ctx, b, &m); err != nil {
		return nil, fmt.Errorf("step %d: %w", t.step+1, err)
	}
	if err := t.learn(b, &m); err != nil {
		return nil, fmt.Errorf("step %d: %w", t.step+1, err)
	}
	t.step++
	return m.metrics(int64(t.step)), nil
}

// rolled is one rollout with its grade.
type rolled struct {
	trajectory *envace.Trajectory
	grade      envace.Grade
	prompt     string // the group: a draw of a task, not the task
}

// sample rolls out the step's prompts and, with dynamic sampling, new ones for
// those whose rollouts all earned the same. Rollouts without a grade are counted in
// those that are dropped, too.
func (t *Trainer) sample(ctx context.Context, m *meter) ([][]rolled, error) {
	var kept [][]rolled
	missing, again := t.Recipe.Rollout.Prompts, t.Recipe.Rollout.DynamicSampling
	for missing > 0 {
		groups, err := t.rollGroups(ctx, missing)
		if err == nil {
			err = t.doubt.add(groups, t.Recipe.Reward.MaxUnknown)
		}
		if err != nil {
			return nil, err
		}
		missing = 0
		for _, group := range groups {
			m.rolled(group)
			if again > 0 && !differ(group) {
				missing++
				continue
			}
			kept = append(kept, group)
		}
		again--
	}
	return kept, nil
}

// differ says whether a group's rewards are not all the same; one that is not known
// teaches nothing.
func differ(group []rolled) bool {
	first := -1
	for i, r := range group {
		switch {
		case r.grade.Unknown:
		case first < 0:
			first = i
		case r.grade.Reward != group[first].grade.Reward:
			return true
		}
	}
	return false
}

// rollGroups draws n tasks and rolls each out as often as the recipe says, all at once.
func (t *Trainer) rollGroups(ctx context.Context, n int) ([][]rolled, error) {
	if t.away != nil {
		return t.rollAway(ctx, n)
	}
	groups := make([][]rolled, n)
	group, ctx := errgroup.WithContext(ctx)
	for i := range groups {
		draw := t.cursor
		t.cursor++
		task := t.Train[t.draw(draw)]
		groups[i] = make([]rolled, t.Recipe.Rollout.Rollouts)
		for k := range groups[i] {
			group.Go(func() error {
				trajectory, err := t.rolloutOf(task).Run(ctx, task, t.derive("rollout", draw, k))
				if err != nil {
					return err
				}
				grade, err := t.Grader.Grade(ctx, trajectory)
				groups[i][k] = rolled{trajectory, grade, fmt.Sprintf("%d/%s", draw, task.ID)}
				return err
			})
		}
	}
	return groups, group.Wait()
}

// draw is the task of the n-th draw: each epoch is a permutation of its own.
func (t *Trainer) draw(n int) int {
	epoch, at := n/len(t.Train), n%len(t.Train)
	return rand.New(rand.NewPCG(t.derive("epoch", epoch, 0), 0)).Perm(len(t.Train))[at] //nolint:gosec // reproducible draws
}

// derive is the seed of one draw of the run: of its purpose and numbers alone.
func (t *Trainer) derive(purpose string, a, b int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s/%d/%d", t.Seed, purpose, a, b)
	return h.Sum64()
}

// collected are the outputs of a step, in one numbering.
type collected struct {
	rolled  []rolled
	first   []int // of each rollout: its first output
	outputs []*envace.Output
	graded  []grpo.Output // beside outputs
	rows    []row         // outputs that answered a call
}

// collect numbers the outputs of all rollouts.
func (t *Trainer) collect(groups [][]rolled, m *meter) *collected {
	b := &collected{}
	for _, group := range groups {
		for k, r := range group {
			outputs := r.trajectory.Outputs()
			b.rolled = append(b.rolled, r)
			b.first = append(b.first, len(b.outputs))
			b.rows = append(b.rows, rowsOf(outputs, len(b.outputs))...)
			for step, o := range outputs {
				m.output(o)
				b.outputs = append(b.outputs, o)
				b.graded = append(b.graded, grpo.Output{
					Prompt: r.prompt, Rollout: k, Role: string(o.Role), Step: step, Reward: r.grade.Reward,
					Excluded: r.grade.Unknown || o.Truncated && t.Recipe.Rollout.MaskOverlong,
				})
			}
		}
	}
	return b
}

// learn forms the advantages and moves every parameter set.
func (t *Trainer) learn(b *collected, m *meter) error {
	advantages, err := grpo.Advantages(b.graded, grpo.Baseline{Weighting: t.Recipe.Baseline.Weighting, DivideByStd: t.Recipe.Baseline.DivideByStd})
	if err != nil {
		return err
	}
	for _, l := range t.learners {
		keep := func(i int) bool {
			role := b.outputs[i].Role
			return !b.graded[i].Excluded && l.plays(role) && t.Arm.trains(role)
		}
		micros, err := pack(b.rows, t.Recipe.MicroTokens, t.Recipe.Rollout.Temperature, keep)
		if err != nil {
			return err
		}
		batch := l.newBatch(micros, b.outputs, advantages, t.Recipe.loss())
		for range t.Recipe.Loss.Updates {
			seen, err := l.update(batch)
			if err != nil {
				return err
			}
			m.learned(seen)
		}
	}
	return nil
}

// Close frees the parameter sets.
func (t *Trainer) Close() error {
	var errs []error
	for _, l := range t.learners {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
