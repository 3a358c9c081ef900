package generate

import (
	"errors"
	"fmt"
	"slices"

	"understudy/gpu/grammar"
)

// Request asks for the continuation of a prompt.
type Request struct {
	Prompt   []int32 // at least one token
	Max      int     // most new tokens; at least 1
	Sampling Sampling
	// Stop ends the text before the first of these, which may span tokens.
	Stop []string
	// StopTokens end it, beside the engine's end tokens. IgnoreEnd makes the
	// latter ordinary tokens.
	StopTokens []int32
	IgnoreEnd  bool
	// Grammar, if any, holds the text to a form; it always ends within Max.
	Grammar *grammar.Grammar
	// TopLogProbs asks for so many of the most likely tokens at each place.
	TopLogProbs int
	// Adapter names the LoRA adapter that the rows go through; "" = none. Prefixes
	// are shared within one adapter only.
	Adapter string
	// Hold keeps the result's prefix in the tree until Result.Release.
	Hold bool
	// Emit, if any, is called by Generate for each token as it comes. Its error
	// cancels the request and is returned.
	Emit func(Delta) error
}

// Sampling is how a token is drawn. The order is: grammar, temperature, TopK,
// TopP, MinP.
type Sampling struct {
	Temperature float64 // 0 = the most likely token
	TopP        float64 // 0 or 1 = off
	TopK        int     // 0 = off
	MinP        float64 // relative to the most likely token; 0 = off
	// Seed and a token's place decide its random number.
	Seed uint64
}

// ends says whether a token ends the text.
func (r *Request) ends(end []int32, id int32) bool {
	return !r.IgnoreEnd && slices.Contains(end, id) || slices.Contains(r.StopTokens, id)
}

// Scale is 1/temperature as the engine rounds it (at 0: 1): what a trainer scores
// the text's tokens with, to get Token.Tempered again.
func (s Sampling) Scale() float32 {
	if s.Temperature == 0 {
		return 1
	}
	return float32(1 / s.Temperature)
}

// Finish says why a text ended.
type Finish string

// The closed list of reasons.
const (
	FinishStop   Finish = "stop"   // an end or stop token, a stop string, a complete grammar
	FinishLength Finish = "length" // Max tokens
)

// Token is a sampled token with its log-probabilities.
type Token struct {
	ID int32
	// LogProb is of the untruncated distribution at temperature 1.
	LogProb float32
	// Tempered is of the untruncated distribution at the request's temperature
	// (at 0: as LogProb): the number that a training forward gives for the token,
	// bit for bit in gpu.Exact mode.
	Tempered float32
	// Drawn is of the distribution that the token was drawn from, after grammar
	// and truncation; 0 when there was no choice.
	Drawn float32
	// Top are the most likely tokens, by LogProb.
	Top []Likely
}

// Likely is an alternative at a token's place.
type Likely struct {
	ID      int32
	LogProb float32 // as Token.LogProb
}

// Delta is one token's news. Text may lag behind the tokens (a stop string that
// has begun, half a character) and is empty then; the last Delta has no token.
type Delta struct {
	Token *Token
	Text  string
}

// Result is a finished text.
type Result struct {
	Tokens []Token // an end token that was sampled is the last of them
	Text   string  // without stop string and special tokens
	Finish Finish
	// Shared is how many of the prompt's tokens were not computed for it, because
	// they were in the tree.
	Shared int

	release func()
}

// IDs are the sampled token ids.
func (r *Result) IDs() []int32 {
	ids := make([]int32, len(r.Tokens))
	for i, t := range r.Tokens {
		ids[i] = t.ID
	}
	return ids
}

// Release gives up what Request.Hold kept. It may be called twice.
func (r *Result) Release() {
	if r.release != nil {
		r.release()
	}
}

// Validate lists all faults that can be seen without an engine.
func (r *Request) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	s := r.Sampling
	refuse(len(r.Prompt) == 0, "the prompt is empty")
	refuse(r.Max < 1, "max tokens is %d: it must be positive", r.Max)
	refuse(!(s.Temperature >= 0), "temperature is %v: it must not be negative", s.Temperature)
	refuse(s.Temperature > 0 && (s.Temperature < leastTemperature || s.Temperature > mostTemperature),
		"temperature is %v: it must be 0 or between %v and %v", s.Temperature, leastTemperature, float64(mostTemperature))
	refuse(!(s.TopP >= 0 && s.TopP <= 1), "top_p is %v: it must be between 0 and 1", s.TopP)
	refuse(s.TopK < 0, "top_k is %d: it must not be negative", s.TopK)
	refuse(!(s.MinP >= 0 && s.MinP <= 1), "min_p is %v: it must be between 0 and 1", s.MinP)
	refuse(r.TopLogProbs < 0 || r.TopLogProbs > maxTop, "top log-probabilities are %d: they must be between 0 and %d", r.TopLogProbs, maxTop)
	for _, stop := range r.Stop {
		refuse(stop == "", "a stop string is empty")
	}
	return errors.Join(errs...)
}

const (
	// leastTemperature keeps scaled logits finite in float32, mostTemperature keeps
	// the scale above 0.
	leastTemperature = 1e-4
	mostTemperature  = 1e4
	// maxTop is the most alternatives a token comes with, as in OpenAI's API.
	maxTop = 20
)
