package audit

import (
	"strings"

	"understudy/audit/stat"
)

// SweepRule says when N private rehearsals of a call hold it back.
type SweepRule string

// The rules.
const (
	AnyError      SweepRule = "any"      // one of the rehearsals is an error
	MajorityError SweepRule = "majority" // more than half of them are
)

// SweepPoint is what N rehearsals before a commit would have been worth: a call
// that they foresee to fail is held back.
type SweepPoint struct {
	Rule       SweepRule     `json:"rule"`
	Attempts   int           `json:"attempts"`
	Avoided    stat.Estimate `json:"avoided"`    // of calls that the sandbox refuses: held back
	Suppressed stat.Estimate `json:"suppressed"` // of calls that succeed: held back as well
}

// RehearsalSweep reads what N = 1, 2, ... rehearsals of one call would have
// decided from calls that were rehearsed several times. Only calls with at
// least two rehearsals that have a number take part, each N over the calls that
// have so many. Nil when there is none.
func RehearsalSweep(calls []AuditedCall) []SweepPoint {
	attempts := rehearsedAgain(calls)
	most := 0
	for _, a := range attempts {
		most = max(most, len(a.errors))
	}
	var points []SweepPoint
	for _, rule := range []SweepRule{AnyError, MajorityError} {
		for n := 1; n <= most; n++ {
			points = append(points, sweepPoint(attempts, rule, n))
		}
	}
	return points
}

// rehearsedCall is one call with what its rehearsals foresaw.
type rehearsedCall struct {
	group  string
	weight float64
	fails  bool   // in the sandbox
	errors []bool // by rehearsal
}

func rehearsedAgain(calls []AuditedCall) []rehearsedCall {
	type place struct {
		episode              Digest
		step, probe, attempt int
	}
	index := map[place]int{}
	var all []rehearsedCall
	for i := range calls {
		c := &calls[i]
		if c.Masked != "" || c.Cascaded {
			continue
		}
		at := place{c.EpisodeID, c.Step, c.Probe, c.Attempt}
		j, seen := index[at]
		if !seen {
			j = len(all)
			index[at] = j
			all = append(all, rehearsedCall{group: c.PromptGroup, weight: c.Weight, fails: isError(c.Real)})
		}
		all[j].errors = append(all[j].errors, isError(c.Rehearsed))
	}
	several := all[:0]
	for _, a := range all {
		if len(a.errors) > 1 {
			several = append(several, a)
		}
	}
	return several
}

func isError(outcome string) bool { return strings.HasPrefix(outcome, string(Failed)) }

func sweepPoint(calls []rehearsedCall, rule SweepRule, n int) SweepPoint {
	avoided, suppressed := map[string]Counters{}, map[string]Counters{}
	const held Counter = "held_back"
	for _, c := range calls {
		if len(c.errors) < n {
			continue
		}
		into := suppressed
		if c.fails {
			into = avoided
		}
		if into[c.group] == nil {
			into[c.group] = Counters{}
		}
		into[c.group].add(held, indicator(rule.holdsBack(c.errors[:n])), c.weight)
	}
	const confidence = .95
	return SweepPoint{
		Rule: rule, Attempts: n,
		Avoided:    stat.ClusteredWilson(clusters(avoided, held), confidence),
		Suppressed: stat.ClusteredWilson(clusters(suppressed, held), confidence),
	}
}

func (r SweepRule) holdsBack(errors []bool) bool {
	n := 0
	for _, foreseen := range errors {
		if foreseen {
			n++
		}
	}
	if r == AnyError {
		return n > 0
	}
	return 2*n > len(errors)
}
