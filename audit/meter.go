package audit

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
)

// errOverBudget is returned instead of a call that the budget has no room for.
var errOverBudget = errors.New("the sandbox seconds that were granted are used up")

// meter bounds the sandbox's time. A call begins only with a part of the budget
// in its hand, runs at most that long, and brings back what it did not use, so
// that calls side by side never spend more than there is. A nil meter only
// times calls out. It is safe for concurrent use.
type meter struct {
	mu   sync.Mutex
	back *sync.Cond // something was brought back
	left time.Duration
	out  int // calls under way
	used time.Duration
}

const (
	// leastGrant is below what any call is begun for.
	leastGrant = time.Millisecond
	// A call is told to end this share of its grant earlier, at most
	// lastMoment, because it needs a moment to stop.
	lastShare  = 10
	lastMoment = 50 * time.Millisecond
)

func newMeter(budget time.Duration) *meter {
	m := &meter{left: budget}
	m.back = sync.NewCond(&m.mu)
	return m
}

// run does work that ends after timeout, or when its part of the budget is used.
func (m *meter) run(ctx context.Context, timeout time.Duration, work func(ctx context.Context) error) error {
	if m == nil {
		timed, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return work(timed)
	}
	grant, ok := m.take(timeout)
	if !ok {
		return errOverBudget
	}
	timed, cancel := context.WithTimeout(ctx, grant-min(grant/lastShare, lastMoment))
	defer cancel()
	began := time.Now()
	defer func() { m.settle(grant, time.Since(began)) }()
	err := work(timed)
	if err != nil && grant < timeout && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return errOverBudget // the budget ended it, not the call's own limit
	}
	return err
}

// take waits for a part of the budget: the whole timeout where that is there,
// else what is left, half of it while others may need the rest.
func (m *meter) take(timeout time.Duration) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.left < leastGrant {
		if m.out == 0 {
			return 0, false
		}
		m.back.Wait()
	}
	grant := min(timeout, max(m.left/2, leastGrant))
	m.left -= grant
	m.out++
	return grant, true
}

// settle brings back what a call did not use. What it ran over is the time that
// this machine took to stop it: the sandbox was told to end within the grant.
func (m *meter) settle(grant, used time.Duration) {
	used = min(used, grant)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left += grant - used
	m.used += used
	m.out--
	m.back.Broadcast()
}

// spent is the sandbox's time so far.
func (m *meter) spent() time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// thin scales inclusion probabilities so that what is expected to be audited
// fits into the budget: with less time than calls, each is as likely as before
// relative to the others (design.md 3).
func thin(probabilities []float64, each, budget time.Duration) {
	expected := 0.0
	for _, pi := range probabilities {
		expected += pi * each.Seconds()
	}
	if expected <= budget.Seconds() || expected == 0 {
		return
	}
	share := budget.Seconds() / expected
	for i, pi := range probabilities {
		probabilities[i] = math.Max(pi*share, minInclusion)
	}
}
