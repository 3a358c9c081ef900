package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// HookConfig says what a Hook pays with. The zero value of a field means its
// default.
type HookConfig struct {
	Audit Config     // Opener, Rules and CallTimeout are used
	Store ScoreStore // required

	// Parse reads the text of a REHEARSE output; nil: the whole text is the answer.
	Parse func(text string) Rehearsal
	// Inclusion gives π; nil: everything is audited.
	Inclusion InclusionFunc
	// Secret keys the sampling. Empty: a random one, of this process.
	Secret []byte
	// Budget is the sandbox's time that one training step may use, over all
	// processes; 0 = unbounded. It is never exceeded.
	Budget time.Duration
	// HeldOut names the tools whose rewards are withheld; nil: none.
	HeldOut func(environment, tool string) bool
	// Canaries finds the canary episodes of an environment, whose calls are never
	// paid; nil: there are none.
	Canaries func(ctx context.Context, environment string) ([]Episode, error)
	// Decay is how much a training step counts in the next one's baselines; 0 = 0.9.
	Decay float64

	Hands   int // calls of the sandbox at once; 0 = the processors
	States  int // states of worlds that are kept; 0 = 2048
	Batches int // batches at once, beyond which it is CodeBusy; 0 = 64
}

// Hook audits and pays the outputs of trainers: the calibration hook. It is safe
// for concurrent use; Close it when no batch is being scored any more.
type Hook struct {
	config   HookConfig
	auditor  *Auditor
	states   *sessionCache
	canaries canaryPlaces
	each     atomic.Int64 // what one call of the sandbox cost of late, in ns

	mu      sync.Mutex
	jobs    map[Digest]*scoreJob // batches under way
	frozen  map[stepKey]*Baselines
	closed  bool
	working sync.WaitGroup
}

var _ Scorer = (*Hook)(nil)

type stepKey struct {
	run, policy string
	step        int64
}

// errHookClosed is the cause of what a closing hook leaves unfinished.
var errHookClosed = errors.New("the calibration hook is closing; ask again")

const (
	defaultStates  = 2048
	defaultBatches = 64
	defaultDecay   = 0.9
	frozenKept     = 64                   // baselines of as many steps stay in memory
	firstEach      = 2 * time.Millisecond // of a call, before one was seen
)

// NewHook returns a hook.
func NewHook(config HookConfig) (*Hook, error) {
	if config.Store == nil {
		return nil, &Error{Code: CodeInvalid, Message: "a calibration hook without a store", Hint: "rewards are paid once because a ledger remembers them: give one"}
	}
	auditor, err := New(config.Audit)
	if err != nil {
		return nil, err
	}
	if len(config.Secret) == 0 {
		config.Secret = []byte(rand.Text())
	}
	if config.Parse == nil {
		config.Parse = func(text string) Rehearsal { return Rehearsal{Raw: []byte(text)} }
	}
	positive := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	positive(&config.Hands, runtime.GOMAXPROCS(0))
	positive(&config.States, defaultStates)
	positive(&config.Batches, defaultBatches)
	if config.Decay <= 0 || config.Decay > 1 {
		config.Decay = defaultDecay
	}
	h := &Hook{
		config: config, auditor: auditor, states: newSessionCache(config.States),
		jobs: make(map[Digest]*scoreJob), frozen: make(map[stepKey]*Baselines),
	}
	h.canaries.find = config.Canaries
	h.each.Store(int64(firstEach))
	return h, nil
}

// Close waits for the batches under way to stop and ends the kept sessions. What
// was not paid by then is pending: the same batch again goes on with it.
func (h *Hook) Close() error {
	h.mu.Lock()
	h.closed = true
	for _, job := range h.jobs {
		job.stop(errHookClosed)
	}
	h.mu.Unlock()
	h.working.Wait()
	return errors.Join(h.states.close(), h.auditor.Close())
}

// scoreJob is a batch under way.
type scoreJob struct {
	id       Digest
	batch    ScoreBatch
	outputs  []*scoring
	resumed  bool // it was interrupted, and is pulled
	stop     context.CancelCauseFunc
	accepted chan struct{} // closed when the caller's own faults are ruled out
	answered chan struct{} // closed when every output has its answer
	done     chan struct{} // closed at the end
	err      error         // after done

	mu      sync.Mutex
	pending int
	answers []Reward // in the order of the outputs
}

