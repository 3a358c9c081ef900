package train

import (
	"fmt"
	"slices"
	"strconv"

	"understudy/gpu"
)

// Lowered is a value of the recipe that a dry run takes smaller, or otherwise.
type Lowered struct{ Key, From, To string }

// The sizes of a dry run: seconds on two cores, and every part of a step happens.
const (
	dryPrompts, dryRollouts = 2, 4
	dryTurns                = 5
	dryResponse             = 48
	drySteps                = 2
	dryWidth                = 64
	dryHeads                = 4
	dryTasks                = 1
	dryWarmTokens           = 160_000 // of the warm start, without which random weights never call anything
	dryWarmSteps            = 120
)

// shrunk is the recipe of a dry run over so many tasks, whose longest first prompt is
// so many tokens, in a model of the folder.
func (r Recipe) shrunk(dir string, tasks, longest, conversation int) (Recipe, []Lowered) {
	var lowered []Lowered
	lower := func(key string, value *int, to int) {
		if *value != to {
			lowered = append(lowered, Lowered{key, strconv.Itoa(*value), strconv.Itoa(to)})
		}
		*value = to
	}
	r.Model = Shape{Dir: dir, Base: r.Model.Base, Template: r.Model.Template}
	lower("data.heldout", &r.Data.Heldout, min(r.Data.Heldout, 1))
	lower("data.train", &r.Data.Train, min(r.Data.Train, tasks-r.Data.Heldout, dryTasks))
	lower("rollout.prompts", &r.Rollout.Prompts, min(r.Rollout.Prompts, dryPrompts))
	lower("rollout.rollouts", &r.Rollout.Rollouts, min(r.Rollout.Rollouts, dryRollouts))
	lower("rollout.turns", &r.Rollout.Turns, min(r.Rollout.Turns, dryTurns))
	lower("rollout.response_tokens", &r.Rollout.ResponseTokens, min(r.Rollout.ResponseTokens, dryResponse))
	room := max(longest, conversation) + roomForTurns
	lower("rollout.prompt_tokens", &r.Rollout.PromptTokens, min(r.Rollout.PromptTokens, room))
	// Rows that lie in one micro-batch share their beginnings.
	lower("micro_tokens", &r.MicroTokens, min(r.MicroTokens, 8*(r.Rollout.PromptTokens+r.Rollout.ResponseTokens)))
	lower("steps", &r.Steps, min(r.Steps, drySteps))
	lower("checkpoints.every", &r.Checkpoints.Every, 1)
	lower("evaluation.every", &r.Evaluation.Every, drySteps)
	lower("evaluation.tasks", &r.Evaluation.Tasks, min(r.Evaluation.Tasks, 1))
	lower("evaluation.samples", &r.Evaluation.Samples, min(r.Evaluation.Samples, 2))
	if r.Reward.CheckEvery > 0 {
		lower("reward.check_every", &r.Reward.CheckEvery, drySteps)
		lower("reward.check_rollouts", &r.Reward.CheckRollouts, 1)
	}
	warm := max(2, min(dryWarmSteps, dryWarmTokens/max(1, r.Data.Train*r.Rollout.PromptTokens)))
	lowered = append(lowered, Lowered{"warm_start", fmt.Sprintf("%d steps", r.WarmStart.Steps), fmt.Sprintf("at most %d steps that imitate the conversations", warm)})
	r.WarmStart = WarmStart{Steps: warm, Batch: r.Data.Train, LearningRate: 1e-2, Every: max(1, warm/4), Loss: 0.05}
	return r, lowered
}

// small is a shape of the same family with few and narrow layers.
func small(c gpu.Config, vocabulary int, end []int32, context int) gpu.Config {
	groups := max(1, dryHeads*c.G/max(c.H, 1))
	for dryHeads%groups != 0 {
		groups--
	}
	c.Layers, c.Width, c.Hidden = min(c.Layers, 2), dryWidth, 2*dryWidth
	c.Heads = gpu.Heads{H: dryHeads, G: groups, D: dryWidth / dryHeads}
	c.Vocab, c.Context, c.EOS, c.BOS, c.DType = vocabulary, context, slices.Clone(end), -1, gpu.F32
	return c
}

// lowerings names what became of the shape.
func lowerings(from, to gpu.Config) []Lowered {
	var out []Lowered
	for _, x := range []struct {
		key      string
		from, to int
	}{
		{"model.layers", from.Layers, to.Layers},
		{"model.width", from.Width, to.Width},
		{"model.hidden", from.Hidden, to.Hidden},
		{"model.heads", from.H, to.H},
		{"model.kv_heads", from.G, to.G},
		{"model.head", from.D, to.D},
		{"model.vocabulary", from.Vocab, to.Vocab},
	} {
		if x.from != x.to {
			out = append(out, Lowered{x.key, strconv.Itoa(x.from), strconv.Itoa(x.to)})
		}
	}
	return append(out, Lowered{"model.weights", "the folder's", "random"})
}
