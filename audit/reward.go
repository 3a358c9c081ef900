package audit

import "math"

// RewardStatus says whether a reward has a number.
type RewardStatus string

// The reward statuses.
const (
	RewardScored  RewardStatus = "scored"
	RewardMasked  RewardStatus = "masked"  // null with a reason: never 0, never the mean
	RewardPending RewardStatus = "pending" // asked for before the verdict was there
)

// Reward is what one verdict pays to the REHEARSE output that it judges: the
// parts from which any trainer forms the calibration term
// λ·clip(φ − baseline, −1, 1)·weight (design.md 6). Every number is finite.
type Reward struct {
	Status       RewardStatus `json:"status"`
	Reason       MaskReason   `json:"reason,omitempty"` // of a masked reward
	Detail       string       `json:"detail,omitempty"` // what happened, for people
	ID           Digest       `json:"id,omitzero"`      // of the payee: (run, policy, checkpoint, episode, step, sample, attempt)
	Key          Digest       `json:"key"`              // of the pair: the audit's id
	Episode      string       `json:"episode"`
	Step         int          `json:"step"`
	Sample       int          `json:"sample"`
	Attempt      int          `json:"attempt"`
	Checkpoint   int64        `json:"checkpoint"`
	Tool         string       `json:"tool"`
	Real         Outcome      `json:"real,omitzero"`
	Class        RewardClass  `json:"class,omitempty"` // how the answer differs; "" when masked
	Severity     Severity     `json:"severity"`
	Evidence     Evidence     `json:"evidence,omitempty"`
	Phi          *float64     `json:"phi"` // in [0,1]; null when masked
	Components   *Components  `json:"components,omitempty"`
	Baseline     float64      `json:"baseline"`
	Version      int64        `json:"baseline_version"` // the training step whose baselines these are
	Weight       float64      `json:"weight"`           // min(1/π, 10); 0 when nothing was audited
	Inclusion    float64      `json:"inclusion"`        // π
	Term         float64      `json:"term"`             // clip(φ − baseline, −1, 1)·weight; 0 when masked
	FalseSuccess bool         `json:"false_success"`    // mask the task reward of later steps of both roles
	Repeated     bool         `json:"repeated"`         // paid before: the same reward again, to be applied once
}

// Components are the factors of φ, each in [0,1].
type Components struct {
	Validity float64 `json:"validity"`
	Outcome  float64 `json:"outcome"` // 1 match, .5 right class, .25 false error, 0 false success
	Shape    float64 `json:"shape"`
	LeafF1   float64 `json:"leaf_f1"`
	EffectF1 float64 `json:"effect_f1"` // 1 for a tool that only reads
}

// Phi is φ = validity · g(outcome) · (0.3·shape + 0.7·leafF1) · effectF1.
func (c Components) Phi() float64 {
	return unit(c.Validity * c.Outcome * (0.3*c.Shape + 0.7*c.LeafF1) * c.EffectF1)
}

// OutcomeGrade is g: how much of φ the rehearsed outcome leaves. A success of
// the other kind (ok for ok_empty) has the right class, as a wrong family has.
func OutcomeGrade(truth, rehearsed Outcome) float64 {
	switch {
	case truth == rehearsed:
		return 1
	case truth.IsError() == rehearsed.IsError():
		return 0.5
	case rehearsed.IsError():
		return 0.25
	default:
		return 0
	}
}

// componentsOf reads φ's factors from a scored verdict. Two errors of one
// family say the same thing, so shape and leaf F1 are 1; a factor that does not
// apply because the classes differ is 1 as well: g has already priced it.
func componentsOf(v *Verdict, writes bool) Components {
	c := Components{Validity: 0, Outcome: OutcomeGrade(v.Real, v.Rehearsed), Shape: 1, LeafF1: 1, EffectF1: 1}
	if v.Scores.Valid {
		c.Validity = 1
	}
	if !v.Real.IsError() && !v.Rehearsed.IsError() {
		c.Shape, c.LeafF1 = orOne(v.Scores.Shape), orOne(v.Scores.LeafF1)
	}
	if writes {
		c.EffectF1 = orOne(v.Scores.EffectF1)
	}
	return c
}

// RewardOf computes the reward of one pair.
func RewardOf(pair *Pair, baselines *Baselines) Reward {
	v := &pair.Verdict
	r := Reward{
		Status: RewardMasked, Reason: v.Masked,
		Key: pair.Key, Episode: pair.Episode, Step: pair.Action.Step, Sample: pair.Action.Sample,
		Attempt: pair.Action.Attempt, Checkpoint: pair.Checkpoint, Tool: pair.Action.Call.Tool,
		Real: v.Real, Severity: v.Severity, Evidence: v.Evidence,
		Version: baselines.Version(), Inclusion: unit(pair.Action.Inclusion),
		FalseSuccess: v.FalseSuccess && v.Scored(),
	}
	if v.Scored() {
		r.Reason = v.Scores.PhiMask
	}
	if !v.Scored() || v.Scores.Phi == nil || !finite(*v.Scores.Phi) {
		return r
	}
	r.Status, r.Reason, r.Class = RewardScored, "", classOf(v)
	components := componentsOf(v, pair.writes())
	r.Components = &components
	phi := unit(*v.Scores.Phi)
	r.Phi = &phi
	r.Baseline, r.Weight = baselines.Of(r.Tool, v.Real), InclusionWeight(pair.Action.Inclusion)
	r.Term = clip(phi-r.Baseline, -1, 1) * r.Weight
	return r
}

// writes reports whether the pair's effect takes part in φ: the tool is
// declared a write, or it is undeclared and something changed or was claimed to.
func (p *Pair) writes() bool {
	switch p.Effect {
	case Write:
		return true
	case Read:
		return false
	case UnknownEffect:
	}
	return (p.Observation != nil && len(p.Observation.Delta) > 0) || len(p.Verdict.Claimed) > 0
}

func clip(x, lo, hi float64) float64 { return min(max(x, lo), hi) }

// unit clips to [0,1]; what is not a number becomes 0.
func unit(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return clip(x, 0, 1)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func orOne(x *float64) float64 {
	if x == nil {
		return 1
	}
	return unit(*x)
}
