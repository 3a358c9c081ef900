package audit

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
)

// walk executes a tree of outputs: each call once from each state, the outputs
// judged right after it, siblings side by side.
type walk struct {
	auditor *Auditor
	tree    *scoreTree
	states  *sessionCache
	group   *errgroup.Group   // of hands; what finds none free is done by the one at hand
	judged  func(...*scoring) // told of outputs as they are judged; safe for concurrent use
}

// run walks the whole tree, from the states of it that are kept.
func (w *walk) run(ctx context.Context) error {
	if at := w.tree.place; at.mask != "" {
		w.maskBelow(w.tree.root, at.mask, at.detail)
		return nil
	}
	starts, left := w.enter(ctx, nil, w.tree.root)
	if left {
		at, err := w.open(ctx, w.tree.root)
		if err != nil {
			for _, s := range starts {
				s.at.close()
			}
			return err
		}
		starts = append(starts, start{w.tree.root, at})
	}
	var failed error
	for _, s := range starts {
		if failed != nil {
			s.at.close()
		} else if !w.hand(func() error { return w.visit(ctx, s.node, s.at) }) {
			failed = w.visit(ctx, s.node, s.at)
		}
	}
	return failed
}

// hand has a free hand do the work. Its panic is an error: the other hands' work
// stands, and so does the process.
func (w *walk) hand(work func() error) bool {
	return w.group.TryGo(func() error { return contain("the audit of outputs", work) })
}

// start is a node whose state is at hand.
type start struct {
	node *scoreNode
	at   *Place
}

// enter finds the states below n that are kept, the deepest first, and cuts what
// they lead to out of the tree. It reports whether anything is left to reach from
// n's own state, which is not kept.
func (w *walk) enter(ctx context.Context, starts []start, n *scoreNode) (_ []start, left bool) {
	actions := n.actions[:0]
	for _, a := range n.actions {
		if len(a.outputs) == 0 { // only leads to other states
			next := a.next[:0]
			for _, child := range a.next {
				if starts, left = w.enter(ctx, starts, child); left {
					next = append(next, child)
				}
			}
			a.next = next
		}
		if len(a.outputs) > 0 || len(a.next) > 0 {
			actions = append(actions, a)
		}
	}
	n.actions = actions
	if len(actions) == 0 {
		return starts, false
	}
	if at := w.resume(ctx, n); at != nil {
		return append(starts, start{n, at}), false
	}
	return starts, true
}

// resume is a copy of the kept state of a node, or nil.
func (w *walk) resume(ctx context.Context, n *scoreNode) *Place {
	at := *w.tree.place
	kept := w.states.borrow(ctx, at.cacheKey(n.trail, n.said))
	if kept == nil {
		return nil
	}
	at.session, at.trail, at.said, at.history = kept.session, kept.trail, kept.said, slices.Clip(kept.history)
	at.ids, at.forked = kept.ids.Clone(), kept.forked
	return &at
}

// open reaches a node from the start by executing its calls.
func (w *walk) open(ctx context.Context, n *scoreNode) (*Place, error) {
	at := *w.tree.place
	at.ids = at.ids.Clone()
	err := at.meter.run(ctx, at.auditor.config.CallTimeout, func(ctx context.Context) error {
		return contain("the sandbox", func() error { return at.openSessions(ctx, nil) })
	})
	if err != nil {
		at.close()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		reason := MaskSandboxUnavailable
		if err == errOverBudget { //nolint:errorlint // it is returned bare
			reason = MaskOverBudget
		}
		at.session, at.twin = nil, nil
		at.stop(reason, err.Error())
		return &at, nil
	}
	for way := n.way(); len(way) > 0; way = way[1:] {
		if err := w.replay(ctx, &at, way[0]); err != nil {
			at.close()
			return nil, err
		}
	}
	return &at, nil
}

// way is the nodes from the start to n, without the start.
func (n *scoreNode) way() []*scoreNode {
	var way []*scoreNode
	for ; n.from != nil; n = n.from.at {
		way = append(way, n)
	}
	slices.Reverse(way)
	return way
}

// replay executes the call that leads to a node.
func (w *walk) replay(ctx context.Context, at *Place, n *scoreNode) error {
	if at.mask != "" {
		return nil
	}
	planned := n.from.planned()
	seen, err := at.execute(ctx, &planned)
	if err != nil {
		return fmt.Errorf("reach step %d: %w", n.step, err)
	}
	w.advance(at, n, &seen)
	return nil
}

// planned is the action as the auditor executes it.
func (a *scoreAction) planned() Planned {
	return Planned{call: a.call, digest: a.digest, samples: []Action{{Step: a.at.step, Call: a.call}}}
}

// advance moves a place behind the call that leads to n, in mode open with what
// REHEARSE answered to it.
func (w *walk) advance(at *Place, n *scoreNode, seen *sighting) {
	planned := n.from.planned()
	if at.episode.Mode == Open {
		planned.samples[0].Rehearsal = &n.answer
	}
	at.advance(&planned, nil, seen)
}

// visit executes every action from a node whose state is at hand, which it ends
// or keeps.
func (w *walk) visit(ctx context.Context, n *scoreNode, at *Place) error {
	forks := at.forkable()
	for i, a := range n.actions {
		if ctx.Err() != nil {
			at.close()
			return context.Cause(ctx)
		}
		here := at
		if forks || i < len(n.actions)-1 {
			var err error
			if here, err = w.branch(ctx, n, at); err != nil {
				at.close()
				return err
			}
		}
		if here != at && i < len(n.actions)-1 && w.hand(func() error { return w.act(ctx, a, here) }) {
			continue
		}
		if err := w.act(ctx, a, here); err != nil {
			if here != at {
				at.close()
			}
			return err
		}
	}
	if forks || len(n.actions) == 0 {
		w.keep(at)
	}
	return nil
}

