package audit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"understudy/audit/diff"
)

// batchID identifies a batch by what it asks.
func batchID(b *ScoreBatch, outputs []*scoring) Digest {
	text := appendSized(make([]byte, 0, 64*len(outputs)), b.Run)
	for _, s := range outputs {
		text = append(append(text, s.id[:]...), s.content[:]...)
	}
	return sha256.Sum256(text)
}

// settle takes a batch from its outputs to their rewards:
//
//	paid before? ──► place, π, draw ──► Accept ──► execute, judge ──► Pay ──► EndBatch
//
// Nothing is executed before Accept has committed, and nothing is answered
// before Pay has.
func (h *Hook) settle(ctx context.Context, job *scoreJob) error {
	left, err := h.recall(ctx, job)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		if !job.resumed {
			return nil
		}
		return h.config.Store.EndBatch(ctx, AcceptedBatch{ID: job.id, Batch: job.batch}, 0, job.scored())
	}
	w := &settlement{hook: h, job: job, trees: make(map[Digest]*scoreTree)}
	if err := w.plant(ctx, left); err != nil {
		return unprocessableUnlessOurs(err)
	}
	b := &job.batch
	if w.baselines, err = h.freeze(ctx, b); err != nil {
		return err
	}
	if err := w.draw(ctx, left); err != nil {
		return err
	}
	if err := w.accept(ctx, left); err != nil {
		return err
	}
	close(job.accepted)
	if err := w.run(ctx, left); err != nil {
		return err
	}
	if err := w.report(ctx); err != nil {
		return err
	}
	h.learn(w)
	return h.config.Store.EndBatch(ctx, w.accepted, w.meter.spent(), job.scored())
}

// unprocessableUnlessOurs keeps infrastructure's errors what they are.
func unprocessableUnlessOurs(err error) error {
	switch ErrorCode(err) {
	case CodeInvalid, CodeNotFound, CodeConflict, CodeLimit, CodeUnprocessable:
		return unprocessable(err)
	case CodeUnauthorized, CodeForbidden, CodeInfrastructure, CodeInternal, CodeBusy:
	}
	return err
}

// recall answers the outputs that were paid before, and those that are there
// twice, and returns the others.
func (h *Hook) recall(ctx context.Context, job *scoreJob) ([]*scoring, error) {
	ids := make([]Digest, len(job.outputs))
	for i, s := range job.outputs {
		ids[i] = s.id
	}
	paid, err := h.config.Store.Paid(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("look for earlier payments: %w", err)
	}
	answers := make(map[*scoring]Reward, len(paid))
	var left []*scoring
	for _, s := range job.outputs {
		if p, ok := paid[s.id]; ok {
			answers[s] = s.repeat(p)
			continue
		}
		left = append(left, s)
	}
	job.answer(answers)
	return left, nil
}

// repeat is the answer to an output whose payee has a reward already.
func (s *scoring) repeat(p Payment) Reward {
	if p.Content != s.content {
		s.reward, s.settled = conflicting(&p.Reward), true
		return s.reward
	}
	p.Reward.Repeated = true
	return p.Reward
}

// conflicting is the answer to an output whose payee was paid for another one.
// Nothing of its own verdict is in it: any member could be made a reward.
func conflicting(paid *Reward) Reward {
	return Reward{
		Status: RewardMasked, Reason: MaskConflict, ID: paid.ID, Checkpoint: paid.Checkpoint,
		Episode: paid.Episode, Step: paid.Step, Sample: paid.Sample, Attempt: paid.Attempt, Tool: paid.Tool,
	}
}

// settlement is the work on one batch.
type settlement struct {
	hook      *Hook
	job       *scoreJob
	trees     map[Digest]*scoreTree
	places    []*scoreTree // the trees in the order of the batch
	nodes     map[*scoring]*scoreNode
	baselines *Baselines
	accepted  AcceptedBatch
	meter     *meter
	alarmed   bool // a canary was met
}

