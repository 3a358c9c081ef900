package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/envace"
)

// Evaluated is what an evaluation found. It changes nothing: neither parameters nor
// the draws of later steps.
type Evaluated struct {
	Step int `json:"step"`
	// Tasks are the held-out tasks, each with its samples.
	Tasks []EvaluatedTask `json:"tasks"`
	// Figures are of each tool and of audit.AllTools, by mode: canaries, and the
	// solutions' calls in forced mode.
	Figures []audit.Figures `json:"figures"`
	Tokens  int             `json:"tokens"` // sampled
	// Unexecuted says that there is no environment: what would have become of the
	// rollouts is not known, and Real and Executed of tasks say nothing.
	Unexecuted bool `json:"unexecuted,omitempty"`
	// Rules are those that answers were read and compared by, where somebody wrote some.
	Rules audit.Digest `json:"rules,omitzero"`
}

// Of is a mode's figures over all tools; nil when nothing of it was audited.
func (e Evaluated) Of(mode audit.Mode) *audit.Figures {
	for i := range e.Figures {
		if f := &e.Figures[i]; f.Mode == mode && f.Tool == audit.AllTools {
			return f
		}
	}
	return nil
}

// EvaluatedTask counts one task's samples.
type EvaluatedTask struct {
	Task     string `json:"task"`
	Samples  int    `json:"samples"`
	Real     int    `json:"real"`              // solved, acting in the sandbox
	Imagined int    `json:"imagined"`          // graded a success in the rehearsed world
	Executed int    `json:"executed"`          // of the same rollouts: solved when their calls are executed
	Unknown  int    `json:"unknown,omitempty"` // samples beside these that could not be graded
}

// Rate is the mean of a count over all samples: Avg@Samples.
func (e Evaluated) Rate(count func(EvaluatedTask) int) float64 {
	sum, samples := 0, 0
	for _, t := range e.Tasks {
		sum, samples = sum+count(t), samples+t.Samples
	}
	if samples == 0 {
		return 0
	}
	return float64(sum) / float64(samples)
}

