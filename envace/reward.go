package envace

import (
	"context"
	"errors"
	"fmt"

	"understudy/audit"
)

// Grade is what a trajectory earned.
type Grade struct {
	Reward  float64 // in [0,1]
	Success bool    // everything that was asked for
	// Unknown says that the grader could not decide: the trajectory leaves its
	// group, which is not a reward of 0 (facts/envace.md, trap 7).
	Unknown bool
	Reason  string // of Unknown
}

// Grader gives a trajectory its terminal reward. An error ends the training.
type Grader interface {
	Grade(ctx context.Context, t *Trajectory) (Grade, error)
}

// errUnchecked is the programmer's: this grader needs worlds that can be checked.
var errUnchecked = errors.New("the trajectory's world has no terminal checks")

// StateChecks grades by the terminal checks of an executed world.
type StateChecks struct {
	// Raw is EnvScaler's pass rate, which pays a do-nothing agent for what holds
	// at the start; else that is subtracted.
	Raw bool
	// Environment, if any, executes the calls of trajectories whose world had no
	// checks: what was done counts, not what it was answered.
	Environment audit.Environment
}

var _ Grader = StateChecks{}

// Grade implements Grader.
func (g StateChecks) Grade(ctx context.Context, t *Trajectory) (Grade, error) {
	check := t.Check
	switch {
	case t.Stop.Rewardless():
		return Grade{Unknown: true, Reason: string(t.Stop)}, nil
	case check == nil && g.Environment == nil:
		return Grade{}, errUnchecked
	case check == nil:
		executed, err := Execute(ctx, g.Environment, t)
		if err != nil {
			return Grade{}, fmt.Errorf("execute what was rehearsed: %w", err)
		}
		check = &executed
	}
	return Grade{Reward: g.reward(*check), Success: check.Success()}, nil
}

func (g StateChecks) reward(c audit.CheckResult) float64 {
	passed, checks := c.Passed, c.Checks
	if !g.Raw {
		passed, checks = passed-c.Initial, checks-c.Initial
	}
	if checks <= 0 {
		return 0
	}
	return max(0, float64(passed)/float64(checks))
}

// Execute makes a trajectory's calls in an executable world, in order, and checks
// the task there: what the rollout would have done, whatever it was answered.
func Execute(ctx context.Context, env audit.Environment, t *Trajectory) (result audit.CheckResult, err error) {
	session, err := env.Open(ctx, audit.Start{Task: t.Task.ID})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	for _, answer := range t.Calls() {
		if _, err := session.Call(ctx, answer.Call); err != nil {
			return result, err
		}
	}
	checker, ok := session.(audit.Checker)
	if !ok {
		return result, errUnchecked
	}
	return checker.Check(ctx, t.Task.ID)
}
