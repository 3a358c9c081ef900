package generate

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"understudy/gpu"
	"understudy/gpu/grammar"
)

// drawn is what sampling gives for one sequence.
type drawn struct {
	token Token
	state grammar.State // after the token
	ended bool          // the grammar is complete and allows no token
	err   error
}

// sampler draws tokens from logits.
type sampler struct {
	config Config
	spaces []*space
}

// space is the working memory of one worker.
type space struct {
	mask    grammar.Mask
	weights []float32
	buckets buckets
}

func newSampler(c Config) *sampler {
	s := &sampler{config: c}
	for range c.Workers {
		s.spaces = append(s.spaces, &space{})
	}
	return s
}

// draw samples for each sequence; row i of logits is decoded[i]'s.
func (s *sampler) draw(decoded []*sequence, logits *gpu.Logits) []drawn {
	out := make([]drawn, len(decoded))
	var group sync.WaitGroup
	for w := range min(len(s.spaces), len(decoded)) {
		work := func() {
			for i := w; i < len(decoded); i += len(s.spaces) {
				out[i] = s.one(s.spaces[w], decoded[i], logits.Row(i), logits.LSE[i])
			}
		}
		if w == len(s.spaces)-1 || w == len(decoded)-1 {
			work() // the last share is our own
			continue
		}
		group.Go(work)
	}
	group.Wait()
	return out
}

// one draws a token of seq from its logits (V), whose log Σ exp(scale·logit) is
// lse.
func (s *sampler) one(sp *space, seq *sequence, logits []float32, lse float32) drawn {
	if !finite(lse) || !allFinite(logits) {
		return drawn{err: fmt.Errorf("at token %d: %w", len(seq.tokens), ErrNotFinite)}
	}
	var mask grammar.Mask
	if seq.Grammar != nil {
		var some bool
		if mask, some = s.allowed(sp, seq, len(logits)); !some {
			return drawn{ended: seq.state.Complete(), err: seq.stuck()}
		}
	}
	scale := seq.Sampling.Scale()
	var t Token
	if mask == nil && !seq.Sampling.truncates() && seq.Sampling.Temperature > 0 {
		t.ID = drawWhole(logits, scale, lse, uniform(seq.Sampling.Seed, len(seq.tokens)))
		t.Tempered = gpu.LogProb(logits[t.ID], scale, lse)
		t.Drawn = t.Tempered
	} else {
		t.ID, t.Drawn = sp.choose(logits, mask, scale, seq.Sampling, len(seq.tokens))
		t.Tempered = gpu.LogProb(logits[t.ID], scale, lse)
	}
	id := t.ID
	one := lse
	if scale != 1 {
		one = logSumExp(logits)
	}
	t.LogProb = gpu.LogProb(logits[id], 1, one)
	t.Top = top(logits, one, seq.TopLogProbs)
	d := drawn{token: t, state: seq.state}
	if seq.Grammar != nil && !seq.ends(s.config.End, id) {
		var ok bool
		if d.state, ok = seq.state.Write(s.config.Tokens[id]); !ok {
			return drawn{err: fmt.Errorf("at token %d: the schema leaves over %d readings of the text open: write fewer alternatives, or fewer within alternatives", len(seq.tokens), grammar.MaxReadings)}
		}
	}
	return d
}

// allowed is the grammar's mask, with the end tokens where the text may end. The
// last token that the limit allows leaves nothing to write.
func (s *sampler) allowed(sp *space, seq *sequence, vocabulary int) (mask grammar.Mask, some bool) {
	if len(sp.mask) == 0 {
		sp.mask = grammar.NewMask(vocabulary)
	}
	seq.state.Mask(sp.mask, seq.Max-len(seq.tokens)-1)
	if sp.mask.Empty() {
		return sp.mask, false
	}
	if seq.state.Complete() {
		for _, id := range seq.StopTokens {
			sp.mask.Add(id)
		}
		for _, id := range s.config.End {
			if !seq.IgnoreEnd {
				sp.mask.Add(id)
			}
		}
	}
	return sp.mask, true
}