// Evaluate rolls the held-out tasks out in the sandbox and in imagination, and
// audits REHEARSE on canaries and on the solutions' calls. Without an environment
// there is imagination alone.
func (t *Trainer) Evaluate(ctx context.Context) (Evaluated, error) {
	e := Evaluated{Step: t.step, Unexecuted: t.Environment == nil, Rules: t.Rules.Written()}
	tasks := t.Test[:min(len(t.Test), t.Recipe.Evaluation.Tasks)]
	e.Tasks = make([]EvaluatedTask, len(tasks))
	tokens := make([]int, len(tasks))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, task := range tasks {
		group.Go(func() error {
			var err error
			e.Tasks[i], tokens[i], err = t.evaluateTask(groupCtx, task, i)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return e, fmt.Errorf("evaluate: %w", err)
	}
	for _, n := range tokens {
		e.Tokens += n
	}
	if t.Environment == nil {
		return e, nil
	}
	var err error
	e.Figures, err = t.audit(ctx, tasks)
	return e, err
}

func (t *Trainer) evaluateTask(ctx context.Context, task audit.Task, number int) (EvaluatedTask, int, error) {
	samples := max(t.Recipe.Evaluation.Samples, 1)
	e := EvaluatedTask{Task: task.ID}
	tokens := 0
	for sample := range samples {
		rollout := t.rolloutOf(task)
		rollout.Greedy = samples == 1
		n, err := t.evaluateSample(ctx, rollout, task, t.derive("evaluate", number, sample), &e)
		tokens += n
		if err != nil {
			return e, tokens, err
		}
	}
	return e, tokens, nil
}

// evaluateSample rolls a task out in the sandbox, if there is one, and in
// imagination. One that cannot be graded, as its world or the judge failed, leaves the
// evaluation: it is no failure.
func (t *Trainer) evaluateSample(ctx context.Context, rollout envace.Rollout, task audit.Task, seed uint64, e *EvaluatedTask) (tokens int, err error) {
	solved, executed := false, false
	if t.Environment != nil {
		rollout.Source = envace.Executing{Environment: t.Environment}
		acted, err := rollout.Run(ctx, task, seed)
		if err != nil {
			return 0, err
		}
		tokens += acted.Sampled()
		if acted.Stop.Rewardless() {
			e.Unknown++
			return tokens, nil
		}
		solved = acted.Check != nil && acted.Check.Success()
	}
	rollout.Source = t.rehearsing(rollout.Greedy)
	imagined, err := rollout.Run(ctx, task, seed)
	if err != nil {
		return tokens, err
	}
	tokens += imagined.Sampled()
	grade, err := t.imagined().Grade(ctx, imagined)
	if err != nil {
		return tokens, err
	}
	if grade.Unknown {
		e.Unknown++
		return tokens, nil
	}
	if t.Environment != nil {
		check, err := envace.Execute(ctx, t.Environment, imagined)
		if errors.Is(err, envace.ErrWorld) && ctx.Err() == nil {
			e.Unknown++
			return tokens, nil
		}
		if err != nil {
			return tokens, err
		}
		executed = check.Success()
	}
	e.Samples++
	e.Real += int(truth(solved))
	e.Imagined += int(truth(grade.Success))
	e.Executed += int(truth(executed))
	return tokens, nil
}

// imagined grades what happened in imagination, where there are no terminal checks
// to ask: grpo-sandbox trains on those.
func (t *Trainer) imagined() envace.Grader {
	if t.Imagined != nil {
		return t.Imagined
	}
	return t.Grader
}

// one opens the environment of the training under any name.
type one struct{ env audit.Environment }

// Environment implements audit.Opener.
func (o one) Environment(context.Context, string) (audit.Environment, error) { return o.env, nil }

// engineTimeout is none: the engine is this program's own, and a rehearsal among many on a
// slow machine is no outage, which would leave it out of the figures.
const engineTimeout = 365 * 24 * time.Hour

// audit compares greedy rehearsals with the sandbox.
func (t *Trainer) audit(ctx context.Context, tasks []audit.Task) ([]audit.Figures, error) {
	episodes, err := solutions(t.Environment, tasks)
	if err != nil {
		return nil, err
	}
	canaries, err := audit.CanariesFrom(ctx, t.Environment, episodes, t.Recipe.Data.HeldoutSeed, t.Recipe.Evaluation.Canaries)
	if err != nil {
		return nil, fmt.Errorf("make canaries: %w", err)
	}
	auditor, err := audit.New(audit.Config{
		Opener: one{t.Environment}, Rules: func(string) *audit.Rules { return t.Rules },
		Rehearser:       envace.Rehearser{Policy: t.policy, Read: t.Format.ReadRehearsal, Max: t.Recipe.Rollout.ResponseTokens, Greedy: true},
		RehearseTimeout: engineTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("audit the rehearsals: %w", err)
	}
	all := append(episodes, canaries...)
	pairs := make([][]audit.Pair, len(all))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(64) // as many as the generator batches
	for i := range all {
		group.Go(func() error {
			var err error
			pairs[i], err = auditor.Episode(groupCtx, &all[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("audit the rehearsals: %w", err)
	}
	tally := audit.NewTally()
	for _, p := range pairs {
		tally.Add(p)
	}
	return slices.DeleteFunc(tally.Slices(t.Recipe.Data.HeldoutSeed), func(f audit.Figures) bool {
		return f.Version != "" || f.Mode == "" || f.Split != audit.AllTasks || f.Tool == ""
	}), auditor.Close()
}

// solutions are the calls of the tasks' reference solutions, to be rehearsed on the
// executed history.
func solutions(env audit.Environment, tasks []audit.Task) ([]audit.Episode, error) {
	episodes := make([]audit.Episode, len(tasks))
	for i, task := range tasks {
		prompt, err := json.Marshal([]map[string]string{{"role": "user", "content": task.Prompt}})
		if err != nil {
			return nil, fmt.Errorf("prompt of task %s: %w", task.ID, err)
		}
		ep := audit.Episode{ID: task.ID, PromptGroup: task.ID, Environment: env.Info().Name, Start: audit.Start{Task: task.ID}, Mode: audit.Forced}
		for j, call := range task.Solution {
			ep.Actions = append(ep.Actions, audit.Action{Step: j, Message: j, Call: call, Prompt: prompt})
		}
		episodes[i] = ep
	}
	return episodes, nil
}
