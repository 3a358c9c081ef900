package serve

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"

	"understudy/gpu/generate"
)

// options are the fields that both endpoints share.
type options struct {
	Model               string   `json:"model"`
	MaxTokens           *int     `json:"max_tokens"`
	MaxCompletionTokens *int     `json:"max_completion_tokens"`
	Temperature         *float64 `json:"temperature"`
	TopP                *float64 `json:"top_p"`
	TopK                *int     `json:"top_k"`
	MinP                *float64 `json:"min_p"`
	N                   *int     `json:"n"`
	Seed                *int64   `json:"seed"`
	Stop                texts    `json:"stop"`
	Stream              bool     `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ReturnTokenIDs bool `json:"return_token_ids"`
	IgnoreEOS      bool `json:"ignore_eos"`

	// What is refused unless it says nothing.
	PresencePenalty  float64         `json:"presence_penalty"`
	FrequencyPenalty float64         `json:"frequency_penalty"`
	LogitBias        map[string]any  `json:"logit_bias"`
	Echo             bool            `json:"echo"`
	BestOf           *int            `json:"best_of"`
	Suffix           string          `json:"suffix"`
	Modalities       []string        `json:"modalities"`
	Audio            json.RawMessage `json:"audio"`
}

// texts is a string or a list of them.
type texts []string

// UnmarshalJSON reads either.
func (t *texts) UnmarshalJSON(data []byte) error {
	if data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(t))
	}
	var one *string
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	if one != nil {
		*t = texts{*one}
	}
	return nil
}

const (
	maxChoices = 128
	maxStops   = 16
	// defaultMax is how much is written when a request does not say: memory is
	// reserved for all of it.
	defaultMax = 1024
)

func decode(body io.Reader, into any) error {
	decoder := json.NewDecoder(body)
	err := decoder.Decode(into)
	if err == nil { // to its end: only then does the HTTP server watch for the client to go away
		if _, err = decoder.Token(); err == nil {
			err = errors.New("something follows its object")
		} else if errors.Is(err, io.EOF) {
			return nil
		}
	}
	if tooLarge := asFault(err); tooLarge.Status == http.StatusRequestEntityTooLarge {
		return tooLarge
	}
	return badRequest("", "the body is no valid request: %v", err)
}

// check refuses what would be ignored.
func (o *options) check() error {
	switch {
	case o.PresencePenalty != 0:
		return badRequest("presence_penalty", "presence_penalty is not supported: leave it out or at 0")
	case o.FrequencyPenalty != 0:
		return badRequest("frequency_penalty", "frequency_penalty is not supported: leave it out or at 0")
	case len(o.LogitBias) > 0:
		return badRequest("logit_bias", "logit_bias is not supported: leave it out")
	case o.Echo:
		return badRequest("echo", "echo is not supported: leave it out")
	case o.BestOf != nil && *o.BestOf > max(1, o.choices()):
		return badRequest("best_of", "best_of is not supported: ask for n and choose")
	case o.Suffix != "":
		return badRequest("suffix", "suffix is not supported: leave it out")
	case len(o.Audio) > 0 && string(o.Audio) != "null" || len(o.Modalities) > 1:
		return badRequest("modalities", "only text is supported")
	case o.choices() < 1 || o.choices() > maxChoices:
		return badRequest("n", "n is %d: it must be between 1 and %d", o.choices(), maxChoices)
	case len(o.Stop) > maxStops:
		return badRequest("stop", "%d stop strings: at most %d", len(o.Stop), maxStops)
	}
	return nil
}

func (o *options) choices() int {
	if o.N == nil {
		return 1
	}
	return *o.N
}

// short refuses a text that is too long however it is cut, before it is cut: a token
// is at most so many bytes of it, and NFC makes no text shorter than a third.
func (s *server) short(bytes int) error {
	if limit := s.Engine.Limit(); bytes/3/s.longest >= limit {
		return &fault{
			Status: http.StatusBadRequest, Kind: invalidRequest, Code: "context_length_exceeded",
			Message: "the prompt has " + count(bytes, "byte") + ", which is more than " + count(limit, "token") + ", the limit for prompt and answer together",
		}
	}
	return nil
}

// request is the engine's request for a prompt, cut to what the engine takes.
func (s *server) request(o *options, prompt []int32) (generate.Request, error) {
	limit := s.Engine.Limit()
	left := limit - len(prompt)
	if left < 1 {
		return generate.Request{}, &fault{
			Status: http.StatusBadRequest, Kind: invalidRequest, Code: "context_length_exceeded",
			Message: "the prompt has " + count(len(prompt), "token") + ": the limit is " + count(limit, "token") + " for prompt and answer together",
		}
	}
	most := defaultMax
	switch {
	case o.MaxCompletionTokens != nil:
		most = *o.MaxCompletionTokens
	case o.MaxTokens != nil:
		most = *o.MaxTokens
	}
	if most < 1 {
		return generate.Request{}, badRequest("max_tokens", "max_tokens is %d: it must be positive", most)
	}
	r := generate.Request{
		Prompt: prompt, Max: min(most, left), Stop: o.Stop, IgnoreEnd: o.IgnoreEOS, StopTokens: s.stop,
		Sampling: generate.Sampling{Temperature: 1, TopP: value(o.TopP), TopK: value(o.TopK), MinP: value(o.MinP)},
	}
	if o.IgnoreEOS {
		r.StopTokens = nil
	}
	if o.Temperature != nil {
		r.Sampling.Temperature = *o.Temperature
	}
	r.Sampling.Seed = rand.Uint64() //nolint:gosec // sampling, not a secret
	if o.Seed != nil {
		r.Sampling.Seed = uint64(*o.Seed) //nolint:gosec // any 64 bits
	}
	if err := r.Validate(); err != nil {
		return r, badRequest("", "%v", err)
	}
	return r, nil
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
