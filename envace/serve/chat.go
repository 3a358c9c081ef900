package serve

import (
	"net/http"
	"strconv"

	"understudy/gpu/chat"
	"understudy/gpu/generate"
	"understudy/gpu/tokenizer"
)

func (s *server) chat(w http.ResponseWriter, r *http.Request) error {
	var body chatRequest
	if err := decode(r.Body, &body); err != nil {
		return err
	}
	j, f, err := s.chatJob(&body)
	if err != nil {
		return err
	}
	for _, why := range f.relaxed {
		w.Header().Add("Warning", `299 understudy `+strconv.Quote(why))
	}
	if body.Stream {
		return s.streamChat(w, r, j, f, &body)
	}
	results, err := s.run(r.Context(), j, nil)
	if err != nil {
		return err
	}
	choices := make([]any, len(results))
	for i, result := range results {
		reader := callReader{calls: f.calls}
		content, calls := reader.write(result.Text)
		content += reader.close()
		message := map[string]any{"role": "assistant", "content": content, "refusal": nil}
		if len(calls) > 0 {
			message["tool_calls"] = callList(calls, 0, false)
			if content == "" {
				message["content"] = nil
			}
		}
		choice := s.chatChoice(&body, i, finishReason(result, reader.found), result.Tokens)
		choice["message"] = message
		choices[i] = choice
	}
	reply := s.envelope(j, choices)
	reply["usage"] = j.usage
	if body.ReturnTokenIDs {
		reply["prompt_token_ids"] = j.prompts[0]
	}
	writeJSON(w, http.StatusOK, reply)
	return nil
}

// chatJob checks a request and renders its prompt.
func (s *server) chatJob(body *chatRequest) (*job, form, error) {
	if err := body.check(); err != nil {
		return nil, form{}, err
	}
	if err := s.known(body.Model); err != nil {
		return nil, form{}, err
	}
	conversation, err := body.conversation()
	if err != nil {
		return nil, form{}, err
	}
	f, err := s.form(body)
	if err != nil {
		return nil, f, err
	}
	if string(body.ToolChoice) == `"none"` {
		conversation.Tools = nil
	}
	thinking := body.TemplateArgs.EnableThinking
	conversation.NoThinking = f.forced || thinking != nil && !*thinking
	prompt, err := s.Template.Render(conversation)
	if err != nil {
		return nil, f, badRequest("messages", "%v", err)
	}
	if err := s.short(size(prompt)); err != nil {
		return nil, f, err
	}
	request, err := s.request(&body.options, s.tokens(prompt))
	if err != nil {
		return nil, f, err
	}
	request.Grammar = f.grammar
	request.TopLogProbs = body.TopLogProbs
	if body.TopLogProbs > 0 && !body.LogProbs {
		return nil, f, badRequest("top_logprobs", "top_logprobs needs logprobs")
	}
	if err := request.Validate(); err != nil {
		return nil, f, badRequest("top_logprobs", "%v", err)
	}
	object := "chat.completion"
	if body.Stream {
		object = "chat.completion.chunk"
	}
	j := s.newJob("chatcmpl-", object, s.Now())
	j.add(request, body.choices())
	return j, f, nil
}

func finishReason(r *generate.Result, calls int) string {
	if calls > 0 && r.Finish == generate.FinishStop {
		return "tool_calls"
	}
	return string(r.Finish)
}

// callList is calls as clients read them; in a stream each carries its index.
func callList(calls []toolCall, first int, indexed bool) []any {
	out := make([]any, len(calls))
	for i, c := range calls {
		entry := map[string]any{
			"id": c.id, "type": "function",
			"function": map[string]any{"name": c.name, "arguments": string(c.arguments)},
		}
		if indexed {
			entry["index"] = first + i
		}
		out[i] = entry
	}
	return out
}

// chatChoice is a choice without its message, or in a stream without its delta.
func (s *server) chatChoice(body *chatRequest, i int, finish string, tokens []generate.Token) map[string]any {
	choice := map[string]any{"index": i, "logprobs": nil, "finish_reason": nil}
	if finish != "" {
		choice["finish_reason"] = finish
	}
	if body.LogProbs {
		choice["logprobs"] = s.chatLogProbs(tokens)
	}
	if body.ReturnTokenIDs {
		choice["token_ids"] = ids(tokens)
	}
	return choice
}

// streamChat sends each token's news as a chunk; a tool call is one chunk, when it
// is whole.
func (s *server) streamChat(w http.ResponseWriter, r *http.Request, j *job, f form, body *chatRequest) error {
	out := &stream{w: w}
	readers := make([]callReader, len(j.requests))
	began := make([]bool, len(j.requests))
	for i := range readers {
		readers[i].calls = f.calls
	}
	// news sends a chunk of choice i; each choice has one goroutine.
	news := func(i int, content string, calls []toolCall, finish string, tokens []generate.Token) error {
		delta := map[string]any{}
		if !began[i] {
			began[i] = true
			delta["role"] = "assistant"
		}
		if content != "" {
			delta["content"] = content
		}
		if len(calls) > 0 {
			delta["tool_calls"] = callList(calls, readers[i].found-len(calls), true)
		}
		if len(delta) == 0 && finish == "" && (len(tokens) == 0 || !body.LogProbs && !body.ReturnTokenIDs) {
			return nil // held back, and nobody asked for the token
		}
		choice := s.chatChoice(body, i, finish, tokens)
		choice["delta"] = delta
		return out.send(s.envelope(j, []any{choice}))
	}
	results, err := s.run(r.Context(), j, func(i int, d generate.Delta) error {
		var tokens []generate.Token
		if d.Token != nil {
			tokens = append(tokens, *d.Token)
		}
		content, calls := readers[i].write(d.Text)
		return news(i, content, calls, "", tokens)
	})
	for i, result := range results {
		if err == nil {
			err = news(i, readers[i].close(), nil, finishReason(result, readers[i].found), nil)
		}
	}
	return s.finish(out, j, body.StreamOptions.IncludeUsage, err)
}

// size is a prompt's bytes.
func size(prompt chat.Prompt) int {
	n := 0
	for _, p := range prompt {
		n += len(p.Text)
	}
	return n
}

// tokens are a prompt's; control tokens in what was said stay plain text.
func (s *server) tokens(prompt chat.Prompt) []int32 {
	parts := make([]tokenizer.Part, len(prompt))
	for i, p := range prompt {
		parts[i] = tokenizer.Part{Text: p.Text, Plain: p.Plain}
	}
	return s.Tokenizer.AppendParts(nil, parts...)
}
