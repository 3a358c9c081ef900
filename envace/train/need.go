package train

import (
	"understudy/gpu"
)

// Need is memory that a training takes on the host.
type Need struct {
	What  string
	Bytes int64
}

const bytesOfFloat = 4 // the engine computes in float32

// Needs is what a run of the arm takes at the least for a model of this shape: the
// batch of rollouts is as small as one of the longest requests.
func (r Recipe) Needs(c gpu.Config, arm Arm) []Need {
	n := c.Parameters()
	sets := int64(len(arm.sets()))
	trainer := gpu.TrainerConfig{Tokens: r.MicroTokens, Expanded: r.MicroTokens, Checkpoint: r.GradientCheckpoints}
	longest := int64(r.longestRow())
	pages := (longest + gpu.PageSize - 1) / gpu.PageSize
	needs := []Need{
		{"weights, float32", sets * bytesOfFloat * n},
		{"weights again, packed for rollouts", sets * bytesOfFloat * n},
		{"gradients", sets * bytesOfFloat * n},
		{"moments of AdamW", sets * 2 * bytesOfFloat * n},
		{"activations of a micro-batch", sets * c.TrainingBytes(trainer)},
		{"keys and values of one longest request", sets * pages * c.PageBytes(gpu.F32)},
	}
	if r.Loss.KL != 0 {
		trainer.ScoreOnly = true
		needs = append(needs, Need{"the reference policy: weights as in its files, one layer's activations", sets * (2*n + c.TrainingBytes(trainer))})
	}
	return needs
}

// Total sums needs.
func Total(needs []Need) (sum int64) {
	for _, n := range needs {
		sum += n.Bytes
	}
	return sum
}

// Thrift is a change of the recipe that takes less memory, and how much.
type Thrift struct {
	Change string
	Saves  int64
}

// Thrifts are the changes that are left to a recipe that does not fit, and what each
// saves alone. They change what is trained only where they say so.
func (r Recipe) Thrifts(c gpu.Config, arm Arm) []Thrift {
	whole := Total(r.Needs(c, arm))
	var out []Thrift
	try := func(change string, edit func(*Recipe)) {
		less := r
		edit(&less)
		if saved := whole - Total(less.Needs(c, arm)); saved > 0 {
			out = append(out, Thrift{change, saved})
		}
	}
	try("gradient_checkpoints: true", func(r *Recipe) { r.GradientCheckpoints = true })
	longest := r.longestRow()
	if r.MicroTokens > longest {
		try("micro_tokens down to the longest row", func(r *Recipe) { r.MicroTokens = longest })
	}
	try("prompts and responses of half the length, micro_tokens too (other rollouts)", func(r *Recipe) {
		r.Rollout.PromptTokens, r.Rollout.ResponseTokens, r.MicroTokens = r.Rollout.PromptTokens/2, r.Rollout.ResponseTokens/2, min(r.MicroTokens, longest/2)
	})
	try("kl: 0 (another objective)", func(r *Recipe) { r.Loss.KL = 0 })
	return out
}