// plant finds the place of every output that may be audited.
func (w *settlement) plant(ctx context.Context, outputs []*scoring) error {
	w.nodes = make(map[*scoring]*scoreNode, len(outputs))
	for _, s := range outputs {
		if s.output.Role == RoleAct {
			s.mask(MaskNotRehearsal)
			continue
		}
		tree, err := w.tree(ctx, s)
		if err != nil {
			return fmt.Errorf("environment %s: %w", s.output.Environment, err)
		}
		node := tree.locate(s, w.hook.config.Parse)
		w.nodes[s] = node
		digest := CallDigest(s.output.Call)
		at := *tree.place
		at.episode, at.trail = &s.episode, node.trail
		at.policy, at.prompt = policyDigest(&s.episode), promptDigest(&s.episode, nil)
		s.pair = at.pair(s.action, digest, at.tool(s.output.Call.Tool).Effect)
		s.reward.Key = s.pair.Key
		canary, err := w.hook.canaries.holds(ctx, at.info.Name, canaryPlace(at.initial, node.trail, digest))
		if err != nil {
			return err
		}
		if canary {
			s.mask(MaskCanary)
			w.alarmed = true
		}
	}
	return nil
}

// tree is the tree that an output belongs to.
func (w *settlement) tree(ctx context.Context, s *scoring) (*scoreTree, error) {
	o := s.output
	key := Digest(sha256.Sum256(appendSized(append(appendSized(nil, o.Environment), s.initial[:]...), string(o.Mode))))
	if t := w.trees[key]; t != nil {
		return t, nil
	}
	place, err := w.hook.auditor.place(ctx, &Episode{Environment: o.Environment, Start: o.Start, Mode: o.Mode})
	if err != nil {
		return nil, err
	}
	t := &scoreTree{root: &scoreNode{}, mode: o.Mode, place: place}
	w.trees[key] = t
	w.places = append(w.places, t)
	return t, nil
}

// draw decides which outputs are audited, and thins π out where the budget of
// the step would not reach.
func (w *settlement) draw(ctx context.Context, outputs []*scoring) error {
	h := w.hook
	w.agree(outputs)
	var (
		candidates    []*scoring
		probabilities []float64
	)
	for _, s := range outputs {
		if s.settled {
			continue
		}
		pi := 1.0
		if h.config.Inclusion != nil {
			tool := Tool{Name: s.output.Call.Tool, Effect: s.pair.Effect}
			pi = clipInclusion(h.config.Inclusion(tool, &s.action))
		}
		candidates, probabilities = append(candidates, s), append(probabilities, pi)
	}
	if h.config.Budget > 0 {
		b := &w.job.batch
		spent, err := h.config.Store.Spent(ctx, b.Run, b.Policy, b.Checkpoint)
		if err != nil {
			return fmt.Errorf("look at the budget: %w", err)
		}
		thin(probabilities, time.Duration(h.each.Load()), max(h.config.Budget-spent, 0))
	}
	for i, s := range candidates {
		s.draw = draw(h.config.Secret, s.pair.Key, probabilities[i])
		s.drawn = s.draw.Included()
		s.action.Inclusion, s.pair.Action.Inclusion, s.reward.Inclusion = s.draw.Inclusion, s.draw.Inclusion, s.draw.Inclusion
		if !s.drawn {
			s.mask(MaskNotSampled)
			continue
		}
		a := w.nodes[s].action(s.output.Call)
		a.outputs = append(a.outputs, s)
	}
	return nil
}

// agree notes for each of several rehearsals of one action which share of the
// others says the same: who contradicts its siblings is audited more often.
func (w *settlement) agree(outputs []*scoring) {
	type place struct {
		node *scoreNode
		call Digest
	}
	siblings := make(map[place][]*scoring)
	for _, s := range outputs {
		if n := w.nodes[s]; n != nil && !s.settled {
			at := place{n, CallDigest(s.output.Call)}
			siblings[at] = append(siblings[at], s)
		}
	}
	for _, group := range siblings {
		if len(group) < 2 || w.hook.config.Inclusion == nil {
			continue
		}
		said := make([]Digest, len(group))
		counts := make(map[Digest]int, len(group))
		for i, s := range group {
			said[i] = answerDigest(s.rehearsal.Raw)
			counts[said[i]]++
		}
		for i, s := range group {
			s.rehearsal.Agreement = new(float64(counts[said[i]]-1) / float64(len(group)-1))
		}
	}
}

