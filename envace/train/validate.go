package train

import (
	"errors"
	"fmt"
	"slices"

	"understudy/envace"
	"understudy/envace/grpo"
)

// Validate lists every fault.
func (r Recipe) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(r.Format == "tiny" || r.Format == "chat", "format is tiny or chat, not %q", r.Format)
	check(r.Model.Dir != "" || r.Model.Base != "" || r.Model.Layers > 0, "model needs a dir, a base or dimensions")
	check(r.Rollout.Prompts > 0 && r.Rollout.Rollouts > 1, "rollout: %d prompts × %d rollouts: want at least 1 × 2, since a lone rollout has no baseline", r.Rollout.Prompts, r.Rollout.Rollouts)
	check(r.Rollout.Temperature > 0, "rollout: temperature is above 0")
	check(r.Rollout.Errors == envace.ErrorContinue || r.Rollout.Errors == envace.ErrorTerminate, "rollout: errors is continue or terminate, not %q", r.Rollout.Errors)
	check(r.Rollout.Turns > 0 && r.Rollout.ParallelCalls > 0 && r.Rollout.PromptTokens > 0 && r.Rollout.ResponseTokens > 0, "rollout: turns, parallel_calls, prompt_tokens and response_tokens are above 0")
	check(slices.Contains([]string{"checklist", "state", "judge"}, r.Reward.Grader), "reward: grader is checklist, state or judge, not %q", r.Reward.Grader)
	check(r.Baseline.Weighting == grpo.ByOutput || r.Baseline.Weighting == grpo.ByTrajectory, "baseline: weighting is output or trajectory, not %q", r.Baseline.Weighting)
	check(r.Loss.Updates > 0, "loss: updates is at least 1")
	check(r.Steps > 0, "steps is above 0")
	r.validateSource(check)
	check(r.WarmStart.Memories >= 0 && r.WarmStart.Memories <= 1, "warm_start: memories is a share")
	check(r.MicroTokens > 0, "micro_tokens is above 0")
	check(r.Calibration.Lambda >= 0 && r.Calibration.FalseSuccess >= 0, "calibration: lambda and false_success are not negative")
	check(r.Checkpoints.Rule == "last", "checkpoints: rule is last: which checkpoint counts is decided before the run")
	check(r.Checkpoints.Every > 0, "checkpoints: every is above 0")
	faults = append(faults, r.loss().Validate(), r.adamW(r.Optimizer.LearningRate).Validate())
	return errors.Join(faults...)
}

// validateSource says whether format, tasks and grader fit each other.
func (r Recipe) validateSource(check func(ok bool, format string, args ...any)) {
	cm2 := r.Data.Source == sourceCM2
	check(cm2 || r.Data.Source == sourceEnvironment, "data: source is environment or cm2, not %q", r.Data.Source)
	check(r.Environment != "" || cm2, "environment: the tasks come from it, so it is needed")
	check(!cm2 || r.Environment == "", "environment: tasks of cm2 have none")
	check(!cm2 || r.Format == formatChat, "data: conversations of cm2 are for the chat format")
	check(r.Reward.Grader != "judge" || cm2, "reward: a judge needs checklists, which tasks of cm2 have")
	check(r.Reward.Grader == "judge" || !cm2, "reward: tasks of cm2 have checklists for a judge, not for %q", r.Reward.Grader)
	check(r.Reward.Grader != "checklist" || r.Format == formatTiny, "reward: the checklist of the transcript reads the tiny format; take state")
	check(r.Format == formatChat || !r.Rollout.ThinkingSeen && !r.Rollout.FutureExamples && r.Rollout.Examples == 0,
		"rollout: thinking_seen, examples and future_examples are for the chat format")
	check(!r.Rollout.FutureExamples && r.Rollout.Examples == 0 || cm2, "rollout: examples are recorded calls, which cm2 has")
	check(r.Rollout.Examples >= 0, "rollout: examples is not negative")
	check(r.Reward.MaxUnknown >= 0 && r.Reward.MaxUnknown <= 1, "reward: max_unknown is a share")
	check(r.Reward.CheckEvery >= 0 && r.Reward.CheckRollouts >= 0 && r.Reward.JudgeTemperature >= 0, "reward: check_every, check_rollouts and judge_temperature are not negative")
	check(r.Reward.CheckRollouts == 0 || r.Reward.Repeats > 1, "reward: repeats is at least 2: one answer alone cannot flip")
	check(r.Format != formatChat || r.WarmStart.Until == 0, "warm_start: until is of the tiny format; others imitate their recordings for so many steps")
}

// The formats and the sources of tasks.
const (
	formatTiny        = "tiny"
	formatChat        = "chat"
	sourceCM2         = "cm2"
	sourceEnvironment = "environment"
)
