package train

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/judge"
)

// Repeatable is a grader who may answer otherwise when asked again.
type Repeatable interface {
	// Flips asks everything about a trajectory k times.
	Flips(ctx context.Context, t *envace.Trajectory, k int) (judge.Flips, error)
}

// The metrics of a grader. Success by the grader is compared with success by the
// terminal checks, after the same calls were executed in the sandbox.
const (
	MetricFlipRate  = "judge_flip_rate" // of pairs of answers to the same question
	MetricAgreement = "judge_agreement" // of rollouts: grader and checks say the same
	MetricOverpaid  = "judge_overpaid"  // of rollouts that the checks fail
	MetricUnderpaid = "judge_underpaid" // of rollouts that the checks pass
)

// checkGrader measures the grader itself, every so many steps: its repeatability,
// where it may flip, and its agreement with terminal checks, where there is an
// environment. It changes nothing of the step.
func (t *Trainer) checkGrader(ctx context.Context, groups [][]rolled, m *meter) error {
	every := t.Recipe.Reward.CheckEvery
	if every == 0 || (t.step+1)%every != 0 {
		return nil
	}
	if err := t.checkFlips(ctx, groups, m); err != nil {
		return fmt.Errorf("ask the grader again: %w", err)
	}
	if t.Environment == nil {
		return nil
	}
	var all []rolled
	for _, group := range groups {
		all = append(all, group...)
	}
	checks := make([]audit.CheckResult, len(all))
	work, workCtx := errgroup.WithContext(ctx)
	for i, r := range all {
		work.Go(func() error {
			var err error
			if !r.grade.Unknown {
				checks[i], err = envace.Execute(workCtx, t.Environment, r.trajectory)
			}
			if errors.Is(err, envace.ErrWorld) && workCtx.Err() == nil {
				return nil // it has no checks then, and is not compared
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return fmt.Errorf("compare the grader with the checks: %w", err)
	}
	for i, r := range all {
		if !r.grade.Unknown && checks[i].Checks > 0 {
			m.agreed(r.grade.Success, checks[i].Success())
		}
	}
	return nil
}

// agreed counts one success by the grader beside that of the checks.
func (m *meter) agreed(graded, checked bool) {
	m.add(MetricAgreement, audit.WholePolicy, truth(graded == checked))
	if checked {
		m.add(MetricUnderpaid, audit.WholePolicy, truth(!graded))
		return
	}
	m.add(MetricOverpaid, audit.WholePolicy, truth(graded))
}

// checkFlips asks again about one rollout of each of the first prompts.
func (t *Trainer) checkFlips(ctx context.Context, groups [][]rolled, m *meter) error {
	grader, ok := t.Grader.(Repeatable)
	if !ok {
		return nil
	}
	var all judge.Flips
	for _, group := range groups[:min(len(groups), t.Recipe.Reward.CheckRollouts)] {
		if group[0].trajectory.Stop.Rewardless() {
			continue
		}
		f, err := grader.Flips(ctx, group[0].trajectory, t.Recipe.Reward.Repeats)
		if err != nil {
			return err
		}
		all = judge.Flips{Items: all.Items + f.Items, Pairs: all.Pairs + f.Pairs, Flips: all.Flips + f.Flips}
	}
	if all.Pairs > 0 {
		m.add(MetricFlipRate, audit.WholePolicy, all.Rate())
	}
	return nil
}
