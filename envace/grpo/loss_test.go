package grpo_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"understudy/envace/grpo"
)

func randomRow(random *rand.Rand, n int, advantage float64) grpo.Row {
	row := grpo.Row{Advantage: advantage}
	for range n {
		p := -3 * random.Float64()
		row.LogProb = append(row.LogProb, p)
		row.Old = append(row.Old, p+.4*random.NormFloat64())
		row.Reference = append(row.Reference, p+.4*random.NormFloat64())
		row.Sampled = append(row.Sampled, p+.4*random.NormFloat64())
		row.Entropy = append(row.Entropy, random.Float64())
	}
	return row
}

func losses() map[string]grpo.Loss {
	return map[string]grpo.Loss{
		"paper":       {ClipLow: .2, ClipHigh: .2, KL: 1e-4, Estimator: grpo.K3},
		"clip higher": {ClipLow: .2, ClipHigh: .28},
		"dual clip":   {ClipLow: .2, ClipHigh: .2, DualClip: 1.3},
		"sequence":    {ClipLow: .2, ClipHigh: .2, Ratio: grpo.SequenceRatio},
		"truncated":   {ClipLow: .2, ClipHigh: .2, Truncate: 1.1},
		"both":        {ClipLow: .2, ClipHigh: .2, Ratio: grpo.SequenceRatio, Truncate: 1.1},
		"k1, entropy": {ClipLow: .2, ClipHigh: .2, KL: .1, Estimator: grpo.K1, Entropy: .01},
		"k2":          {ClipLow: .2, ClipHigh: .2, KL: .1, Estimator: grpo.K2},
	}
}

// Trap 5: the slope is that of the loss, with every option, dual clip included.
func TestTrap05LossGradient(t *testing.T) {
	t.Parallel()
	const step = 1e-6
	random := rand.New(rand.NewPCG(3, 4))
	for name, loss := range losses() {
		for _, advantage := range []float64{-.7, .9} {
			row := randomRow(random, 12, advantage)
			grad, ignored := make([]float64, 12), make([]float64, 12)
			if _, err := loss.Row(row, 1.0/12, grad); err != nil {
				t.Fatal(err)
			}
			for i := range grad {
				at := func(d float64) float64 {
					moved := row
					moved.LogProb = append([]float64(nil), row.LogProb...)
					moved.LogProb[i] += d
					part, err := loss.Row(moved, 1.0/12, ignored)
					if err != nil {
						t.Fatal(err)
					}
					return part.Loss
				}
				if want := (at(step) - at(-step)) / (2 * step); math.Abs(grad[i]-want) > 1e-7 {
					t.Errorf("%s, A=%v, token %d: gradient %v, by differences %v", name, advantage, i, grad[i], want)
				}
			}
		}
	}
}

// Trap 4 of facts/envace.md, section 6: a token mean whatever the micro-batches and the
// workers are, in loss and in gradient. Rows of 100 tokens with A = +1 and of 2000 with
// A = −1 have the objective −1900/2100 = −0.905; a mean of row means would be 0.
func TestTrap04TokenMeanOfAnySplit(t *testing.T) {
	t.Parallel()
	row := func(tokens int, advantage float64) grpo.Row {
		return grpo.Row{Advantage: advantage, LogProb: make([]float64, tokens), Old: make([]float64, tokens)}
	}
	rows := []grpo.Row{row(100, 1), row(2000, -1)}
	loss := grpo.Loss{ClipLow: .2, ClipHigh: .2}
	sum := func(rows []grpo.Row, tokens int) (total grpo.Part, gradient float64) {
		for _, r := range rows {
			grad := make([]float64, len(r.LogProb))
			part, err := loss.Row(r, 1/float64(tokens), grad)
			if err != nil {
				t.Fatal(err)
			}
			total = total.Add(part)
			for _, g := range grad {
				gradient += g
			}
		}
		return total, gradient
	}
	for name, split := range map[string][][]grpo.Row{
		"one micro-batch": {rows}, "a row each, or a worker each": {rows[:1], rows[1:]}, "in another order": {rows[1:], rows[:1]},
		"each row cut in two": {{row(50, 1)}, {row(50, 1), row(900, -1)}, {row(1100, -1)}},
	} {
		var total grpo.Part
		gradient := 0.0
		for _, micro := range split {
			part, g := sum(micro, 2100)
			total, gradient = total.Add(part), gradient+g
		}
		if want := -1900.0 / 2100; math.Abs(-total.Loss-want) > 1e-12 || total.Tokens != 2100 || math.Abs(-gradient-want) > 1e-12 {
			t.Errorf("%s: objective %v, gradient %v over %d tokens, want %v over 2100", name, -total.Loss, -gradient, total.Tokens, want)
		}
		if math.Abs(-total.Loss+.905) > .0005 {
			t.Errorf("%s: objective %v, want −0.905", name, -total.Loss)
		}
		if total.Clipped != 0 || total.MaxRatio != 0 || total.Ratio != 2100 {
			t.Errorf("%s: at the first update every ratio is 1 and nothing is clipped: %+v", name, total)
		}
	}
	short, _ := sum(rows[:1], 100)
	long, _ := sum(rows[1:], 2000)
	if mean := (short.Loss + long.Loss) / 2; math.Abs(mean) > 1e-9 {
		t.Errorf("the mean of row means is %v: the trap is that it is 0", mean)
	}
}

