package train

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"understudy/envace"
	"understudy/envace/grpo"
	"understudy/gpu"
)

// Validate lists every fault.
func (r Recipe) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(named(r.Name), "name: %q is a folder's name and a queue's: letters, digits, . _ and -, at most 64, the first no sign", r.Name)
	faults = append(faults, numbers("", reflect.ValueOf(r))...)
	check(r.Format == formatTiny || r.Format == formatChat, "format is tiny or chat, not %q", r.Format)
	check(r.Model.Dir != "" || r.Model.Base != "" || r.Model.Layers > 0, "model needs a dir, a base or dimensions")
	check(r.Rollout.Prompts > 0 && r.Rollout.Rollouts > 1, "rollout: %d prompts × %d rollouts: want at least 1 × 2, since a lone rollout has no baseline", r.Rollout.Prompts, r.Rollout.Rollouts)
	check(r.Rollout.Temperature > 0, "rollout: temperature is above 0")
	check(r.Rollout.Errors == envace.ErrorContinue || r.Rollout.Errors == envace.ErrorTerminate, "rollout: errors is continue or terminate, not %q", r.Rollout.Errors)
	check(r.Rollout.Turns > 0 && r.Rollout.ParallelCalls > 0 && r.Rollout.PromptTokens > 0 && r.Rollout.ResponseTokens > 0, "rollout: turns, parallel_calls, prompt_tokens and response_tokens are above 0")
	check(slices.Contains([]string{"checklist", "state", "judge"}, r.Reward.Grader), "reward: grader is checklist, state or judge, not %q", r.Reward.Grader)
	check(r.Baseline.Weighting == grpo.ByOutput || r.Baseline.Weighting == grpo.ByTrajectory, "baseline: weighting is output or trajectory, not %q", r.Baseline.Weighting)
	check(r.Rollout.Prompts*r.Rollout.Rollouts <= mostRollouts, "rollout: %d prompts × %d rollouts are more than the %d that a step holds", r.Rollout.Prompts, r.Rollout.Rollouts, mostRollouts)
	check(r.Loss.Updates > 0, "loss: updates is at least 1")
	check(r.Steps > 0, "steps is above 0")
	check(slices.Contains([]string{"", modeExact, modeFast}, r.Mode), "mode is exact or fast, not %q", r.Mode)
	check(r.EngineMode() == gpu.Exact || r.Loss.Truncate > 0, "loss: importance_cap is above 0 in fast mode, which samples and scores with other sums: 2 is usual")
	check(slices.Contains([]string{"", momentsFloat32, momentsBFloat16}, r.Optimizer.Moments), "optimizer: moments are float32 or bfloat16, not %q", r.Optimizer.Moments)
	r.validateSource(check)
	w := r.WarmStart
	check(w.Memories <= 1 && w.Explore <= 1 && w.Until <= 1, "warm_start: memories, explore and until are shares")
	check(w.Steps == 0 || w.LearningRate > 0, "warm_start: learning_rate is above 0")
	check(w.Steps == 0 || w.Batch > 0 && w.Batch <= mostRollouts, "warm_start: batch is 1 to %d", mostRollouts)
	check(r.MicroTokens > 0, "micro_tokens is above 0")
	check(r.MicroTokens >= r.longestRow(), "micro_tokens: %d are less than the %d that a row may have: prompt_tokens and response_tokens together, of the tiny format the model's context", r.MicroTokens, r.longestRow())
	check(r.Checkpoints.Rule == "last", "checkpoints: rule is last: which checkpoint counts is decided before the run")
	check(r.Checkpoints.Every > 0, "checkpoints: every is above 0")
	faults = append(faults, r.loss().Validate(), r.adamW(r.Optimizer.LearningRate).Validate())
	return errors.Join(faults...)
}

// longestRow is the most tokens that a rollout's row may have. A run that met one over
// micro_tokens could not go on: with another value it would be another recipe.
func (r Recipe) longestRow() int {
	if r.Format == formatTiny {
		return r.Model.Context
	}
	return r.Rollout.PromptTokens + r.Rollout.ResponseTokens
}

// mostNumber bounds every count of a recipe, mostRollouts the rollouts of one step:
// typing errors must not become memory.
const (
	mostNumber   = 10_000_000
	mostRollouts = 1 << 16
)

func named(name string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString(name)
}

// numbers are the faults that any number of a recipe can have, named by their keys:
// not finite, negative (what entropy pays may be), or a count beyond all use.
func numbers(at string, v reflect.Value) []error {
	var faults []error
	fault := func(what string) { faults = append(faults, fmt.Errorf("%s: %v %s", at, v, what)) }
	switch v.Kind() { //nolint:exhaustive // the others are no numbers, or seeds
	case reflect.Struct:
		for i := range v.NumField() {
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			faults = append(faults, numbers(strings.TrimPrefix(at+"."+key, "."), v.Field(i))...)
		}
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			fault("is not finite")
		} else if f < 0 && at != "loss.entropy" {
			fault("is negative")
		}
	case reflect.Int:
		if v.Int() < 0 {
			fault("is negative")
		} else if v.Int() > mostNumber {
			fault(fmt.Sprintf("is more than %d", mostNumber))
		}
	}
	return faults
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
	check(r.Data.Train > 0, "data: train is above 0")
	check(r.Reward.MaxUnknown <= 1, "reward: max_unknown is a share")
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
