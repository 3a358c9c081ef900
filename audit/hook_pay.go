package audit

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
)

// payroll pays outputs as they are judged, in groups: one transaction for many,
// while the sandbox goes on with the rest.
type payroll struct {
	pay   func(outputs []*scoring) error
	group errgroup.Group

	mu    sync.Mutex
	ready []*scoring
}

// payGroup is how many outputs share a transaction: enough to share its cost,
// few enough that PostgreSQL works while the sandbox does.
const payGroup = 128

// judged takes outputs whose verdicts are there.
func (p *payroll) judged(outputs ...*scoring) {
	p.mu.Lock()
	p.ready = append(p.ready, outputs...)
	var due []*scoring
	if len(p.ready) >= payGroup {
		due, p.ready = p.ready, nil
	}
	p.mu.Unlock()
	if due != nil {
		p.hand(due)
	}
}

func (p *payroll) hand(due []*scoring) {
	p.group.Go(func() error { return contain("the payment of rewards", func() error { return p.pay(due) }) })
}

// end pays the rest, unless the work was broken off, and waits.
func (p *payroll) end(whole bool) error {
	if whole && len(p.ready) > 0 {
		p.hand(p.ready)
	}
	return p.group.Wait()
}

// pay commits verdicts and rewards, then answers.
func (w *settlement) pay(ctx context.Context, outputs []*scoring) error {
	payments := make([]Payment, 0, len(outputs))
	first := make(map[Digest]bool, len(outputs))
	for _, s := range outputs {
		w.reward(s)
		if first[s.id] {
			continue // the same output twice in a batch is paid once
		}
		first[s.id] = true
		p := Payment{Reward: s.reward, Policy: w.job.batch.Policy, Content: s.content}
		if s.drawn {
			p.Pair = &s.pair
		}
		payments = append(payments, p)
	}
	stand, err := w.hook.config.Store.Pay(ctx, w.job.batch.Run, w.job.id, payments)
	if err != nil {
		return fmt.Errorf("pay: %w", err)
	}
	answers := make(map[*scoring]Reward, len(outputs))
	for _, s := range outputs {
		p, ok := stand[s.id]
		switch {
		case ok && p.Content != s.content:
			answers[s] = s.repeat(p)
		case ok && (p.Reward.Repeated || !first[s.id]):
			answers[s] = s.repeat(p)
		case ok:
			answers[s] = p.Reward
			first[s.id] = false // a second one is a repetition
		}
	}
	w.job.answer(answers)
	return nil
}

// reward is what an output is paid.
func (w *settlement) reward(s *scoring) {
	if s.settled {
		return
	}
	blank := s.reward
	r := RewardOf(&s.pair, w.baselines)
	r.ID, r.Detail = s.id, s.pair.Verdict.MaskDetail
	held := w.hook.config.HeldOut
	switch {
	case held != nil && held(s.pair.Environment, r.Tool):
		// Nothing of the verdict leaves: any member of it could be made a reward.
		s.reward = blank
		s.reward.Version = r.Version
		s.mask(MaskHeldOut)
		return
	case s.pair.Verdict.Cascaded:
		s.reward = blank
		s.reward.Version, s.reward.Evidence = r.Version, r.Evidence
		s.mask(MaskCascaded)
		return
	}
	s.reward, s.settled = r, true
}