// forkable reports whether copies of the state cost no replay.
func (at *Place) forkable() bool {
	_, ok := at.session.(Forker)
	return ok && at.twin == nil && slices.Contains(at.info.Capabilities, CanFork)
}

// branch copies a place: by a fork where the sandbox can, else by a replay.
func (w *walk) branch(ctx context.Context, n *scoreNode, at *Place) (*Place, error) {
	if at.mask != "" {
		copied := *at
		copied.session, copied.twin = nil, nil
		return &copied, nil
	}
	if !at.forkable() {
		return w.open(ctx, n)
	}
	var session Session
	err := contain("the sandbox", func() (err error) {
		session, err = at.session.(Forker).Fork(ctx)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return w.open(ctx, n)
	}
	copied := *at
	copied.session, copied.ids, copied.history = session, at.ids.Clone(), slices.Clip(at.history)
	return &copied, nil
}

// act executes one action, judges the outputs that rehearse it, and goes on
// from the states behind it.
func (w *walk) act(ctx context.Context, a *scoreAction, at *Place) error {
	if at.mask != "" {
		w.maskAction(a, at.mask, at.detail)
		at.close()
		return nil
	}
	planned := a.planned()
	before := *at // judging does not move the place
	seen, err := at.execute(ctx, &planned)
	if err != nil {
		at.close()
		return fmt.Errorf("audit step %d: %w", a.at.step, err)
	}
	for _, s := range a.outputs {
		s.judge(&before, &seen)
	}
	if err := w.check(ctx, a, at); err != nil {
		at.close()
		return err
	}
	w.judged(a.outputs...)
	if len(a.next) == 0 {
		w.leave(a, at, &seen)
		return nil
	}
	for i, n := range a.next {
		here := at
		if i < len(a.next)-1 {
			if here, err = w.branchBehind(ctx, n, at, &seen); err != nil {
				at.close()
				return err
			}
		} else {
			w.advance(here, n, &seen)
		}
		if err := w.visit(ctx, n, here); err != nil {
			if here != at {
				at.close()
			}
			return err
		}
	}
	return nil
}

// branchBehind copies a place that has executed the call to n and stands there.
func (w *walk) branchBehind(ctx context.Context, n *scoreNode, at *Place, seen *sighting) (*Place, error) {
	if !at.forkable() && at.mask == "" {
		return w.open(ctx, n)
	}
	here, err := w.branch(ctx, n, at)
	if err == nil && (here.mask == "" || at.mask != "") {
		w.advance(here, n, seen)
	}
	return here, err
}

// leave keeps the state behind an action, for the batch that goes on from there.
// In mode open that state depends on an answer: the one that was rehearsed.
func (w *walk) leave(a *scoreAction, at *Place, seen *sighting) {
	n := &scoreNode{from: a, step: a.at.step + 1}
	if at.episode.Mode == Open {
		if len(a.outputs) != 1 {
			at.close()
			return
		}
		n.answer = a.outputs[0].rehearsal
	}
	w.advance(at, n, seen)
	w.keep(at)
}

// keep hands a state to the cache, or ends it.
func (w *walk) keep(at *Place) {
	if at.session == nil || at.twin != nil || at.mask != "" || w.states.max <= 0 {
		at.close()
		return
	}
	w.states.put(&keptSession{
		key: at.cacheKey(at.trail, at.said), session: at.session, trail: at.trail, said: at.said,
		history: at.history, ids: at.ids, forked: at.forked,
	})
}

// judge fills in the pair of a drawn output. The place is of before the call.
func (s *scoring) judge(before *Place, seen *sighting) {
	at := *before
	at.episode = &s.episode
	at.ids = before.ids.Clone()
	pairs := []Pair{s.pair}
	at.judge(pairs, []Rehearsal{s.rehearsal}, seen)
	if s.episode.Mode == Open {
		at.fork(pairs)
	}
	s.pair = pairs[0]
}

// check evaluates the task's terminal checks behind an episode's last output.
func (w *walk) check(ctx context.Context, a *scoreAction, at *Place) error {
	last := slices.ContainsFunc(a.outputs, func(s *scoring) bool { return s.output.Success != nil })
	checker, ok := at.session.(Checker)
	if !last || !ok || at.mask != "" || at.episode.Start.Task == "" || !slices.Contains(at.info.Capabilities, CanCheck) {
		return nil
	}
	var result CheckResult
	err := at.meter.run(ctx, w.auditor.config.CallTimeout, func(ctx context.Context) error {
		return contain("the sandbox", func() (err error) {
			result, err = checker.Check(ctx, at.episode.Start.Task)
			return err
		})
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil // no terminal success is known
	}
	for _, s := range a.outputs {
		if s.output.Success != nil {
			s.pair.Executed = new(result.Success())
		}
	}
	return nil
}

// maskBelow masks every output from a node on.
func (w *walk) maskBelow(n *scoreNode, reason MaskReason, detail string) {
	for _, a := range n.actions {
		w.maskAction(a, reason, detail)
	}
}

func (w *walk) maskAction(a *scoreAction, reason MaskReason, detail string) {
	for _, s := range a.outputs {
		s.pair.Verdict.mask(reason, detail)
	}
	w.judged(a.outputs...)
	for _, n := range a.next {
		w.maskBelow(n, reason, detail)
	}
}
