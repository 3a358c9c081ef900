package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/leaktest"
	"understudy/envace/remote"
	"understudy/envace/serve"
	"understudy/gpu"
	"understudy/gpu/chat"
	"understudy/gpu/generate"
	"understudy/gpu/reference"
	"understudy/gpu/tokenizer"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func qwen3(t *testing.T) *chat.Template {
	t.Helper()
	template, err := chat.New(chat.Qwen3)
	if err != nil {
		t.Fatal(err)
	}
	return template
}

type fixture struct {
	url    string
	engine *generate.Engine
	tok    *tokenizer.Tokenizer
}

// setup serves a tiny random model.
func setup(t *testing.T) fixture {
	t.Helper()
	return setupOn(t, reference.New(reference.Single))
}

func setupOn(t *testing.T, device gpu.Device) fixture {
	t.Helper()
	tok, err := tokenizer.Train(slices.Values([]string{strings.Repeat("the cat sat on the mat {\"yes\": true, \"id\": 12} ", 20)}), tokenizer.TrainConfig{
		Size: 340, Added: []tokenizer.AddedToken{
			{Content: "<|endoftext|>", Special: true},
			{Content: "<|im_start|>", Special: true},
			{Content: "<|im_end|>", Special: true},
			{Content: "<tool_call>"},
			{Content: "</tool_call>"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := gpu.NewRandom(device, gpu.Config{
		Type: gpu.Qwen3, Layers: 1, Width: 16, Hidden: 24, Vocab: tok.Size(), Context: 4096,
		Heads: gpu.Heads{H: 4, G: 2, D: 4}, Eps: 1e-6, RoPE: gpu.RoPE{Theta: 10000}, Tied: true, BOS: -1, EOS: []int32{0},
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(2, 3))
	for _, p := range m.Params.Tensors {
		values := make([]float32, p.Len)
		for i := range values {
			values[i] = float32(rng.NormFloat64() * 0.3)
		}
		m.Device().Upload(p.Buffer, values)
	}
	engine, err := generate.New(m, generate.Config{Tokens: serve.Tokens(tok), Batch: 8, Memory: 400 * m.PageBytes()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	handler, err := serve.New(serve.Config{Name: "tiny", Engine: engine, Tokenizer: tok, Template: qwen3(t), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return fixture{url: server.URL, engine: engine, tok: tok}
}

type object = map[string]any

// post sends body to path and returns status and reply.
func (f fixture) post(t *testing.T, path string, body any) (int, object, http.Header) {
	t.Helper()
	res := f.send(t.Context(), t, path, body)
	defer func() { _ = res.Body.Close() }()
	var reply object
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return res.StatusCode, reply, res.Header
}

func (f fixture) send(ctx context.Context, t *testing.T, path string, body any) *http.Response {
	t.Helper()
	encoded, ok := body.(string)
	if !ok {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		encoded = string(data)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+path, strings.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func chatBody(options object) object {
	body := object{
		"model": "tiny", "seed": 5, "max_tokens": 24, "ignore_eos": true,
		"messages": []object{{"role": "system", "content": "be brief"}, {"role": "user", "content": []object{{"type": "text", "text": "hello"}}}},
	}
	maps.Copy(body, options)
	return body
}

// ok posts and expects a reply.
func (f fixture) ok(t *testing.T, path string, body any) object {
	t.Helper()
	status, reply, _ := f.post(t, path, body)
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, reply)
	}
	return reply
}

func at(value any, path ...any) any {
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := value.(object)
			value = m[key]
		case int:
			l, _ := value.([]any)
			if key >= len(l) {
				return nil
			}
			value = l[key]
		}
	}
	return value
}

func TestChat(t *testing.T) {
	t.Parallel()
	f := setup(t)
	reply := f.ok(t, "/v1/chat/completions", chatBody(object{"n": 3, "logprobs": true, "top_logprobs": 2, "return_token_ids": true}))
	choices, _ := reply["choices"].([]any)
	if len(choices) != 3 || reply["object"] != "chat.completion" || reply["model"] != "tiny" {
		t.Fatalf("got %v", reply)
	}
	for i, c := range choices {
		content, _ := at(c, "logprobs", "content").([]any)
		tokens, _ := at(c, "token_ids").([]any)
		if len(content) != 24 || len(tokens) != 24 || at(c, "finish_reason") != "length" || at(c, "index") != float64(i) {
			t.Errorf("choice %d: %d log-probabilities, %d ids, %v", i, len(content), len(tokens), at(c, "finish_reason"))
		}
		if top, _ := at(content, 0, "top_logprobs").([]any); len(top) != 2 {
			t.Errorf("choice %d: %d alternatives, want 2", i, len(top))
		}
		if at(content, 0, "logprob") != at(content, 0, "tempered") {
			t.Error("at temperature 1 both log-probabilities are one")
		}
	}
	if at(choices, 0, "message", "content") == at(choices, 1, "message", "content") {
		t.Error("n gave the same text twice")
	}
	if at(reply, "usage", "completion_tokens") != 72.0 || at(reply, "usage", "prompt_tokens") != float64(len(at(reply, "prompt_token_ids").([]any))) {
		t.Errorf("usage %v", reply["usage"])
	}
	again := f.ok(t, "/v1/chat/completions", chatBody(object{"temperature": 1}))
	if at(again, "choices", 0, "message", "content") != at(choices, 0, "message", "content") {
		t.Error("the same seed gave another text")
	}
	if cached, _ := at(again, "usage", "prompt_tokens_details", "cached_tokens").(float64); cached == 0 {
		t.Error("the prompt was computed again")
	}
}

// events reads a stream to its end.
func (f fixture) events(t *testing.T, path string, body any) []object {
	t.Helper()
	res := f.send(t.Context(), t, path, body)
	defer func() { _ = res.Body.Close() }()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("content type %q", got)
	}
	var out []object
	scanner := bufio.NewScanner(res.Body)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		data, ok := strings.CutPrefix(scanner.Text(), "data: ")
		switch {
		case !ok && scanner.Text() != "":
			t.Fatalf("line %q", scanner.Text())
		case data == "[DONE]":
			return out
		case ok:
			var event object
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				t.Fatal(err)
			}
			out = append(out, event)
		}
	}
	t.Fatal("the stream has no end")
	return nil
}

func TestChatStream(t *testing.T) {
	t.Parallel()
	f := setup(t)
	options := object{"n": 2, "logprobs": true, "stop": []string{"a"}, "max_tokens": 60}
	whole := f.ok(t, "/v1/chat/completions", chatBody(options))
	options["stream"], options["stream_options"] = true, object{"include_usage": true}
	texts, finishes, logProbs := [2]string{}, [2]any{}, [2]int{}
	events := f.events(t, "/v1/chat/completions", chatBody(options))
	for _, e := range events {
		choice := at(e, "choices", 0)
		if choice == nil {
			continue
		}
		i := int(at(choice, "index").(float64))
		text, _ := at(choice, "delta", "content").(string)
		texts[i] += text
		content, _ := at(choice, "logprobs", "content").([]any)
		logProbs[i] += len(content)
		if finish := at(choice, "finish_reason"); finish != nil {
			finishes[i] = finish
		}
	}
	for i := range 2 {
		want, _ := at(whole, "choices", i, "logprobs", "content").([]any)
		if texts[i] != at(whole, "choices", i, "message", "content") || finishes[i] != at(whole, "choices", i, "finish_reason") || logProbs[i] != len(want) {
			t.Errorf("choice %d: streamed %q (%v, %d), at once %v", i, texts[i], finishes[i], logProbs[i], at(whole, "choices", i))
		}
		if strings.Contains(texts[i], "a") {
			t.Errorf("%q holds the stop string", texts[i])
		}
	}
	last := events[len(events)-1]
	if !reflect.DeepEqual(at(last, "usage", "completion_tokens"), at(whole, "usage", "completion_tokens")) {
		t.Errorf("the last event %v, want the usage %v", last, whole["usage"])
	}
}

func TestCompletions(t *testing.T) {
	t.Parallel()
	f := setup(t)
	text := f.ok(t, "/v1/completions", object{"prompt": "the cat", "max_tokens": 9, "seed": 3, "logprobs": 2, "return_token_ids": true, "ignore_eos": true})
	tokens := f.tok.Encode("the cat")
	raw := f.ok(t, "/v1/completions", object{"prompt": tokens, "max_tokens": 9, "seed": 3, "ignore_eos": true})
	if at(text, "choices", 0, "text") != at(raw, "choices", 0, "text") || at(text, "object") != "text_completion" {
		t.Errorf("text %v, token ids %v", at(text, "choices", 0), at(raw, "choices", 0))
	}
	for _, list := range []string{"tokens", "token_logprobs", "text_offset", "top_logprobs"} {
		if got, _ := at(text, "choices", 0, "logprobs", list).([]any); len(got) != 9 {
			t.Errorf("%s has %d entries, want 9", list, len(got))
		}
	}
	several := f.ok(t, "/v1/completions", object{"prompt": []string{"the cat", "on"}, "n": 2, "max_tokens": 2})
	if got, _ := several["choices"].([]any); len(got) != 4 {
		t.Errorf("two prompts, two texts each: %d choices", len(got))
	}
	var streamed strings.Builder
	for _, e := range f.events(t, "/v1/completions", object{"prompt": "the cat", "max_tokens": 9, "seed": 3, "stream": true, "ignore_eos": true}) {
		part, _ := at(e, "choices", 0, "text").(string)
		streamed.WriteString(part)
	}
	if streamed.String() != at(text, "choices", 0, "text") {
		t.Errorf("streamed %q, at once %q", streamed.String(), at(text, "choices", 0, "text"))
	}
}

// Our own client finds all that it looks for.
func TestRemote(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, err := remote.New(remote.Config{URL: f.url, Temperature: 1, MaxTokens: 64, Timeout: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	caps, err := p.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := caps
	want.Chat, want.Completions, want.Seed, want.Deterministic, want.N = true, true, true, true, true
	want.LogProbs, want.TokenIDs, want.JSONSchema, want.Tools = true, true, true, true
	if caps != want {
		t.Errorf("capabilities %+v, want all of them", caps)
	}
	answers, err := p.Rehearse(t.Context(), audit.RehearseRequest{Call: audit.Call{Tool: "get", Arguments: json.RawMessage(`{"id":5}`)}, K: 3, Seed: 11})
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Rehearse(t.Context(), audit.RehearseRequest{Call: audit.Call{Tool: "get", Arguments: json.RawMessage(`{"id":5}`)}, K: 3, Seed: 11})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Unavailable != "" || len(a.Tokens) == 0 || len(a.Tokens) != len(a.LogProbs) || a.Confidence == nil {
			t.Errorf("answer %d: %+v", i, a)
		}
		if !slices.Equal(a.Tokens, again[i].Tokens) || !slices.Equal(a.LogProbs, again[i].LogProbs) {
			t.Errorf("answer %d is not repeated", i)
		}
	}
}