func finite(x float32) bool { return x-x == 0 }

// allFinite adds x-x up: it is 0 unless some x is NaN or infinite. A logit of
// -Inf counts, too: no weights of ours give one.
func allFinite(logits []float32) bool {
	var sum float32
	for _, x := range logits {
		sum += x - x
	}
	return sum == 0
}

func logSumExp(logits []float32) float32 {
	most := slices.Max(logits)
	sum := 0.0
	for _, x := range logits {
		sum += float64(exp(x - most))
	}
	return float32(float64(most) + math.Log(sum))
}

// drawWhole draws from the whole distribution: its sum is known, so that the pass
// ends where the random number falls.
func drawWhole(logits []float32, scale, lse float32, u float64) int32 {
	for i, x := range logits {
		if u -= float64(exp(scale*x - lse)); u < 0 {
			return int32(i) //nolint:gosec // a token id
		}
	}
	return argmax(logits, nil) // u was within rounding of 1
}

// choose draws an id and gives its log-probability among what was left.
func (sp *space) choose(logits []float32, mask grammar.Mask, scale float32, s Sampling, place int) (id int32, logProb float32) {
	best := argmax(logits, mask)
	if s.Temperature == 0 || s.TopK == 1 {
		return best, 0
	}
	most := scale * logits[best]
	sp.weights = slices.Grow(sp.weights[:0], len(logits))[:len(logits)]
	sum := 0.0
	for i, x := range logits {
		w := float32(0)
		if mask == nil || mask.Allows(i) {
			w = exp(scale*x - most)
		}
		sp.weights[i] = w
		sum += float64(w)
	}
	if s.truncates() {
		sum = sp.truncate(s)
	}
	u := uniform(s.Seed, place) * sum
	id = best
	for i, w := range sp.weights {
		if w == 0 {
			continue
		}
		id = int32(i) //nolint:gosec // a token id
		if u -= float64(w); u < 0 {
			break
		}
	}
	return id, float32(min(math.Log(float64(sp.weights[id])/sum), 0))
}

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

// top are the n most likely tokens.
func top(logits []float32, lse float32, n int) []Likely {
	if n == 0 {
		return nil
	}
	var out []Likely
	for i, x := range logits {
		if len(out) == n && x <= out[n-1].LogProb {
			continue
		}
		at, _ := slices.BinarySearchFunc(out, x, func(l Likely, x float32) int {
			if l.LogProb >= x {
				return -1
			}
			return 1
		})
		out = slices.Insert(out, at, Likely{ID: int32(i), LogProb: x}) //nolint:gosec // a token id
		out = out[:min(len(out), n)]
	}
	for i := range out {
		out[i].LogProb = gpu.LogProb(out[i].LogProb, 1, lse)
	}
	return out
}

// uniform is the random number in [0,1) of a place, a function of seed and place
// alone.
func uniform(seed uint64, place int) float64 {
	x := mix(mix(seed) + uint64(place)) //nolint:gosec // a count
	return float64(x>>11) / (1 << 53)
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// exp is e^x for x <= 0, within 4e-7 relative; 0 below -87. math.Exp would be a tenth
// of a decode step on a large vocabulary.
func exp(x float32) float32 {
	if x < -87 {
		return 0
	}
	const ln2High, ln2Low = 0.693145751953125, 1.42860682030941723212e-6
	whole := int32(x*math.Log2E - 0.5) // rounds, as x is not positive
	n := float32(whole)
	f := x - n*ln2High - n*ln2Low
	// Taylor to the sixth degree on [-ln 2/2, ln 2/2].
	p := 1 + f*(1+f*(0.5+f*(1./6+f*(1./24+f*(1./120+f*(1./720))))))
	return p * math.Float32frombits(uint32(127+whole)<<23)
}
