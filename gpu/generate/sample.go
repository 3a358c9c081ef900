package generate

import (
	"fmt"
	"slices"
	"sync"

	"understudy/gpu"
	"understudy/gpu/grammar"
	"understudy/gpu/sample"
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
	mask  grammar.Mask
	space sample.Space
}

func newSampler(c Config) *sampler {
	s := &sampler{config: c}
	for range c.Workers {
		s.spaces = append(s.spaces, &space{})
	}
	return s
}

// draw samples for each sequence: the first were drawn on the device, row i of logits is that of the i-th
// after them.
func (s *sampler) draw(decoded []*sequence, logits *gpu.Logits) []drawn {
	out := make([]drawn, len(decoded))
	for i, d := range logits.Drawn {
		out[i], _ = s.drawn(decoded[i], d)
	}
	rest, news := decoded[len(logits.Drawn):], out[len(logits.Drawn):]
	var group sync.WaitGroup
	for w := range min(len(s.spaces), len(rest)) {
		work := func() {
			for i := w; i < len(rest); i += len(s.spaces) {
				news[i] = s.one(s.spaces[w], rest[i], logits.Row(i), logits.LSE[i])
			}
		}
		if w == len(s.spaces)-1 || w == len(rest)-1 {
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
	var mask grammar.Mask
	if seq.Grammar != nil {
		var some bool
		if mask, some = s.allowed(sp, seq, len(logits)); !some {
			return drawn{ended: seq.state.Complete(), err: seq.stuck()}
		}
	}
	d, one := s.drawn(seq, sp.space.Draw(logits, seq.Sampling.Scale(), lse, seq.draw(), mask))
	if d.err == nil {
		d.token.Top = top(logits, one, seq.TopLogProbs)
	}
	return d
}

// drawn is what a token that was drawn for seq, here or on the device, amounts to. One is the LSE at
// temperature 1.
func (s *sampler) drawn(seq *sequence, from gpu.Drawn) (d drawn, one float32) {
	if !from.Finite {
		return drawn{err: fmt.Errorf("at token %d: %w", len(seq.tokens), ErrNotFinite)}, 0
	}
	t := Token{ID: from.ID}
	one, t.LogProb, t.Tempered, t.Drawn = sample.LogProbs(from, seq.Sampling.Scale(), seq.draw().Greedy())
	d = drawn{token: t, state: seq.state}
	if seq.Grammar != nil && !seq.ends(s.config.End, t.ID) {
		var ok bool
		if d.state, ok = seq.state.Write(s.config.Tokens[t.ID]); !ok {
			return drawn{err: fmt.Errorf("at token %d: the schema leaves over %d readings of the text open: write fewer alternatives, or fewer within alternatives", len(seq.tokens), grammar.MaxReadings)}, 0
		}
	}
	return d, one
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

// draw says how the next token of seq is drawn. Its random number is a function of seed and place alone.
func (s *sequence) draw() gpu.Draw {
	how := s.Sampling
	d := gpu.Draw{
		Random: mix(mix(how.Seed) + uint64(len(s.tokens))), Tempered: how.Temperature > 0, //nolint:gosec // a count
		TopK: how.TopK, MinP: float32(how.MinP),
	}
	if how.TopP > 0 && how.TopP < 1 {
		d.TopP = sample.Share(how.TopP)
	}
	return d
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
