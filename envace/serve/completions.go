package serve

import (
	"encoding/json"
	"net/http"

	"understudy/gpu/generate"
)

// completionRequest is a body of /v1/completions.
type completionRequest struct {
	options
	Prompt   json.RawMessage `json:"prompt"`
	LogProbs *int            `json:"logprobs"`
}

// prompts reads a text, a list of texts, token ids, or a list of those.
func (r *completionRequest) prompts(s *server) ([][]int32, error) {
	var one string
	if json.Unmarshal(r.Prompt, &one) == nil {
		return r.encoded(s, one)
	}
	var list []string
	if json.Unmarshal(r.Prompt, &list) == nil && len(list) > 0 {
		return r.encoded(s, list...)
	}
	var tokens []int32
	if json.Unmarshal(r.Prompt, &tokens) == nil && len(tokens) > 0 {
		return [][]int32{tokens}, nil
	}
	var lists [][]int32
	if json.Unmarshal(r.Prompt, &lists) == nil && len(lists) > 0 {
		return lists, r.few(len(lists))
	}
	return nil, badRequest("prompt", "prompt must be a text, a list of texts, or token ids")
}

// few refuses more texts than a request may ask for.
func (r *completionRequest) few(prompts int) error {
	if texts := prompts * r.choices(); texts > maxChoices {
		return badRequest("prompt", "%d texts: at most %d a request", texts, maxChoices)
	}
	return nil
}

// encoded are the tokens of some texts.
func (r *completionRequest) encoded(s *server, list ...string) ([][]int32, error) {
	if err := r.few(len(list)); err != nil {
		return nil, err
	}
	out := make([][]int32, len(list))
	for i, text := range list {
		if err := s.short(len(text)); err != nil {
			return nil, err
		}
		out[i] = s.Tokenizer.Wrap(s.Tokenizer.Encode(text))
	}
	return out, nil
}

func (s *server) completions(w http.ResponseWriter, r *http.Request) error {
	var body completionRequest
	if err := decode(r.Body, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	if err := s.known(body.Model); err != nil {
		return err
	}
	prompts, err := body.prompts(s)
	if err != nil {
		return err
	}
	j := s.newJob("cmpl-", "text_completion", s.Now())
	for _, p := range prompts {
		one, err := s.request(&body.options, p)
		if err != nil {
			return err
		}
		one.StopTokens = nil // there are no turns to end
		if body.LogProbs != nil {
			one.TopLogProbs = *body.LogProbs
		}
		if err := one.Validate(); err != nil {
			return badRequest("logprobs", "%v", err)
		}
		j.add(one, body.choices())
	}
	if body.Stream {
		return s.streamText(w, r, j, &body)
	}
	results, err := s.run(r.Context(), j, nil)
	if err != nil {
		return err
	}
	choices := make([]any, len(results))
	for i, result := range results {
		choices[i] = s.textChoice(j, &body, i, result.Text, string(result.Finish), result.Tokens, 0)
	}
	reply := s.envelope(j, choices)
	reply["usage"] = j.usage
	writeJSON(w, http.StatusOK, reply)
	return nil
}

// textChoice is a choice, or in a stream the news of one.
func (s *server) textChoice(j *job, body *completionRequest, i int, text, finish string, tokens []generate.Token, offset int) map[string]any {
	choice := map[string]any{"index": i, "text": text, "logprobs": nil, "finish_reason": nil}
	if finish != "" {
		choice["finish_reason"] = finish
	}
	if body.LogProbs != nil {
		choice["logprobs"] = s.textLogProbs(tokens, offset)
	}
	if body.ReturnTokenIDs {
		choice["token_ids"] = ids(tokens)
		choice["prompt_token_ids"] = j.requests[i].Prompt
	}
	return choice
}

func (s *server) streamText(w http.ResponseWriter, r *http.Request, j *job, body *completionRequest) error {
	out := &stream{w: w}
	offsets := make([]int, len(j.requests))
	results, err := s.run(r.Context(), j, func(i int, d generate.Delta) error {
		var tokens []generate.Token
		if d.Token != nil {
			tokens = append(tokens, *d.Token)
		}
		choice := s.textChoice(j, body, i, d.Text, "", tokens, offsets[i])
		offsets[i] += len(d.Text)
		return out.send(s.envelope(j, []any{choice}))
	})
	for i, result := range results {
		if err == nil {
			err = out.send(s.envelope(j, []any{s.textChoice(j, body, i, "", string(result.Finish), nil, offsets[i])}))
		}
	}
	return s.finish(out, j, body.StreamOptions.IncludeUsage, err)
}