// Trap 5 of facts/envace.md, section 6: the ratio is 1 at first, and clipping acts later.
func TestTrap05LossClips(t *testing.T) {
	t.Parallel()
	up, down := math.Log(1.5), math.Log(.5)
	tests := []struct {
		loss            grpo.Loss
		move, advantage float64
		want, slope     float64
		reason          string
	}{
		{grpo.Loss{ClipLow: .2, ClipHigh: .2}, up, 1, -1.2, 0, "a good token is not pushed beyond 1+ε"},
		{grpo.Loss{ClipLow: .2, ClipHigh: .28}, up, 1, -1.28, 0, "clip-higher lets it go further"},
		{grpo.Loss{ClipLow: .2, ClipHigh: .2}, down, 1, -.5, -.5, "a good token that fell is pulled back"},
		{grpo.Loss{ClipLow: .2, ClipHigh: .2}, down, -1, .8, 0, "a bad token is not pushed below 1−ε"},
		{grpo.Loss{ClipLow: .2, ClipHigh: .2}, math.Log(5), -1, 5, 5, "a bad token that rose is pushed with all its ratio"},
		{grpo.Loss{ClipLow: .2, ClipHigh: .2, DualClip: 3}, math.Log(5), -1, 3, 0, "which the dual clip bounds"},
	}
	for _, test := range tests {
		grad := make([]float64, 1)
		part, err := test.loss.Row(grpo.Row{Advantage: test.advantage, LogProb: []float64{test.move}, Old: []float64{0}}, 1, grad)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(part.Loss-test.want) > 1e-12 || math.Abs(grad[0]-test.slope) > 1e-12 {
			t.Errorf("%s: loss %v, gradient %v, want %v and %v", test.reason, part.Loss, grad[0], test.want, test.slope)
		}
		if clipped := test.slope == 0; clipped != (part.Clipped == 1) {
			t.Errorf("%s: %d clipped", test.reason, part.Clipped)
		}
	}
}

func TestLossRefuses(t *testing.T) {
	t.Parallel()
	one := []float64{0}
	tests := []struct {
		loss   grpo.Loss
		row    grpo.Row
		reason string
	}{
		{grpo.Loss{}, grpo.Row{LogProb: one}, "no old log-probabilities"},
		{grpo.Loss{KL: 1, Estimator: grpo.K3}, grpo.Row{LogProb: one, Old: one}, "KL without a reference"},
		{grpo.Loss{KL: 1, Estimator: "k4"}, grpo.Row{LogProb: one, Old: one, Reference: one}, "unknown estimator"},
		{grpo.Loss{Truncate: 2}, grpo.Row{LogProb: one, Old: one}, "weights without sampled log-probabilities"},
		{grpo.Loss{}, grpo.Row{LogProb: []float64{math.NaN()}, Old: one, Advantage: 1}, "a log-probability that is no number"},
		{grpo.Loss{}, grpo.Row{LogProb: []float64{800}, Old: []float64{-800}, Advantage: -1}, "a ratio beyond all numbers"},
		{grpo.Loss{ClipLow: 1}, grpo.Row{LogProb: one, Old: one}, "a clip that lets probabilities go to 0"},
		{grpo.Loss{DualClip: .5}, grpo.Row{LogProb: one, Old: one}, "a dual clip below 1"},
		{grpo.Loss{Ratio: "word"}, grpo.Row{LogProb: one, Old: one}, "unknown ratio"},
	}
	for _, test := range tests {
		if part, err := test.loss.Row(test.row, 1, make([]float64, 1)); err == nil {
			t.Errorf("%s: got %+v", test.reason, part)
		}
	}
}
