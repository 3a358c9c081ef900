package eval

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"understudy/audit"
	"understudy/envace"
)

// Task is one task of a benchmark.
type Task struct {
	audit.Task
	Told   string // the rules that the agent is told
	Tools  []audit.Tool
	Rules  *audit.Rules  // by which answers are read
	Limits envace.Limits // zero values: the runner's
	// Begin starts one sample. What it returns is used by one rollout.
	Begin func() Sample
}

// Sample is what one rollout of a task meets.
type Sample struct {
	Source envace.Source // its world
	User   envace.User   // nil = everything was said in the prompt
	// Private is the user in private attempts, who must not touch the world; nil = Silent.
	Private envace.User
	// Opening says the first prompt in place of the task's; nil = the task's.
	Opening func(ctx context.Context) (string, error)
	Grade   GradeFunc
}

// Verdict is what a rollout was worth.
type Verdict struct {
	Success bool
	Score   float64  // in [0,1]
	Unknown string   // why nobody can say; "" = it is known
	Failed  []string // what was missing
	Tools   *ToolUse // nil: there is no reference set
	Initial bool     // it was a success before anything was done
}

// GradeFunc grades a rollout that has ended. Its error ends the evaluation.
type GradeFunc func(ctx context.Context, t *envace.Trajectory) (Verdict, error)

// ByChecks grades by the terminal checks of the world: all of them must hold.
func ByChecks(ctx context.Context, t *envace.Trajectory) (Verdict, error) {
	if t.Check == nil {
		return Verdict{}, fmt.Errorf("the world of task %s has no terminal checks", t.Task.ID)
	}
	grade, err := envace.StateChecks{}.Grade(ctx, t)
	if err != nil {
		return Verdict{}, err
	}
	return Verdict{
		Success: grade.Success, Score: grade.Reward, Failed: t.Check.Failed,
		Initial: t.Check.Checks > 0 && t.Check.Initial == t.Check.Checks,
	}, nil
}

// FromEnvironment makes tasks that are done in an environment and graded by its checks.
func FromEnvironment(ctx context.Context, env audit.Environment, tasks []audit.Task, rules *audit.Rules) ([]Task, error) {
	tools, err := env.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the tools: %w", err)
	}
	out := make([]Task, len(tasks))
	for i, task := range tasks {
		out[i] = Task{
			Task: task, Told: env.Info().Policy, Tools: tools, Rules: rules,
			Begin: func() Sample {
				return Sample{Source: asCallers{envace.Executing{Environment: env}, tools}, Grade: ByChecks}
			},
		}
	}
	return out, nil
}

// TasksDigest identifies what tasks ask and how they begin.
func TasksDigest(tasks []Task) (audit.Digest, error) {
	h := sha256.New()
	for _, t := range tasks {
		text, err := json.Marshal([]any{t.Task, t.Told, t.Tools, t.Limits})
		if err != nil {
			return audit.Digest{}, fmt.Errorf("encode task %s: %w", t.ID, err)
		}
		h.Write(append(text, '\n'))
	}
	return audit.Digest(h.Sum(nil)), nil
}
