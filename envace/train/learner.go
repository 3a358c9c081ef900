package train

import (
	"errors"
	"fmt"
	"math"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/grpo"
	"understudy/gpu"
	"understudy/gpu/generate"
)

// learner is one parameter set: its model, what generates with it and what trains
// it. Generating and training never overlap.
type learner struct {
	set       audit.PolicyRole // the roles that use it; WholePolicy = both
	model     *gpu.Model
	engine    *generate.Engine
	trainer   *gpu.Trainer
	optimizer *gpu.AdamW
	reference *reference // of the KL term; nil without one
}

// reference is the policy before the training, frozen.
type reference struct {
	model  *gpu.Model
	scorer *gpu.Trainer
}

// learning says how a learner is made.
type learning struct {
	generator generate.Config
	trainer   gpu.TrainerConfig
	optimizer gpu.AdamWConfig
}

// newLearner takes over the models and their device; start is the reference policy, or nil.
func newLearner(set audit.PolicyRole, model, start *gpu.Model, l learning) (made *learner, err error) {
	made = &learner{set: set, model: model}
	defer func() {
		if err != nil {
			err = errors.Join(err, made.close())
			made = nil
		}
	}()
	if start != nil {
		if made.reference, err = newReference(start, l.trainer); err != nil {
			return made, err
		}
	}
	if made.trainer, err = model.NewTrainer(l.trainer); err != nil {
		return made, fmt.Errorf("plan the training: %w", err)
	}
	if made.optimizer, err = made.trainer.NewAdamW(l.optimizer); err != nil {
		return made, fmt.Errorf("plan the optimiser: %w", err)
	}
	if made.engine, err = generate.New(model, l.generator); err != nil {
		return made, fmt.Errorf("start the generator: %w", err)
	}
	return made, nil
}

func newReference(start *gpu.Model, c gpu.TrainerConfig) (*reference, error) {
	c.ScoreOnly = true
	scorer, err := start.NewTrainer(c)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("plan the reference policy: %w", err), start.Close())
	}
	return &reference{start, scorer}, nil
}

func (l *learner) close() error {
	if l.engine != nil {
		l.engine.Close()
	}
	if l.optimizer != nil {
		l.optimizer.Free()
	}
	if l.trainer != nil {
		l.trainer.Free()
	}
	var err error
	if l.reference != nil {
		l.reference.scorer.Free()
		err = l.reference.model.Close()
	}
	err = errors.Join(err, l.model.Close())
	done(l.model.Device())
	return err
}

// plays says whether a role's outputs are this parameter set's.
func (l *learner) plays(role audit.PolicyRole) bool {
	return l.set == audit.WholePolicy || l.set == role
}

// batch is what one update of a parameter set learns from.
type batch struct {
	micros     []micro
	outputs    []*envace.Output
	advantages []float64
	loss       grpo.Loss
	// old are the log-probabilities before the first update. In exact mode they are
	// the generator's, bit for bit those of a forward pass; else the first pass
	// fills them in, and the generator's serve the importance weights.
	old [][]float64
}

func (l *learner) newBatch(micros []micro, outputs []*envace.Output, advantages []float64, loss grpo.Loss) *batch {
	b := &batch{micros: micros, outputs: outputs, advantages: advantages, loss: loss, old: make([][]float64, len(outputs))}
	if l.model.Device().Mode() == gpu.Exact {
		for i, o := range outputs {
			b.old[i] = wide(o.LogProbs)
		}
	}
	return b
}

// learned is what an update saw.
type learned struct {
	grpo.Part
	gpu.Update
	anchored bool                         // a reference policy was scored: the KL is measured
	fast     bool                         // the rollouts were scored again
	gap      float64                      // then the largest difference of log-probabilities, scored less sampled
	entropy  map[audit.PolicyRole]float64 // mean over the role's tokens
	tokens   map[audit.PolicyRole]int
}

