package train

import (
	"context"
	"encoding/json"
	"errors"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/grpo"
	"understudy/gpu"
)

// Target is a token that carries loss, and the output that it belongs to.
type Target struct {
	Output      int
	Conditioned []int32 // everything before it in its row
	Token       int32
}

// Packed are the micro-batches of outputs and every token in them that carries loss.
func Packed(outputs []*envace.Output, limit int, keep func(int) bool) ([]gpu.Batch, []Target, error) {
	micros, err := pack(rowsOf(outputs, 0), limit, 1, keep)
	if err != nil {
		return nil, nil, err
	}
	var batches []gpu.Batch
	var targets []Target
	for i := range micros {
		m := &micros[i]
		batches = append(batches, m.Batch)
		for _, s := range m.spans {
			for j := s.from; j < s.to; j++ {
				targets = append(targets, Target{s.output, conditioned(&m.Batch, m.Rows[j]), m.Targets[j]})
			}
		}
	}
	return batches, targets, nil
}

// conditioned is what stands before the token after a row, over the parents.
func conditioned(b *gpu.Batch, row int32) []int32 {
	start := int32(0)
	for i, length := range b.Lengths {
		if row < start+length {
			own := b.Tokens[start : row+1]
			if b.Parents == nil || b.Parents[i] < 0 {
				return own
			}
			end := int32(0)
			for _, n := range b.Lengths[:b.Parents[i]+1] {
				end += n
			}
			return append(append([]int32{}, conditioned(b, end-1)...), own...)
		}
		start += length
	}
	return nil
}

// EvaluateWith evaluates any policy, as a training would at this point.
func EvaluateWith(ctx context.Context, c Config, p envace.Policy) (Evaluated, error) {
	t, err := newTrainer(ctx, c, nil)
	if err != nil {
		return Evaluated{}, err
	}
	t.policy, t.rollout.Policy = p, p
	return t.Evaluate(ctx)
}

// Rising is the warning of a series of evaluations.
func Rising(all []Evaluated) string { return rising(all) }

// NoticeOf is what a run of the configuration posts.
func NoticeOf(ctx context.Context, c Config) ([]byte, error) {
	contract, err := c.contract(ctx)
	if err != nil {
		return nil, err
	}
	return json.Marshal(contract)
}

// Sampled are rollouts of n tasks at the start of the run.
func Sampled(ctx context.Context, c Config, r Runtime, n int) (all []*envace.Trajectory, err error) {
	t, err := Open(ctx, c, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	groups, err := t.rollGroups(ctx, n)
	for _, group := range groups {
		for _, one := range group {
			all = append(all, one.trajectory)
		}
	}
	return all, err
}

// Travel packs and unpacks a rollout.
func Travel(t *envace.Trajectory, f envace.Format) ([]byte, *envace.Trajectory, error) {
	packed, err := packRollout(t)
	if err != nil {
		return nil, nil, err
	}
	return Unpack(packed, f)
}

// Unpack unpacks a rollout.
func Unpack(packed []byte, f envace.Format) ([]byte, *envace.Trajectory, error) {
	t, err := unpackRollout(packed, envace.Transcript{}, f)
	return packed, t, err
}

// Differ says whether dynamic sampling keeps a group of these grades.
func Differ(grades ...envace.Grade) bool {
	var group []rolled
	for _, grade := range grades {
		group = append(group, rolled{grade: grade})
	}
	return differ(group)
}

// Calibrated is what each output of a rollout is paid for its fidelity.
func Calibrated(ctx context.Context, c Config, trajectory *envace.Trajectory, grade envace.Grade) ([]float64, error) {
	c.Recipe.Calibration.Lambda = 1
	t, m := &Trainer{Config: c}, &meter{}
	b := t.collect([][]rolled{{{trajectory: trajectory, grade: grade}}}, m)
	err := t.calibrate(ctx, b, m)
	paid := make([]float64, len(b.graded))
	for i, o := range b.graded {
		paid[i] = o.Calibration
	}
	return paid, err
}

// Fetched is the folder below dir into which a worker fetched weights.
func Fetched(ctx context.Context, farm Farm, dir string) (string, error) {
	return (&hand{farm: farm, dir: dir}).fetch(ctx, "version")
}

// UpdateMetrics are those of one update, with a reference policy or without.
func UpdateMetrics(anchored bool) []audit.Metric {
	m := &meter{}
	m.learned(learned{Part: grpo.Part{Tokens: 1}, anchored: anchored})
	return m.metrics(1)
}

// Majority merges JSON values as the oracle of the ceiling does.
func Majority(values ...json.RawMessage) json.RawMessage { return majority(values) }
