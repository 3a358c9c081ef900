package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"understudy/gpu"
	"understudy/gpu/grammar"
)

func TestExp(t *testing.T) {
	t.Parallel()
	for x := float32(-87); x <= 0; x += 0.00131 {
		want := math.Exp(float64(x))
		if got := float64(Exp(x)); math.Abs(got-want) > 4e-7*want {
			t.Fatalf("Exp(%v) = %v, want %v", x, got, want)
		}
	}
	if Exp(0) != 1 || Exp(-88) != 0 || Exp(float32(math.Inf(-1))) != 0 {
		t.Error("ends")
	}
}

// cut keeps what sorting everything would keep.
func TestCut(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		n := 1 + rng.IntN(60)
		weights := make([]float32, n)
		for i := range weights {
			weights[i] = Exp(-float32(rng.IntN(9)) * 0.6) // many are equal
			if rng.IntN(5) == 0 {
				weights[i] = 0
			}
		}
		weights[rng.IntN(n)] = 1
		most, enough := 1+rng.IntN(n), int64(math.MaxInt64)
		if rng.IntN(2) == 0 {
			most, enough = math.MaxInt, int64(rng.Float64()*float64(total(weights)))
		}
		want, sum := make([]float32, n), int64(0)
		for k, i := range byWeight(weights) {
			if k == most || k > 0 && sum >= enough {
				break
			}
			want[i] = weights[i]
			sum += whole(weights[i])
		}
		got := slices.Clone(weights)
		new(buckets).cut(got, most, enough)
		if !slices.Equal(got, want) {
			t.Fatalf("of %v (most %d, enough %v) kept %v, want %v", weights, most, enough, got, want)
		}
	}
}

// byWeight are the ids from the greatest weight down, of equals the lower first.
func byWeight[T float32 | float64](weights []T) []int {
	order := make([]int, len(weights))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case weights[a] > weights[b]:
			return -1
		case weights[a] < weights[b]:
			return 1
		}
		return 0
	})
	return order
}

// A token is the one at whose place in the distribution, in float64, the random number falls, among those
// that a sort leaves.
func TestDraw(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	var space Space
	for range 3000 {
		logits := make([]float32, 1+rng.IntN(80))
		for i := range logits {
			logits[i] = float32(rng.NormFloat64() * 3)
		}
		d := gpu.Draw{Random: rng.Uint64(), Tempered: true}
		if rng.IntN(2) == 0 {
			d.TopK = 2 + rng.IntN(20)
		}
		if rng.IntN(2) == 0 {
			d.TopP = Share(rng.Float64())
		}
		if rng.IntN(3) == 0 {
			d.MinP = rng.Float32() / 4
		}
		var mask grammar.Mask
		if rng.IntN(3) == 0 {
			mask = grammar.NewMask(len(logits))
			for range 1 + rng.IntN(10) {
				mask.Add(int32(rng.IntN(len(logits))))
			}
		}
		scale := float32(1 / (0.5 + rng.Float64()))
		if err := checkDraw(space.Draw(logits, scale, logSumExp(logits, scale), d, mask), logits, scale, d, mask); err != nil {
			t.Fatalf("%v\nlogits %v, scale %v, %+v, mask %v", err, logits, scale, d, mask)
		}
	}
}

func logSumExp(logits []float32, scale float32) float32 {
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(scale) * float64(x))
	}
	return float32(math.Log(sum))
}

func checkDraw(got gpu.Drawn, logits []float32, scale float32, d gpu.Draw, mask grammar.Mask) error {
	weights, all := make([]float64, len(logits)), 0.0
	for i, x := range logits {
		all += math.Exp(float64(x))
		if mask == nil || mask.Allows(i) {
			weights[i] = math.Exp(float64(scale) * float64(x))
		}
	}
	order := byWeight(weights)
	most, sum := weights[order[0]], 0.0
	order = slices.DeleteFunc(order, func(i int) bool { return weights[i] == 0 || weights[i] < float64(d.MinP)*most })
	if d.TopK > 0 {
		order = order[:min(d.TopK, len(order))]
	}
	for _, i := range order {
		sum += weights[i]
	}
	if d.TopP > 0 {
		left := 0.0
		for k, i := range order {
			if left += weights[i]; left >= sum*float64(d.TopP)/(1<<64) {
				order, sum = order[:k+1], left
				break
			}
		}
	}
	slices.Sort(order)
	place, want := float64(d.Random)/(1<<64)*sum, order[len(order)-1]
	for _, i := range order {
		if place -= weights[i]; place < 0 {
			want = i
			break
		}
	}
	one, logProb, tempered, drawn := LogProbs(got, scale, d.Greedy())
	near := func(x float32, p float64) bool { return math.Abs(float64(x)-p) < 1e-5 }
	z := float64(logits[want])
	if int(got.ID) != want || !near(one, math.Log(all)) || !near(logProb, z-math.Log(all)) ||
		!near(tempered, float64(scale)*z-float64(logSumExp(logits, scale))) || !near(drawn, math.Log(weights[want]/sum)) {
		return fmt.Errorf("%+v (log-probabilities %v, %v, %v) want token %d of %d, drawn at %v", got, logProb, tempered, drawn, want, len(order), math.Log(weights[want]/sum))
	}
	return nil
}

// BenchmarkDraw is one token of a vocabulary of 49152.
func BenchmarkDraw(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, 49152)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	for name, c := range map[string]struct {
		scale float32
		draw  gpu.Draw
	}{
		"greedy": {1, gpu.Draw{}}, "temperature 1": {1, gpu.Draw{Tempered: true}}, "temperature 0.7": {1 / 0.7, gpu.Draw{Tempered: true}},
		"top-p and top-k": {1, gpu.Draw{Tempered: true, TopP: Share(0.9), TopK: 50}},
	} {
		b.Run(name, func(b *testing.B) {
			lse, space := logSumExp(logits, c.scale), Space{}
			for i := uint64(0); b.Loop(); i++ {
				c.draw.Random = i * 0x9e3779b97f4a7c15
				space.Draw(logits, c.scale, lse, c.draw, nil)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(logits)), "ns/logit")
		})
	}
}
