// Package sample draws tokens from logits. It defines what a device that draws by itself
// (gpu.Sampler) must give, bit for bit: the same additions and multiplications for each weight, and
// sums of whole numbers, which are the same in any order.
//
//	logits (V) ──Exp──► weights ──cut: MinP, TopK, TopP──► Σ ──the random number's place in it──► token
//
// Grammars, and the most likely tokens beside the drawn one, are for the CPU alone.
package sample

import (
	"math"
	"math/bits"
	"slices"

	"understudy/gpu"
	"understudy/gpu/grammar"
)

// Space is working memory, for one goroutine at a time. The zero value is ready.
type Space struct {
	weights []float32
	buckets buckets
}

// Draw draws from the logits (V) of a row, whose log Σ exp(scale·logit) is lse. The mask, if any, allows
// at least one token.
func (sp *Space) Draw(logits []float32, scale, lse float32, d gpu.Draw, mask grammar.Mask) gpu.Drawn {
	out := gpu.Drawn{LSE: lse}
	if out.Finite = finite(logits, lse); !out.Finite {
		return out
	}
	if mask == nil && d.Whole() {
		out.ID = drawWhole(logits, scale, lse, d.Random)
	} else {
		sp.choose(&out, logits, scale, d, mask)
	}
	out.Logit = logits[out.ID]
	if scale != 1 {
		out.Most = slices.Max(logits)
		for _, x := range logits {
			out.Ones += whole(Exp(x - out.Most))
		}
	}
	return out
}

// LogProbs are those of a token that was drawn at this scale: under the distribution at temperature
// 1, at its own, and under what was left of that to draw from. One is the row's LSE at temperature 1.
func LogProbs(d gpu.Drawn, scale float32, greedy bool) (one, logProb, tempered, drawn float32) {
	one, tempered = d.LSE, gpu.LogProb(d.Logit, scale, d.LSE)
	if scale != 1 {
		one = float32(float64(d.Most) + math.Log(float64(d.Ones)/Unit))
	}
	logProb = gpu.LogProb(d.Logit, 1, one)
	switch {
	case greedy:
	case d.Kept == 0:
		drawn = tempered
	default:
		drawn = float32(min(math.Log(float64(d.Weight)*Unit/float64(d.Kept)), 0))
	}
	return one, logProb, tempered, drawn
}

// finite reports whether a row can be drawn from. It adds x-x up, which is 0 unless some x is NaN or
// infinite. A logit of -Inf counts, too: no weights of ours give one.
func finite(logits []float32, lse float32) bool {
	sum := lse - lse
	for _, x := range logits {
		sum += x - x
	}
	return sum == 0
}

// drawWhole draws from the whole distribution: its sum is known, so that the pass
// ends where the random number falls.
func drawWhole(logits []float32, scale, lse float32, random uint64) int32 {
	left := int64(random >> (64 - unitBits)) //nolint:gosec // below Unit
	for i, x := range logits {
		if left -= whole(Exp(float32(scale*x) - lse)); left < 0 {
			return int32(i) //nolint:gosec // a token id
		}
	}
	return argmax(logits, nil) // the number was within rounding of the end
}

// choose draws what is left of the distribution.
func (sp *Space) choose(out *gpu.Drawn, logits []float32, scale float32, d gpu.Draw, mask grammar.Mask) {
	out.ID = argmax(logits, mask)
	if d.Greedy() {
		return
	}
	most := float32(scale * logits[out.ID])
	sp.weights = slices.Grow(sp.weights[:0], len(logits))[:len(logits)]
	for i, x := range logits {
		w := float32(0)
		if mask == nil || mask.Allows(i) {
			w = Exp(float32(scale*x) - most)
		}
		sp.weights[i] = w
	}
	sp.truncate(d)
	out.Kept = total(sp.weights)
	left := int64(share(d.Random, out.Kept)) //nolint:gosec // below Kept
	for i, w := range sp.weights {
		if left -= whole(w); left < 0 {
			out.ID, out.Weight = int32(i), w //nolint:gosec // a token id
			return
		}
	}
}

// share is part 2⁻⁶⁴ of a sum, rounded down.
func share(part uint64, sum int64) uint64 {
	high, _ := bits.Mul64(part, uint64(sum)) //nolint:gosec // not negative
	return high
}

// Share is a probability below 1 as Draw.TopP has it, at least the least one.
func Share(p float64) uint64 { return max(1, uint64(p*(1<<64))) }

func argmax(logits []float32, mask grammar.Mask) int32 {
	best := -1
	if mask == nil {
		best = 0
		most := logits[0]
		for i, x := range logits {
			if x > most {
				best, most = i, x
			}
		}
		return int32(best) //nolint:gosec // a token id
	}
	for i, x := range logits {
		if (best < 0 || x > logits[best]) && mask.Allows(i) {
			best = i
		}
	}
	return int32(best) //nolint:gosec // a token id
}
