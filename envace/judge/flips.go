package judge

import (
	"context"

	"understudy/envace"
)

// Flips says how repeatable a judge is: of all pairs of answers to the same
// question, how many differ. An unknown is an answer too.
type Flips struct {
	Items int
	Pairs int
	Flips int
}

// Rate is the share of pairs that differ; 0 when there are none.
func (f Flips) Rate() float64 {
	if f.Pairs == 0 {
		return 0
	}
	return float64(f.Flips) / float64(f.Pairs)
}

// Flips asks every item of a trajectory k times, without retries and whatever it
// depends on.
func (j *Judge) Flips(ctx context.Context, t *envace.Trajectory, k int) (Flips, error) {
	var f Flips
	turns := turnsOf(t)
	for number, items := range j.Checklists[t.Task.ID] {
		if number >= len(turns) {
			break
		}
		for _, item := range items {
			messages, err := question(item, turns, number)
			if err != nil {
				return f, err
			}
			counts := map[Verdict]int{}
			for range k {
				verdict, err := j.once(ctx, messages, false)
				if err != nil {
					return f, err
				}
				counts[verdict]++
			}
			f.Items++
			f.Pairs += k * (k - 1) / 2
			f.Flips += k * (k - 1) / 2
			for _, n := range counts {
				f.Flips -= n * (n - 1) / 2
			}
		}
	}
	return f, nil
}
