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

// Ungraded is the grade of a trajectory that ended without a reward, with the reason;
// false for one that a grader is to look at.
func Ungraded(t *Trajectory) (Grade, bool) {
	if !t.Stop.Rewardless() {
		return Grade{}, false
	}
	reason := string(t.Stop)
	if t.Err != nil {
		reason += ": " + t.Err.Error()
	}
	return Grade{Unknown: true, Reason: reason}, true
}

// errUnchecked is the programmer's: this grader needs worlds that can be checked.
var errUnchecked = errors.New("the trajectory's world has no terminal checks")

// StateChecks grades by the terminal checks of an executed world.
type StateChecks struct {
	// Raw is EnvScaler's pass rate, which pays a do-nothing agent for what holds
	// at the start; else that is subtracted.
	Raw bool
	// Environment, if any, executes the calls of trajectories whose world had no
	// checks: what was done counts, not what it was answered. One that fails leaves
	// the grade unknown.
	Environment audit.Environment
}

var _ Grader = StateChecks{}

// Grade implements Grader.
func (g StateChecks) Grade(ctx context.Context, t *Trajectory) (Grade, error) {
	if grade, ungraded := Ungraded(t); ungraded {
		return grade, nil
	}
	check := t.Check
	switch {
	case t.Stop == StopErrorReply:
		return Grade{}, nil // what ErrorTerminate is for
	case check == nil && g.Environment == nil:
		return Grade{}, errUnchecked
	case check == nil:
		executed, err := Execute(ctx, g.Environment, t)
		switch {
		case ctx.Err() != nil:
			return Grade{}, context.Cause(ctx)
		case errors.Is(err, ErrWorld):
			return Grade{Unknown: true, Reason: err.Error()}, nil
		case err != nil:
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
// the task there: what the rollout would have done, whatever it was answered. A world
// that fails is ErrWorld.
func Execute(ctx context.Context, env audit.Environment, t *Trajectory) (result audit.CheckResult, err error) {
	opened, err := Executing{Environment: env}.Open(ctx, t.Task)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	for _, made := range t.Calls() {
		if _, err := opened.Answer(ctx, &t.Transcript, made.Call, 0); err != nil {
			return result, err
		}
	}
	result, checked, err := checkIn(ctx, opened, t.Task)
	if err == nil && !checked {
		err = errUnchecked
	}
	return result, err
}

// checkIn runs a task's terminal checks in a world; false where it has none.
func checkIn(ctx context.Context, world World, task audit.Task) (result audit.CheckResult, checked bool, err error) {
	executed, ok := world.(Executed)
	if !ok {
		return result, false, nil
	}
	checker, ok := executed.Session().(audit.Checker)
	if !ok {
		return result, false, nil
	}
	if result, err = checker.Check(ctx, task.ID); err != nil {
		err = fmt.Errorf("check task %s: %w", task.ID, err)
	}
	return result, true, err
}
