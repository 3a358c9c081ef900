package audit

import "understudy/audit/diff"

// compareEffects compares what the call changed with what the rehearsal says it
// changed.
func (j *judgement) compareEffects() {
	claimed := j.claim()
	j.flag(claimed.flags...)
	if claimed.source != "" {
		j.v.Claimed = claimed.cells.patchOf()
	}
	truth, known := j.realCells()
	if !known {
		j.unobservable(claimed)
		return
	}
	s := &j.v.Scores
	s.RealCells = new(len(truth))
	if claimed.source == "" || claimed.blindTo(truth) {
		j.unobservable(claimed)
		return
	}
	e := scoreEffect(truth, claimed)
	s.RehearsedCells, s.EffectSource = new(e.claimed), claimed.source
	s.PhantomWrite, s.SilentWrite = e.phantom, e.silent
	if j.writes() {
		s.EffectPrecision, s.EffectRecall, s.EffectF1 = new(e.precision), new(e.recall), new(e.f1)
	}
}

// realCells are the cells that the call really changed: seen by the probes where
// these are the claim's source, else of the whole state.
func (j *judgement) realCells() (cells, bool) {
	if j.at.probed != nil {
		return j.at.reads, true
	}
	if j.at.Observation.Delta == nil {
		return nil, false
	}
	truth, err := cellsOf(j.at.Observation.Delta, j.rules.limits)
	return truth, err == nil
}

// blindTo reports whether a claim by echo could not have shown any of the real
// changes, and shows none: silence that means nothing.
func (c *claim) blindTo(truth cells) bool {
	if c.scope == nil || len(truth) == 0 || len(c.cells) > 0 {
		return false
	}
	for pointer := range truth {
		if c.scope(pointer) {
			return false
		}
	}
	return true
}

// writes reports whether the call may change the world: declared, or seen to.
func (j *judgement) writes() bool {
	p := Pair{Effect: j.at.Tool.Effect, Observation: j.at.Observation, Verdict: Verdict{Claimed: j.v.Claimed}}
	return p.writes()
}

// unobservable notes a write whose effect cannot be compared. Where one side is
// an error the outcome has already said all there is to say.
func (j *judgement) unobservable(claimed claim) {
	if j.writes() && claimed.source != EffectByOutcome && !j.v.Real.IsError() {
		j.flag(FlagUnobservable)
		j.v.Scores.PhiMask = MaskUnobservable
	}
}

// claim finds what the rehearsal says it changed, by the best source at hand.
func (j *judgement) claim() claim {
	c := j.at
	if c.probed != nil {
		return *c.probed
	}
	if j.v.Rehearsed.IsError() {
		return claim{source: EffectByOutcome}
	}
	if len(c.Rehearsal.StateDelta) > 0 {
		block, err := claimByBlock(c.Rehearsal.StateDelta, j.rules.limits)
		if err == nil {
			block.cells = renamed(block.cells, j.ids)
			return block
		}
		// Its own fault, not an outage: nobody can buy a mask with it.
		return claim{source: EffectByBlock, unreadable: true, flags: []string{FlagBadStateDelta}}
	}
	echo := j.rules.echoOf(&c.Tool)
	if len(echo) == 0 || c.Tool.Effect == Read {
		return claim{}
	}
	arguments, err := diff.Decode(c.Call.Arguments, j.rules.limits)
	if err != nil {
		return claim{}
	}
	truth := j.real.Body
	if j.v.Real.IsError() {
		truth = diff.Value{} // an error repeats no state
	}
	said := renamed(echo.claims(arguments, j.rehearsed.Body), j.ids)
	return claimByEcho(said, echo.claims(arguments, truth), c.Observation.Delta, c.State)
}
