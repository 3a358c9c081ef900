package serve

import (
	"context"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"understudy/gpu/generate"
)

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// job is one request with its texts.
type job struct {
	prompts  [][]int32
	requests []generate.Request // one a text; their order is the choices'
	usage    usage
	id       string
	object   string // of the reply
	created  int64
}

func (s *server) newJob(prefix, object string, now time.Time) *job {
	return &job{id: newID(prefix), object: object, created: now.Unix()}
}

// add asks for n texts of a prompt.
func (j *job) add(r generate.Request, n int) {
	j.prompts = append(j.prompts, r.Prompt)
	j.usage.Prompt += len(r.Prompt)
	for i := range n {
		one := r
		one.Sampling.Seed = generate.RolloutSeed(r.Sampling.Seed, i)
		j.requests = append(j.requests, one)
	}
}

// usage counts tokens.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (u *usage) add(r *generate.Result) {
	u.Completion += len(r.Tokens)
	u.Total = u.Prompt + u.Completion
}

// run generates all texts; emit, if any, hears of each token of each.
func (s *server) run(ctx context.Context, j *job, emit func(i int, d generate.Delta) error) ([]*generate.Result, error) {
	leave, err := s.enter(len(j.requests))
	if err != nil {
		return nil, err
	}
	defer leave()
	results := make([]*generate.Result, len(j.requests))
	group, ctx := errgroup.WithContext(ctx)
	for i, r := range j.requests {
		if emit != nil {
			r.Emit = func(d generate.Delta) error { return emit(i, d) }
		}
		group.Go(func() (err error) {
			results[i], err = s.Engine.Generate(ctx, r)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, r := range results {
		j.usage.add(r)
		if i == 0 {
			j.usage.Details.Cached = r.Shared
		}
	}
	return results, nil
}

// envelope is what every reply begins with.
func (s *server) envelope(j *job, choices []any) map[string]any {
	return map[string]any{
		"id": j.id, "object": j.object, "created": j.created, "model": s.Name, "choices": choices,
	}
}

// tokenText is a token as people read it; bytes say exactly what it is.
func (s *server) tokenText(id int32) string {
	return strings.ToValidUTF8(s.Tokenizer.Token(id), "\uFFFD")
}

func (s *server) tokenBytes(id int32) []int {
	text := s.Tokenizer.Token(id)
	out := make([]int, len(text))
	for i := range len(text) {
		out[i] = int(text[i])
	}
	return out
}

// chatLogProbs is the logprobs of a chat choice.
func (s *server) chatLogProbs(tokens []generate.Token) map[string]any {
	content := make([]any, len(tokens))
	for i, t := range tokens {
		top := make([]any, len(t.Top))
		for k, l := range t.Top {
			top[k] = map[string]any{"token": s.tokenText(l.ID), "logprob": l.LogProb, "bytes": s.tokenBytes(l.ID)}
		}
		content[i] = map[string]any{
			"token": s.tokenText(t.ID), "logprob": t.LogProb, "bytes": s.tokenBytes(t.ID), "top_logprobs": top,
			"tempered": t.Tempered, "drawn": t.Drawn,
		}
	}
	return map[string]any{"content": content, "refusal": nil}
}

// textLogProbs is the logprobs of a completion: parallel lists.
func (s *server) textLogProbs(tokens []generate.Token, offset int) map[string]any {
	names, logProbs, offsets, tops := []string{}, []float32{}, []int{}, []any{}
	for _, t := range tokens {
		names = append(names, s.tokenText(t.ID))
		logProbs = append(logProbs, t.LogProb)
		offsets = append(offsets, offset)
		if !s.Tokenizer.IsSpecial(t.ID) {
			offset += len(s.Tokenizer.Token(t.ID))
		}
		top := map[string]float32{}
		for _, l := range t.Top {
			top[s.tokenText(l.ID)] = l.LogProb
		}
		tops = append(tops, top)
	}
	return map[string]any{"tokens": names, "token_logprobs": logProbs, "text_offset": offsets, "top_logprobs": tops}
}

func ids(tokens []generate.Token) []int32 {
	out := make([]int32, len(tokens))
	for i, t := range tokens {
		out[i] = t.ID
	}
	return out
}
