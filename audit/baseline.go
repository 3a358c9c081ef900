package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Baselines are the mean φ by (tool, real outcome), frozen for one training
// step, so that every reward of the step is measured against the same numbers
// and none against itself (design.md 6). A nil *Baselines knows nothing: every
// baseline is the prior.
type Baselines struct {
	version int64
	means   map[baselineKey]mean
}

// baselineKey with an empty tool pools the tools of one outcome; with an empty
// outcome as well, it pools everything.
type baselineKey struct{ tool, outcome string }

type mean struct{ sum, n float64 }

const (
	priorPhi      = 0.5 // what φ is taken for before anything was seen
	priorStrength = 4   // pairs that a parent counts as: a key with few pairs leans on its pool
)

// Version is the training step that the baselines were frozen for; 0 for none.
func (b *Baselines) Version() int64 {
	if b == nil {
		return 0
	}
	return b.version
}

// Of is the baseline of a tool's pairs with that real outcome: the mean φ,
// shrunk towards the outcome's mean over all tools, and that towards 0.5.
func (b *Baselines) Of(tool string, truth Outcome) float64 {
	if b == nil {
		return priorPhi
	}
	at := priorPhi
	for _, key := range []baselineKey{{}, {outcome: truth.Label()}, {tool, truth.Label()}} {
		m := b.means[key]
		at = (m.sum + priorStrength*at) / (m.n + priorStrength)
	}
	return at
}

// Baseline is one stored mean: an empty tool pools the tools of one outcome, an
// empty outcome pools everything.
type Baseline struct {
	Tool    string  `json:"tool"`
	Outcome string  `json:"outcome"` // label of the real outcome
	Sum     float64 `json:"sum"`     // Σ w·φ
	Weight  float64 `json:"weight"`  // Σ w
}

// Next is the baselines of a later step: what these know counts decay times as
// much, and what was seen since is added. Of nil it is the first step's.
func (b *Baselines) Next(step int64, decay float64, seen []Baseline) *Baselines {
	next := &Baselines{version: step, means: make(map[baselineKey]mean)}
	if b != nil {
		for key, m := range b.means {
			next.means[key] = mean{m.sum * decay, m.n * decay}
		}
	}
	for _, s := range seen {
		if !finite(s.Sum) || !finite(s.Weight) || s.Weight <= 0 {
			continue
		}
		s.Sum = clip(s.Sum, 0, s.Weight) // φ is in [0,1]
		for _, key := range []baselineKey{{}, {outcome: s.Outcome}, {s.Tool, s.Outcome}} {
			m := next.means[key]
			if sum := (mean{m.sum + s.Sum, m.n + s.Weight}); finite(sum.n) {
				next.means[key] = sum
			}
		}
	}
	return next
}

// MarshalJSON writes the baselines with their version, sorted.
func (b *Baselines) MarshalJSON() ([]byte, error) {
	w := baselinesJSON{Version: b.Version(), Means: []Baseline{}}
	if b != nil {
		for key, m := range b.means {
			w.Means = append(w.Means, Baseline{key.tool, key.outcome, m.sum, m.n})
		}
	}
	slices.SortFunc(w.Means, func(x, y Baseline) int {
		return cmp.Or(cmp.Compare(x.Tool, y.Tool), cmp.Compare(x.Outcome, y.Outcome))
	})
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Baselines) UnmarshalJSON(text []byte) error {
	var w baselinesJSON
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("baselines: %w", err)
	}
	*b = Baselines{version: w.Version, means: make(map[baselineKey]mean, len(w.Means))}
	for _, m := range w.Means {
		b.means[baselineKey{m.Tool, m.Outcome}] = mean{m.Sum, m.Weight}
	}
	return nil
}

type baselinesJSON struct {
	Version int64      `json:"version"`
	Means   []Baseline `json:"means"`
}
