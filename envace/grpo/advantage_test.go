package grpo_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/envace/grpo"
)

// rollouts makes one output of role "act" per count, with the rollout's reward.
func rollouts(rewards []float64, counts []int) []grpo.Output {
	var outputs []grpo.Output
	for i, reward := range rewards {
		for step := range counts[i] {
			outputs = append(outputs, grpo.Output{Prompt: "p", Rollout: i, Role: "act", Step: step, Reward: reward})
		}
	}
	return outputs
}

// Trap 3 of facts/envace.md, section 6: the edge cases of the role baseline; and trap
// 7: a trajectory without a verdict leaves the group.
func TestTrap03RoleBaseline(t *testing.T) {
	t.Parallel()
	unequal := rollouts([]float64{1, 0, .5, 0}, []int{2, 12, 4, 10})
	mixed := append(rollouts([]float64{1, 0}, []int{1, 1}), grpo.Output{Prompt: "p", Rollout: 0, Role: "rehearse", Reward: 1})
	judged := rollouts([]float64{1, 0, .5, 9}, []int{1, 1, 1, 1})
	judged[3].Excluded = true
	forked := rollouts([]float64{1, 0}, []int{3, 1})
	forked[1].Calibration = -.5
	grpo.MaskAfter(forked, "p", 0, 1)
	tests := []struct {
		outputs  []grpo.Output
		baseline grpo.Baseline
		at       int
		want     float64
		reason   string
	}{
		{unequal, grpo.Baseline{}, 0, 1 - .142857142857142857, "the figure of the trap, with the published weighting"},
		{unequal, grpo.Baseline{}, 0, 1 - 4.0/28, "output weighting: 2·1 + 4·0.5 over 28 outputs = 0.142857"},
		{unequal, grpo.Baseline{Weighting: grpo.ByTrajectory}, 0, 1 - .375, "trajectory weighting: (1+0+0.5+0)/4"},
		{mixed, grpo.Baseline{}, 2, 0, "the only output of its role has nothing to be compared with"},
		{mixed, grpo.Baseline{}, 0, .5, "and leaves the other role alone"},
		{rollouts([]float64{1}, []int{5}), grpo.Baseline{}, 0, 0, "one trajectory's outputs are equal to their mean"},
		{rollouts([]float64{.3, .3}, []int{1, 2}), grpo.Baseline{DivideByStd: true}, 1, 0, "equal rewards stay 0 when divided by a deviation of 0"},
		{rollouts([]float64{1, 0}, []int{1, 1}), grpo.Baseline{DivideByStd: true}, 0, .5 / (.5 + 1e-6), "the population's deviation"},
		{judged, grpo.Baseline{}, 0, .5, "a trajectory without a verdict leaves a group of three"},
		{judged, grpo.Baseline{}, 3, 0, "and has no advantage itself"},
		{forked, grpo.Baseline{}, 1, 1 - 2.0/3 - .5, "the false success itself keeps its task reward and pays"},
		{forked, grpo.Baseline{}, 2, 0, "what came after it earned nothing in the real world"},
	}
	for _, test := range tests {
		got, err := grpo.Advantages(test.outputs, test.baseline)
		if err != nil {
			t.Fatalf("%s: %v", test.reason, err)
		}
		if math.Abs(got[test.at]-test.want) > 1e-12 {
			t.Errorf("%s: got %v, want %v", test.reason, got[test.at], test.want)
		}
	}
}

func TestTrap03AdvantagesSumToZeroInAnyOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rewards, counts := make([]float64, 4), make([]int, 4)
		for i := range rewards {
			rewards[i], counts[i] = random.Float64(), 1+random.IntN(9)
		}
		outputs := rollouts(rewards, counts)
		ordered := slices.Clone(outputs)
		random.Shuffle(len(outputs), func(i, j int) { outputs[i], outputs[j] = outputs[j], outputs[i] })
		for _, by := range []grpo.Weighting{grpo.ByOutput, grpo.ByTrajectory} {
			got, err := grpo.Advantages(outputs, grpo.Baseline{Weighting: by})
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i, a := range got {
				if by == grpo.ByTrajectory {
					a /= float64(counts[outputs[i].Rollout])
				}
				sum += a
			}
			inOrder, err := grpo.Advantages(ordered, grpo.Baseline{Weighting: by})
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range outputs {
				at := slices.IndexFunc(ordered, func(x grpo.Output) bool { return x.Rollout == o.Rollout && x.Step == o.Step })
				if math.Abs(inOrder[at]-got[i]) > 1e-12 {
					t.Fatalf("advantage %v, in another order %v", got[i], inOrder[at])
				}
			}
			if math.Abs(sum) > 1e-9 {
				t.Fatalf("advantages weighted by %s sum to %v", by, sum)
			}
		}
	}
}

func TestAdvantagesRefuseWhatIsNotFinite(t *testing.T) {
	t.Parallel()
	reward := rollouts([]float64{math.NaN(), 1}, []int{1, 1})
	calibration := rollouts([]float64{0, 1}, []int{1, 1})
	calibration[0].Calibration = math.Inf(1)
	for _, outputs := range [][]grpo.Output{reward, calibration} {
		if got, err := grpo.Advantages(outputs, grpo.Baseline{}); err == nil {
			t.Errorf("got %v for %v", got, outputs[0])
		}
	}
	if _, err := grpo.Advantages(nil, grpo.Baseline{Weighting: "token"}); err != nil {
		t.Errorf("no outputs: %v", err)
	}
	if _, err := grpo.Advantages(rollouts([]float64{1}, []int{1}), grpo.Baseline{Weighting: "token"}); err == nil {
		t.Error("an unknown weighting was taken")
	}
}
