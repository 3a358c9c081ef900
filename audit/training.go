package audit

import (
	"encoding/json"
	"time"
)

// PolicyRole is the role that a policy plays (design.md 1); "" is the policy as a whole.
type PolicyRole string

// The roles of a policy.
const (
	WholePolicy  PolicyRole = ""
	ActRole      PolicyRole = "act"
	RehearseRole PolicyRole = "rehearse"
)

// NewTraining describes a training before it starts: one arm of an experiment
// with one seed.
type NewTraining struct {
	Experiment string          `json:"experiment"`
	Arm        string          `json:"arm"`
	Seed       int64           `json:"seed"`
	Policy     string          `json:"policy,omitempty"`   // whose checkpoints it writes
	Settings   json.RawMessage `json:"settings,omitempty"` // the recipe, secrets redacted
}

// TrainingState is where a training stands.
type TrainingState string

// The states of a training.
const (
	TrainingRunning  TrainingState = "running"
	TrainingComplete TrainingState = "complete"
	TrainingFailed   TrainingState = "failed"
)

// Training is a training as the ledger keeps it.
type Training struct {
	NewTraining
	ID       int32         `json:"id"`
	State    TrainingState `json:"state"`
	Reason   string        `json:"reason,omitempty"` // why it failed
	Started  time.Time     `json:"started"`
	Finished time.Time     `json:"finished,omitzero"`
	Step     int64         `json:"step"` // the last one that has a number; -1 = none has
}

// Metric is one number of one training step. A value that is not finite is kept
// as such: it is the first thing to look at.
type Metric struct {
	Name  string     `json:"name"`
	Role  PolicyRole `json:"role,omitempty"`
	Step  int64      `json:"step"`
	Value float64    `json:"value"`
}

// The metrics that a page knows how to draw; a trainer may write any others.
const (
	MetricReward   = "reward"   // mean task reward
	MetricLength   = "length"   // mean tokens of an output
	MetricFidelity = "fidelity" // mean calibration φ of audited rehearsals
	MetricFSR      = "fsr"      // false-success rate of audited rehearsals
	MetricEntropy  = "entropy"  // mean token entropy
)

// SeriesPoint is one or, in a long series, several neighbouring steps.
type SeriesPoint struct {
	Step      int64   `json:"step"` // the first of them
	N         int     `json:"n"`
	Value     float64 `json:"value"` // mean of the finite ones; 0 when none is
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
	NotFinite int     `json:"not_finite,omitempty"`
}

// MetricSeries is one metric of one training over its steps.
type MetricSeries struct {
	Arm    string        `json:"arm"`
	Seed   int64         `json:"seed"`
	Name   string        `json:"name"`
	Role   PolicyRole    `json:"role,omitempty"`
	Points []SeriesPoint `json:"points"` // ascending steps
}