// update moves the parameters by a batch, in micro-batches.
func (l *learner) update(b *batch) (learned, error) {
	seen := learned{anchored: l.reference != nil, fast: l.model.Device().Mode() == gpu.Fast, entropy: map[audit.PolicyRole]float64{}, tokens: map[audit.PolicyRole]int{}}
	tokens := 0
	for _, m := range b.micros {
		tokens += len(m.Targets)
	}
	if tokens == 0 {
		return seen, nil
	}
	l.trainer.ClearGradients()
	for i := range b.micros {
		if err := l.accumulate(&b.micros[i], b, 1/float64(tokens), &seen); err != nil {
			return seen, err
		}
	}
	for role, n := range seen.tokens {
		seen.entropy[role] /= float64(n)
	}
	var err error
	if seen.Update, err = l.optimizer.Update(); err != nil {
		return seen, fmt.Errorf("update the parameters: %w", err)
	}
	return seen, l.engine.Flush()
}

func (l *learner) accumulate(m *micro, b *batch, scale float64, seen *learned) error {
	var scores, frozen gpu.Scores
	if l.reference != nil {
		if err := l.reference.scorer.Forward(&m.Batch, &frozen); err != nil {
			return fmt.Errorf("score by the reference policy: %w", err)
		}
	}
	if err := l.trainer.Forward(&m.Batch, &scores); err != nil {
		return fmt.Errorf("score a micro-batch: %w", err)
	}
	dlogprob, dentropy := make([]float32, len(m.Targets)), make([]float32, len(m.Targets))
	for _, s := range m.spans {
		output := b.outputs[s.output]
		row := grpo.Row{Advantage: b.advantages[s.output], LogProb: wide(scores.LogProb[s.from:s.to]), Entropy: wide(scores.Entropy[s.from:s.to])}
		if b.old[s.output] == nil {
			b.old[s.output] = row.LogProb
		}
		row.Old, row.Sampled = b.old[s.output], wide(output.LogProbs)
		if seen.fast {
			seen.gap = max(seen.gap, largestGap(row.Old, row.Sampled))
		}
		if l.reference != nil {
			row.Reference = wide(frozen.LogProb[s.from:s.to])
		}
		grad := make([]float64, s.to-s.from)
		part, err := b.loss.Row(row, scale, grad)
		if err != nil {
			return fmt.Errorf("an output of %s: %w", output.Role, err)
		}
		seen.Part = seen.Add(part)
		seen.tokens[output.Role] += len(grad)
		for i, g := range grad {
			seen.entropy[output.Role] += row.Entropy[i]
			dlogprob[s.from+i], dentropy[s.from+i] = float32(g), float32(-b.loss.Entropy*scale)
		}
	}
	if b.loss.Entropy == 0 {
		dentropy = nil
	}
	if err := l.trainer.Backward(dlogprob, dentropy); err != nil {
		return fmt.Errorf("differentiate a micro-batch: %w", err)
	}
	return nil
}

// largestGap is the largest difference of two lists of the same length, or of what both have.
func largestGap(a, b []float64) (gap float64) {
	for i := range min(len(a), len(b)) {
		gap = max(gap, math.Abs(a[i]-b[i]))
	}
	return gap
}

// imitate moves the parameters towards the targets: the mean of −log p.
func (l *learner) imitate(batches []micro) (loss float64, err error) {
	tokens := 0
	for _, m := range batches {
		tokens += len(m.Targets)
	}
	l.trainer.ClearGradients()
	var scores gpu.Scores
	for i := range batches {
		m := &batches[i]
		if err := l.trainer.Forward(&m.Batch, &scores); err != nil {
			return 0, fmt.Errorf("score demonstrations: %w", err)
		}
		dlogprob := make([]float32, len(m.Targets))
		for j, lp := range scores.LogProb {
			loss -= float64(lp) / float64(tokens)
			dlogprob[j] = -1 / float32(tokens)
		}
		if err := l.trainer.Backward(dlogprob, nil); err != nil {
			return 0, fmt.Errorf("differentiate demonstrations: %w", err)
		}
	}
	if _, err := l.optimizer.Update(); err != nil {
		return 0, err
	}
	return loss, l.engine.Flush()
}

func wide(values []float32) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = float64(v)
	}
	return out
}

func engines(learners []*learner) map[audit.PolicyRole]*generate.Engine {
	out := map[audit.PolicyRole]*generate.Engine{}
	for _, l := range learners {
		out[l.set] = l.engine
	}
	return out
}
