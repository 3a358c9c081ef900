// Package remote rehearses on OpenAI-compatible model servers: vLLM, SGLang,
// llama.cpp, Ollama and the like. What a server can do is probed once, since
// the dialects differ (token ids, log-probabilities, n, seeds).
package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"understudy/audit"
	"understudy/envace"
)

// Config says which policy to ask, and how.
type Config struct {
	URL         string        // base URL, with or without /v1
	Model       string        // "" = the only model that the server lists
	APIKey      string        // sent as a bearer token; never logged
	Temperature float64       // of rehearsals; 0 = greedy
	MaxTokens   int           // of one rehearsal; 0 = 2048
	Timeout     time.Duration // of one request; 0 = two minutes: a long rehearsal on a loaded server
	Retries     int           // after a busy or broken answer; negative = none, 0 = 2
	HTTP        *http.Client  // nil = a client of our own
}

const (
	defaultMaxTokens = 2048
	defaultTimeout   = 2 * time.Minute
	defaultRetries   = 2
)

// LogValue keeps the key out of logs.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(slog.String("url", audit.ShownURL(c.URL)), slog.String("model", c.Model), slog.Bool("api_key", c.APIKey != ""))
}

// Policy is a remote policy in the REHEARSE role. It is safe for concurrent use.
type Policy struct {
	config  Config
	client  *client
	breaker *breaker

	probing      chan struct{}                // holds one: somebody probes
	capabilities atomic.Pointer[Capabilities] // nil = not probed yet
}

var _ audit.Rehearser = (*Policy)(nil)

// New checks the configuration; it does not talk to the server yet.
func New(config Config) (*Policy, error) {
	base, err := url.Parse(config.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" || base.Fragment != "" {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: "policy URL " + strconv.Quote(audit.ShownURL(config.URL)),
			Hint: "give the server's base URL without a query, such as http://127.0.0.1:8000/v1, and its key as --policy-key",
		}
	}
	user := base.User
	base.User = nil // errors name the server, and must not name its password
	config.MaxTokens = cmp.Or(config.MaxTokens, defaultMaxTokens)
	config.Timeout = cmp.Or(config.Timeout, defaultTimeout)
	config.Retries = max(cmp.Or(config.Retries, defaultRetries), 0)
	if config.HTTP == nil {
		config.HTTP = &http.Client{}
	}
	prefix := strings.TrimSuffix(strings.TrimSuffix(base.String(), "/"), "/v1")
	return &Policy{
		config:  config,
		client:  &client{base: prefix + "/v1", user: user, config: config},
		breaker: &breaker{now: time.Now}, probing: make(chan struct{}, 1),
	}, nil
}

// Rehearse asks for req.K independent answers to one call. Whatever the server
// fails to give comes back as a Rehearsal with Unavailable set; an *audit.Error
// is returned for what asking again cannot mend (credentials, model name).
func (p *Policy) Rehearse(ctx context.Context, req audit.RehearseRequest) ([]audit.Rehearsal, error) {
	messages, err := envace.RehearsePrompt(req)
	if err != nil {
		return nil, err
	}
	k := max(req.K, 1)
	if why := p.resting(); why != "" {
		return unavailable(k, why), nil
	}
	caps, err := p.Probe(ctx)
	if err != nil {
		return p.failed(ctx, err, k)
	}
	var answers []audit.Rehearsal
	for len(answers) < k {
		n := 1
		if caps.N {
			n = k - len(answers)
		}
		body := p.chatRequest(messages, caps, n, req.Seed+uint64(len(answers)))
		var reply chatReply
		if err := p.client.post(ctx, "/chat/completions", body, &reply); err != nil {
			lost, err := p.failed(ctx, err, k-len(answers))
			return agreement(append(answers, lost...)), err
		}
		if len(reply.Choices) == 0 {
			return agreement(append(answers, unavailable(k-len(answers), errNoChoices.Error())...)), nil
		}
		for _, choice := range reply.Choices[:min(len(reply.Choices), k-len(answers))] {
			answers = append(answers, choice.rehearsal())
		}
	}
	p.breaker.success()
	return agreement(answers), nil
}

// resting is why nobody should ask the server now; "" = ask.
func (p *Policy) resting() string {
	if wait := p.breaker.open(); wait > 0 {
		return fmt.Sprintf("model server failed repeatedly; asked again in %s", wait.Round(time.Second))
	}
	return ""
}

func (p *Policy) chatRequest(messages []envace.Message, caps Capabilities, n int, seed uint64) map[string]any {
	body := map[string]any{
		"model": caps.Model, "messages": messages, "temperature": p.config.Temperature,
		"max_tokens": p.config.MaxTokens,
	}
	if caps.Seed {
		body["seed"] = int64(seed & math.MaxInt64)
	}
	if n > 1 {
		body["n"] = n
	}
	if caps.LogProbs {
		body["logprobs"] = true
	}
	if caps.TokenIDs {
		body["return_token_ids"] = true
	}
	return body
}

// errNoChoices is said of a reply without an answer.
var errNoChoices = errors.New("the reply has no choices")

// failed sorts an error: the caller's faults and a cancelled context are
// returned, everything else is k unavailable answers and, where it is the server's
// fault, a mark for the breaker.
func (p *Policy) failed(ctx context.Context, err error, k int) ([]audit.Rehearsal, error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, envace.ErrPrompt):
		return unavailable(k, err.Error()), nil
	case audit.ErrorCode(err) != audit.CodeInfrastructure:
		return nil, err
	}
	p.breaker.failure()
	return unavailable(k, err.Error()), nil
}

func unavailable(k int, why string) []audit.Rehearsal {
	out := make([]audit.Rehearsal, k)
	for i := range out {
		out[i].Unavailable = why
	}
	return out
}

// agreement fills in, for each of k answers, the share of the k that say the
// same JSON (key order and white space aside).
func agreement(answers []audit.Rehearsal) []audit.Rehearsal {
	if len(answers) < 2 {
		return answers
	}
	counts := map[string]int{}
	for _, a := range answers {
		if a.Unavailable == "" {
			counts[canonical(a.Raw)]++
		}
	}
	for i, a := range answers {
		if a.Unavailable == "" {
			share := float64(counts[canonical(a.Raw)]) / float64(len(answers))
			answers[i].Agreement = &share
		}
	}
	return answers
}

func canonical(raw []byte) string {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return string(raw)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return string(raw)
	}
	return string(text)
}
