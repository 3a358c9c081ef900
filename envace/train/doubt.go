package train

import (
	"cmp"
	"fmt"

	"understudy/audit"
)

// doubt counts rollouts without a grade. When they are too many, training would go
// on with what happens to be gradable; it stops instead.
type doubt struct {
	rollouts, unknown int
	reason            string // of the last unknown
}

const (
	defaultMaxUnknown = 0.25
	fewRollouts       = 20 // below these a share says nothing: steps are counted together
)

// add counts groups; each verdict is on at least fewRollouts, and only on them.
func (d *doubt) add(groups [][]rolled, most float64) error {
	for _, group := range groups {
		for _, r := range group {
			d.rollouts++
			if r.grade.Unknown {
				d.unknown++
				d.reason = r.grade.Reason
			}
		}
	}
	if d.rollouts < fewRollouts {
		return nil
	}
	seen := *d
	*d = doubt{}
	if float64(seen.unknown) <= cmp.Or(most, defaultMaxUnknown)*float64(seen.rollouts) {
		return nil
	}
	return &audit.Error{
		Code: audit.CodeInfrastructure, Message: fmt.Sprintf("%d of %d rollouts have no grade, the last one since %s", seen.unknown, seen.rollouts, seen.reason),
		Hint: "look at the server of the judge, or at the world of the arm; the run goes on from its last checkpoint",
	}
}
