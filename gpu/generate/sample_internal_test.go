package generate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestExp(t *testing.T) {
	t.Parallel()
	for x := float32(-87); x <= 0; x += 0.00131 {
		want := math.Exp(float64(x))
		if got := float64(exp(x)); math.Abs(got-want) > 4e-7*want {
			t.Fatalf("exp(%v) = %v, want %v", x, got, want)
		}
	}
	if exp(0) != 1 || exp(-88) != 0 || exp(float32(math.Inf(-1))) != 0 {
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
			weights[i] = exp(-float32(rng.IntN(9)) * 0.6) // many are equal
			if rng.IntN(5) == 0 {
				weights[i] = 0
			}
		}
		weights[rng.IntN(n)] = 1
		most, enough := 1+rng.IntN(n), math.Inf(1)
		if rng.IntN(2) == 0 {
			most, enough = math.MaxInt, rng.Float64()*total(weights)
		}
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			if weights[a] > weights[b] {
				return -1
			}
			if weights[a] < weights[b] {
				return 1
			}
			return 0
		})
		want, sum := make([]float32, n), 0.0
		for k, i := range order {
			if k == most || k > 0 && sum >= enough {
				break
			}
			want[i] = weights[i]
			sum += float64(weights[i])
		}
		got := slices.Clone(weights)
		new(buckets).cut(got, most, enough)
		if !slices.Equal(got, want) && math.Abs(total(got)-total(want)) > 1e-5 {
			t.Fatalf("of %v (most %d, enough %v) kept %v, want %v", weights, most, enough, got, want)
		}
	}
}

// BenchmarkDraw is one token of a vocabulary of 49152.
func BenchmarkDraw(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, 49152)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	lse := logSumExp(logits)
	for name, s := range map[string]Sampling{
		"greedy": {}, "temperature 1": {Temperature: 1}, "temperature 0.7": {Temperature: 0.7}, "top-p and top-k": {Temperature: 1, TopP: 0.9, TopK: 50},
	} {
		b.Run(name, func(b *testing.B) {
			sampler := newSampler(Config{Workers: 1})
			seq := &sequence{job: &job{Request: Request{Sampling: s}}}
			for b.Loop() {
				if d := sampler.one(sampler.spaces[0], seq, logits, lse); d.err != nil {
					b.Fatal(d.err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(logits)), "ns/logit")
		})
	}
}
