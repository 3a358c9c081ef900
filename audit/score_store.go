package audit

import (
	"context"
	"time"
)

// ScoreStore keeps what trainers asked and were paid: the ledger.
type ScoreStore interface {
	ScoreBatches
	Payments
	TrainingWatch
}

// ScoreBatches keeps batches from before anything of them is executed until
// every output has its answer.
type ScoreBatches interface {
	// Accept keeps a batch with its draws and grants it sandbox time out of what
	// the training step's budget has left; the run is made where it does not
	// exist. A batch that is known keeps its draws beside the new ones, and gets
	// another grant.
	Accept(ctx context.Context, b AcceptedBatch) (granted time.Duration, err error)
	// Batch reads a batch, or CodeNotFound.
	Batch(ctx context.Context, id Digest) (AcceptedBatch, error)
	// EndBatch ends a batch: what it did not use of its grant goes back, and its
	// rewards are announced on the stream of scores.
	EndBatch(ctx context.Context, b AcceptedBatch, used time.Duration, scores ScoredBatch) error
}

// Payments keeps rewards. A payee is paid once: what is there never changes.
type Payments interface {
	// Paid reads the rewards of those payees that have one.
	Paid(ctx context.Context, ids []Digest) (map[Digest]Payment, error)
	// Pay commits verdicts to a run and rewards beside them, in one transaction.
	// It returns the rewards as they stand then: of a payee that somebody else
	// paid in the meantime, that one.
	Pay(ctx context.Context, run string, batch Digest, payments []Payment) (map[Digest]Payment, error)
}

// TrainingWatch keeps what belongs to training steps.
type TrainingWatch interface {
	// Freeze returns a step's baselines, made from the rewards of earlier steps
	// when they are first asked for and the same ever after.
	// The run is made where it does not exist.
	Freeze(ctx context.Context, run, policy string, step int64, decay float64) (b *Baselines, first bool, err error)
	// Spent is the sandbox time that a step has used or been granted.
	Spent(ctx context.Context, run, policy string, step int64) (time.Duration, error)
	// Steps sums up the rewards of a policy by training step, in order, as they
	// stood when the baselines of a later step were frozen.
	Steps(ctx context.Context, run, policy string, before int64) ([]TrainingStep, error)
	// Raise keeps alarms, each once.
	Raise(ctx context.Context, alarms []Alarm) error
}

// AcceptedBatch is a batch as it is kept.
type AcceptedBatch struct {
	ID      Digest
	Batch   ScoreBatch
	Payees  []Digest // of its outputs, in order
	Content []Digest // of its outputs, in order
	Draws   []Draw   // of the outputs that could be audited; what is decided before anything is executed
	Want    time.Duration
	Budget  time.Duration // of the training step; 0 = unbounded
	Granted time.Duration
	Done    bool
}

// Payment is a reward with the verdict that it pays for.
type Payment struct {
	Reward  Reward
	Policy  string
	Content Digest // of the output: another one at the same place is a conflict
	Pair    *Pair  // nil: nothing was audited
}

// TrainingStep sums up the audited outputs of one training step.
type TrainingStep struct {
	Step        int64          `json:"step"`
	N           int            `json:"n"`                // audited outputs with an outcome on both sides
	Weight      float64        `json:"weight"`           // Σ w
	RealErrors  float64        `json:"real_errors"`      // Σ w of those that the sandbox refused
	Rehearsed   float64        `json:"rehearsed_errors"` // Σ w of those that REHEARSE refused
	Episodes    int            `json:"episodes"`         // with terminal success on both sides
	SuccessSaid int            `json:"success_rehearsed"`
	SuccessDone int            `json:"success_executed"`
	Outcomes    []OutcomeShare `json:"outcomes,omitempty"` // by tool and real outcome
}

// OutcomeShare is how much of a step's calls had a tool and a real outcome.
type OutcomeShare struct {
	Tool    string  `json:"tool"`
	Outcome string  `json:"outcome"`
	Weight  float64 `json:"weight"`
}