// answerDigest identifies an answer by its value, else by its bytes.
func answerDigest(raw []byte) Digest {
	if v, err := diff.Decode(raw, diff.Limits{}); err == nil {
		return Digest(diff.Hash(v))
	}
	return sha256.Sum256(raw)
}

// accept keeps the batch with its draws, and takes its part of the budget.
func (w *settlement) accept(ctx context.Context, left []*scoring) error {
	h := w.hook
	w.accepted = AcceptedBatch{ID: w.job.id, Batch: w.job.batch, Budget: h.config.Budget}
	for _, s := range w.job.outputs {
		w.accepted.Payees, w.accepted.Content = append(w.accepted.Payees, s.id), append(w.accepted.Content, s.content)
	}
	for _, s := range left {
		if !s.draw.Key.IsZero() {
			w.accepted.Draws = append(w.accepted.Draws, s.draw)
		}
	}
	calls := 0
	for _, t := range w.places {
		t.root.prune()
		calls += t.root.executions()
	}
	if h.config.Budget > 0 {
		// A generous part, so that nothing is masked that there was time for; what
		// is not used goes back.
		const generous = 20
		each := max(time.Duration(h.each.Load())*generous, 50*time.Millisecond)
		w.accepted.Want = time.Duration(calls) * each
	}
	granted, err := h.config.Store.Accept(ctx, w.accepted)
	if err != nil {
		return fmt.Errorf("keep the batch: %w", err)
	}
	w.accepted.Granted = granted
	if h.config.Budget > 0 {
		w.meter = newMeter(granted)
		for _, t := range w.places {
			t.place.meter = w.meter
		}
	}
	return nil
}

// run executes the trees and pays as verdicts come in.
func (w *settlement) run(ctx context.Context, outputs []*scoring) error {
	pay := payroll{pay: func(outputs []*scoring) error { return w.pay(ctx, outputs) }}
	hands, working := errgroup.WithContext(ctx)
	hands.SetLimit(w.hook.config.Hands)
	var unsettled []*scoring
	for _, s := range outputs {
		if s.settled {
			unsettled = append(unsettled, s)
		}
	}
	pay.judged(unsettled...)
	for _, t := range w.places {
		walker := &walk{auditor: w.hook.auditor, tree: t, states: w.hook.states, group: hands, judged: pay.judged}
		hands.Go(func() error { return contain("the audit of outputs", func() error { return walker.run(working) }) })
	}
	err := hands.Wait()
	if paid := pay.end(err == nil); err == nil {
		err = paid
	}
	return err
}

// learn remembers what a call cost, for the next batch's budget.
func (h *Hook) learn(w *settlement) {
	if w.meter == nil {
		return
	}
	calls := 0
	for _, t := range w.places {
		calls += t.root.executions()
	}
	if calls > 0 {
		now, before := w.meter.spent()/time.Duration(calls), time.Duration(h.each.Load())
		h.each.Store(int64((3*before + now) / 4))
	}
}

// freeze is the baselines of the batch's step; the first to ask for them also
// looks for alarms in the steps before.
func (h *Hook) freeze(ctx context.Context, b *ScoreBatch) (*Baselines, error) {
	key := stepKey{b.Run, b.Policy, b.Checkpoint}
	h.mu.Lock()
	kept := h.frozen[key]
	h.mu.Unlock()
	if kept != nil {
		return kept, nil
	}
	baselines, first, err := h.config.Store.Freeze(ctx, b.Run, b.Policy, b.Checkpoint, h.config.Decay)
	if err != nil {
		return nil, fmt.Errorf("freeze the baselines: %w", err)
	}
	if first {
		if err := h.watch(ctx, b); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.frozen) >= frozenKept {
		clear(h.frozen)
	}
	h.frozen[key] = baselines
	return baselines, nil
}

// watch raises the alarms that the steps before show.
func (h *Hook) watch(ctx context.Context, b *ScoreBatch) error {
	steps, err := h.config.Store.Steps(ctx, b.Run, b.Policy, b.Checkpoint)
	if err != nil {
		return fmt.Errorf("sum up the training steps: %w", err)
	}
	alarms := TrainingAlarms(steps)
	for i := range alarms {
		alarms[i].Run, alarms[i].Policy = b.Run, b.Policy
	}
	if len(alarms) == 0 {
		return nil
	}
	return h.config.Store.Raise(ctx, alarms)
}
