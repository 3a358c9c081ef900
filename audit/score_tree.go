package audit

// scoreNode is a state of the world that outputs of a batch share: where the
// same calls lead from the same start. In mode open what was answered counts
// too, for it decides how ids are translated.
type scoreNode struct {
	from        *scoreAction // that leads here; nil = the start
	trail, said Digest
	answer      Rehearsal // in mode open: what REHEARSE answered to from
	step        int
	actions     []*scoreAction
}

// scoreAction is a call made from a state: executed once, however many outputs
// rehearse it.
type scoreAction struct {
	at      *scoreNode
	call    Call
	digest  Digest
	outputs []*scoring
	next    []*scoreNode
}

// scoreTree holds the outputs of one start of one environment.
type scoreTree struct {
	root  *scoreNode
	mode  Mode
	place *Place // of the start, without sessions
}

// locate finds the place of an output in the tree, growing it where needed. The
// output's action is only returned: it is executed when it is drawn.
func (t *scoreTree) locate(s *scoring, parse func(string) Rehearsal) *scoreNode {
	at := t.root
	for i := range s.output.History {
		earlier := &s.output.History[i]
		var answer Rehearsal
		if t.mode == Open && earlier.Answer != nil {
			answer = parse(*earlier.Answer)
		}
		at = at.action(earlier.Call).after(answer, t.mode)
	}
	return at
}

// action finds a call made from the node, or makes it.
func (n *scoreNode) action(call Call) *scoreAction {
	digest := CallDigest(call)
	for _, a := range n.actions {
		if a.digest == digest {
			return a
		}
	}
	a := &scoreAction{at: n, call: call, digest: digest}
	n.actions = append(n.actions, a)
	return a
}

// after finds the state behind the action, or makes it.
func (a *scoreAction) after(answer Rehearsal, mode Mode) *scoreNode {
	next := &scoreNode{from: a, trail: extend(a.at.trail, a.digest), answer: answer, step: a.at.step + 1}
	if mode == Open {
		next.said = say(a.at.said, a.digest, &answer)
	}
	for _, n := range a.next {
		if n.said == next.said {
			return n
		}
	}
	a.next = append(a.next, next)
	return next
}

// prune drops what no drawn output needs and reports whether anything is left.
func (n *scoreNode) prune() bool {
	kept := n.actions[:0]
	for _, a := range n.actions {
		next := a.next[:0]
		for _, child := range a.next {
			if child.prune() {
				next = append(next, child)
			}
		}
		a.next = next
		if len(a.next) > 0 || len(a.outputs) > 0 {
			kept = append(kept, a)
		}
	}
	n.actions = kept
	return len(kept) > 0
}

// executions counts the calls that the tree makes, at most: what is cached is
// not made again.
func (n *scoreNode) executions() int {
	count := 0
	for _, a := range n.actions {
		count++
		for _, child := range a.next {
			count += child.executions()
		}
	}
	return count
}