// Score implements Scorer.
func (h *Hook) Score(ctx context.Context, batch ScoreBatch) (ScoredBatch, error) {
	if err := batch.check(); err != nil {
		return ScoredBatch{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, batch.deadline())
	defer cancel()
	batch.unpack()
	outputs, err := batch.prepare(h.config.Parse)
	if err != nil {
		return ScoredBatch{}, unprocessable(err)
	}
	job, answered, err := h.begin(ctx, batch, outputs, false)
	if err != nil {
		return ScoredBatch{}, err
	}
	scores, err := job.wait(ctx)
	for i := range scores.Scores { // only when the batch was answered before
		scores.Scores[i].Repeated = scores.Scores[i].Repeated || answered
	}
	return scores, err
}

// Scores implements Scorer.
func (h *Hook) Scores(ctx context.Context, id Digest, wait time.Duration) (ScoredBatch, error) {
	h.mu.Lock()
	job := h.jobs[id]
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, min(max(wait, time.Millisecond), maxDeadline))
	defer cancel()
	if job != nil {
		return job.wait(ctx)
	}
	kept, err := h.config.Store.Batch(context.WithoutCancel(ctx), id)
	if err != nil {
		return ScoredBatch{}, err
	}
	if kept.Done {
		return h.finished(context.WithoutCancel(ctx), &kept)
	}
	outputs, err := kept.Batch.prepare(h.config.Parse)
	if err != nil {
		return ScoredBatch{}, unprocessable(err)
	}
	if job, _, err = h.begin(ctx, kept.Batch, outputs, true); err != nil {
		return ScoredBatch{}, err
	}
	return job.wait(ctx)
}

// finished reads the scores of a batch that has ended.
func (h *Hook) finished(ctx context.Context, kept *AcceptedBatch) (ScoredBatch, error) {
	paid, err := h.config.Store.Paid(ctx, kept.Payees)
	if err != nil {
		return ScoredBatch{}, err
	}
	s := kept.Batch.scored(kept.ID)
	for i, id := range kept.Payees {
		r := paid[id].Reward
		if paid[id].Content != kept.Content[i] {
			r = conflicting(&r)
		}
		s.Scores = append(s.Scores, r)
	}
	return s, nil
}

func (b *ScoreBatch) scored(id Digest) ScoredBatch {
	return ScoredBatch{ID: id, Run: b.Run, Policy: b.Policy, Checkpoint: b.Checkpoint, Scores: make([]Reward, 0, len(b.Outputs))}
}

// begin joins the batch when it is under way, else starts it. It also reports
// whether every output had its answer by then. A batch outlives ctx: whoever
// waits for it may give up before it ends.
func (h *Hook) begin(ctx context.Context, batch ScoreBatch, outputs []*scoring, resumed bool) (job *scoreJob, answered bool, err error) {
	id := batchID(&batch, outputs)
	h.mu.Lock()
	defer h.mu.Unlock()
	if job := h.jobs[id]; job != nil {
		return job, job.hasAnswered(), nil
	}
	if h.closed {
		return nil, false, &Error{Code: CodeInfrastructure, Message: errHookClosed.Error()}
	}
	if len(h.jobs) >= h.config.Batches {
		return nil, false, &Error{Code: CodeBusy, Message: fmt.Sprintf("%d batches are being scored", len(h.jobs)), Hint: "send it again in a second"}
	}
	job = &scoreJob{
		id: id, batch: batch, outputs: outputs, resumed: resumed, pending: len(outputs), answers: make([]Reward, len(outputs)),
		accepted: make(chan struct{}), answered: make(chan struct{}), done: make(chan struct{}),
	}
	for i, s := range outputs {
		job.answers[i] = s.reward
	}
	ctx, job.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	h.jobs[id] = job
	h.working.Go(func() {
		defer job.stop(nil)
		job.err = contain("the audit of a batch", func() error { return h.settle(ctx, job) })
		h.mu.Lock()
		delete(h.jobs, id)
		h.mu.Unlock()
		close(job.done)
	})
	return job, false, nil
}

// wait returns the job's answers when they are all there, or what is there when
// ctx ends. A job that has failed without an answer is an error, but it is not
// called pending before its batch was accepted: until then nobody could pull it.
func (j *scoreJob) wait(ctx context.Context) (ScoredBatch, error) {
	select {
	case <-j.answered:
		return j.scored(), nil
	case <-j.done:
	case <-ctx.Done():
		select {
		case <-j.done:
		case <-j.accepted:
			return j.scored(), nil
		}
	}
	if j.err != nil {
		return ScoredBatch{}, j.err
	}
	return j.scored(), nil
}

// hasAnswered reports whether every output has its answer.
func (j *scoreJob) hasAnswered() bool {
	select {
	case <-j.answered:
		return true
	default:
		return false
	}
}

// scored is the batch as it stands.
func (j *scoreJob) scored() ScoredBatch {
	s := j.batch.scored(j.id)
	j.mu.Lock()
	defer j.mu.Unlock()
	s.Scores, s.Pending = append(s.Scores, j.answers...), j.pending
	return s
}

// answer publishes final rewards.
func (j *scoreJob) answer(settled map[*scoring]Reward) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, s := range j.outputs {
		r, ok := settled[s]
		if !ok || j.answers[i].Status != RewardPending {
			continue
		}
		j.answers[i] = r
		if j.pending--; j.pending == 0 {
			close(j.answered)
		}
	}
}

// unprocessable makes a fault of what a batch says one of the whole batch.
func unprocessable(err error) error {
	return &Error{Code: CodeUnprocessable, Message: "the batch cannot be scored", Hint: ErrorHint(err), Err: err}
}
