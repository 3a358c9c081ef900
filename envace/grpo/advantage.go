package grpo

import (
	"fmt"
	"math"
)

// Output is one generation of a rollout, of either role: one row of the loss.
type Output struct {
	Prompt  string  // the instruction; its rollouts are compared with each other
	Rollout int     // which of the prompt's K rollouts
	Role    string  // outputs of one prompt and role share a baseline
	Step    int     // its place among the rollout's outputs
	Reward  float64 // of the whole trajectory: every output inherits it

	// Excluded takes the output out of baseline and loss: its trajectory has no
	// reward (the judge could not decide), which is not a reward of 0.
	Excluded bool
	// TaskMasked takes the output's task reward out of the baseline and out of
	// its advantage; a calibration term still counts.
	TaskMasked bool
	// Calibration is added to the task part: λ·clip(φ − baseline, −1, 1)·weight,
	// less λ_fs for a false success (design.md 6); 0 for an unaudited output.
	Calibration float64
}

// Weighting says what counts once in a baseline.
type Weighting string

// The weightings of a baseline.
const (
	ByOutput     Weighting = "output"     // the paper's: long trajectories count more
	ByTrajectory Weighting = "trajectory" // each rollout counts once
)

// Baseline says how the advantage of an output is formed.
type Baseline struct {
	Weighting Weighting // empty = ByOutput
	// DivideByStd divides by the group's standard deviation, as GRPO did before
	// Dr. GRPO; off in the paper.
	DivideByStd bool
}

// stdFloor keeps a group of nearly equal rewards from being blown up.
const stdFloor = 1e-6

// group is the set of outputs that share a baseline.
type group struct{ prompt, role string }

// moments are the weighted sums of a group's rewards.
type moments struct {
	outputs             int
	weight, sum, square float64
}

// Advantages returns A = R − μ(prompt, role) + calibration of each output, in
// order. A group with a single output has nothing to be compared with: its task
// part is 0. Excluded outputs get 0. Rewards that are not finite are an error,
// never an advantage.
func Advantages(outputs []Output, b Baseline) ([]float64, error) {
	weight, err := weights(outputs, b.Weighting)
	if err != nil {
		return nil, err
	}
	groups := make(map[group]moments)
	for i, o := range outputs {
		if !o.compared() {
			continue
		}
		if err := finite(o); err != nil {
			return nil, err
		}
		m := groups[group{o.Prompt, o.Role}]
		m.outputs++
		m.weight += weight[i]
		m.sum += weight[i] * o.Reward
		m.square += weight[i] * o.Reward * o.Reward
		groups[group{o.Prompt, o.Role}] = m
	}
	advantages := make([]float64, len(outputs))
	for i, o := range outputs {
		if o.Excluded {
			continue
		}
		if math.IsNaN(o.Calibration) || math.IsInf(o.Calibration, 0) {
			return nil, fmt.Errorf("calibration of step %d in rollout %d of prompt %s is %v", o.Step, o.Rollout, o.Prompt, o.Calibration)
		}
		advantages[i] = o.Calibration
		if m := groups[group{o.Prompt, o.Role}]; o.compared() && m.outputs > 1 {
			advantages[i] += m.advantage(o.Reward, b.DivideByStd)
		}
	}
	return advantages, nil
}

func (m moments) advantage(reward float64, divide bool) float64 {
	mean := m.sum / m.weight
	if !divide {
		return reward - mean
	}
	variance := max(0, m.square/m.weight-mean*mean)
	return (reward - mean) / (math.Sqrt(variance) + stdFloor)
}

// compared says whether the output's reward enters the baseline.
func (o Output) compared() bool { return !o.Excluded && !o.TaskMasked }

func finite(o Output) error {
	if math.IsNaN(o.Reward) || math.IsInf(o.Reward, 0) {
		return fmt.Errorf("reward of rollout %d of prompt %s is %v", o.Rollout, o.Prompt, o.Reward)
	}
	return nil
}

// weights are each output's share in its baseline: 1, or 1 / (outputs of the
// same rollout and role).
func weights(outputs []Output, by Weighting) ([]float64, error) {
	type rollout struct {
		group
		rollout int
	}
	share := make(map[rollout]float64)
	for _, o := range outputs {
		if o.compared() {
			share[rollout{group{o.Prompt, o.Role}, o.Rollout}]++
		}
	}
	weight := make([]float64, len(outputs))
	for i, o := range outputs {
		switch by {
		case ByOutput, "":
			weight[i] = 1
		case ByTrajectory:
			weight[i] = 1 / share[rollout{group{o.Prompt, o.Role}, o.Rollout}]
		default:
			return nil, fmt.Errorf("unknown weighting %q: output or trajectory", by)
		}
	}
	return weight, nil
}

// MaskAfter takes the task reward from every output of the same rollout after
// step: what followed an audited false success was earned in a world that is not
// the real one (design.md 6).
func MaskAfter(outputs []Output, prompt string, rollout, step int) {
	for i := range outputs {
		o := &outputs[i]
		if o.Prompt == prompt && o.Rollout == rollout && o.Step > step {
			o.TaskMasked = true
		}
	}
}
