package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

	"go.uber.org/goleak"

	"understudy/audit"
	"understudy/envace/remote"
	"understudy/envace/serve"
	"understudy/gpu"
	"understudy/gpu/chat"
	"understudy/gpu/generate"
	"understudy/gpu/reference"
	"understudy/gpu/tokenizer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	m, err := gpu.NewRandom(reference.New(reference.Single), gpu.Config{
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

func TestResponseFormat(t *testing.T) {
	t.Parallel()
	f := setup(t)
	schema := object{"type": "object", "properties": object{"yes": object{"type": "boolean"}, "n": object{"type": "integer", "minimum": 3, "maximum": 5}}, "required": []string{"yes", "n"}, "additionalProperties": false}
	for seed := range 10 {
		reply := f.ok(t, "/v1/chat/completions", chatBody(object{"seed": seed, "ignore_eos": false, "response_format": object{"type": "json_schema", "json_schema": object{"name": "x", "schema": schema}}}))
		var value struct {
			Yes *bool
			N   int
		}
		text, _ := at(reply, "choices", 0, "message", "content").(string)
		if err := json.Unmarshal([]byte(text), &value); err != nil || value.Yes == nil || value.N < 3 || value.N > 5 || at(reply, "choices", 0, "finish_reason") != "stop" {
			t.Errorf("%q: %v", text, err)
		}
		reply = f.ok(t, "/v1/chat/completions", chatBody(object{"seed": seed, "response_format": object{"type": "json_object"}}))
		var members map[string]any
		text, _ = at(reply, "choices", 0, "message", "content").(string)
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func tool(name string, parameters object) object {
	return object{"type": "function", "function": object{"name": name, "parameters": parameters}}
}

func tools() []object {
	id := object{"type": "object", "properties": object{"id": object{"type": "integer", "minimum": 0, "maximum": 99}}, "required": []string{"id"}, "additionalProperties": false}
	return []object{tool("get", id), tool("cancel", id)}
}

// calls checks the tool calls of a message, and names them.
func calls(t *testing.T, list any) []string {
	t.Helper()
	var names []string
	all, _ := list.([]any)
	for _, c := range all {
		var arguments struct{ ID *int }
		text, _ := at(c, "function", "arguments").(string)
		if err := json.Unmarshal([]byte(text), &arguments); err != nil || arguments.ID == nil || *arguments.ID > 99 {
			t.Errorf("arguments %q: %v", text, err)
		}
		if id, _ := at(c, "id").(string); !strings.HasPrefix(id, "call_") || at(c, "type") != "function" {
			t.Errorf("call %v", c)
		}
		name, _ := at(c, "function", "name").(string)
		names = append(names, name)
	}
	return names
}

func TestTools(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for seed := range 6 {
		base := object{"seed": seed, "tools": tools(), "max_tokens": 120, "ignore_eos": false}
		with := func(k string, v any) object {
			out := object{k: v}
			maps.Copy(out, base)
			return chatBody(out)
		}
		reply := f.ok(t, "/v1/chat/completions", with("tool_choice", "required"))
		names := calls(t, at(reply, "choices", 0, "message", "tool_calls"))
		if finish := at(reply, "choices", 0, "finish_reason"); len(names) == 0 || finish != "tool_calls" && finish != "length" || at(reply, "choices", 0, "message", "content") != nil {
			t.Errorf("required: %v", at(reply, "choices", 0))
		}
		named := object{"type": "function", "function": object{"name": "cancel"}}
		reply = f.ok(t, "/v1/chat/completions", with("tool_choice", named))
		if got := calls(t, at(reply, "choices", 0, "message", "tool_calls")); !slices.Equal(got, []string{"cancel"}) {
			t.Errorf("a named tool: %v", got)
		}
		reply = f.ok(t, "/v1/chat/completions", with("tool_choice", "none"))
		if at(reply, "choices", 0, "message", "tool_calls") != nil {
			t.Errorf("none: %v", reply)
		}
		body := with("tool_choice", "required")
		body["stream"], body["parallel_tool_calls"] = true, false
		var streamed []any
		for _, e := range f.events(t, "/v1/chat/completions", body) {
			part, _ := at(e, "choices", 0, "delta", "tool_calls").([]any)
			for _, c := range part {
				if at(c, "index") != float64(len(streamed)) {
					t.Errorf("call %v is the %d-th", c, len(streamed))
				}
				streamed = append(streamed, c)
			}
		}
		if got := calls(t, streamed); len(got) != 1 {
			t.Errorf("streamed calls %v, want one", got)
		}
	}
	history := chatBody(object{"tools": tools(), "messages": []object{
		{"role": "user", "content": "get 5"},
		{"role": "assistant", "content": nil, "tool_calls": []object{{"id": "c1", "type": "function", "function": object{"name": "get", "arguments": `{"id":5}`}}}},
		{"role": "tool", "tool_call_id": "c1", "content": "not found"},
	}})
	f.ok(t, "/v1/chat/completions", history)
}

func TestToolsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	f := setup(t)
	odd := tool("odd", object{"type": "object", "properties": object{"n": object{"type": "integer", "multipleOf": 7}}})
	status, _, header := f.post(t, "/v1/chat/completions", chatBody(object{"tools": []object{odd}}))
	if status != http.StatusOK || !strings.Contains(header.Get("Warning"), "multipleOf") {
		t.Errorf("auto: %d, warning %q; want free arguments and a warning", status, header.Get("Warning"))
	}
	status, reply, _ := f.post(t, "/v1/chat/completions", chatBody(object{"tools": []object{odd}, "tool_choice": "required"}))
	if status != http.StatusBadRequest || at(reply, "error", "code") != "unsupported_schema" || !strings.Contains(fmt.Sprint(reply), "multipleOf") {
		t.Errorf("required: %d %v", status, reply)
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

func TestFaults(t *testing.T) {
	t.Parallel()
	f := setup(t)
	long := strings.Repeat("xq ", 5000)
	tests := []struct {
		path   string
		body   any
		status int
		names  string
		reason string
	}{
		{"/v1/chat/completions", `{"messages":`, 400, "no valid request", "broken JSON"},
		{"/v1/chat/completions", chatBody(object{"model": "gpt"}), 404, "tiny", "another model"},
		{"/v1/chat/completions", chatBody(object{"messages": []object{}}), 400, "messages is empty", "no message"},
		{"/v1/chat/completions", chatBody(object{"messages": []object{{"role": "wizard"}}}), 400, "wizard", "an unknown role"},
		{"/v1/chat/completions", chatBody(object{"messages": []object{{"role": "user", "content": []object{{"type": "image_url"}}}}}), 400, "type text", "an image"},
		{"/v1/chat/completions", chatBody(object{"messages": []object{{"role": "user", "content": long}}}), 400, "4096 tokens", "a prompt beyond the context"},
		{"/v1/chat/completions", chatBody(object{"max_tokens": 0}), 400, "max_tokens", "nothing to write"},
		{"/v1/chat/completions", chatBody(object{"n": 1000}), 400, "128", "too many texts"},
		{"/v1/chat/completions", chatBody(object{"temperature": -1}), 400, "temperature", "out of range"},
		{"/v1/chat/completions", chatBody(object{"top_logprobs": 3}), 400, "needs logprobs", "half a question"},
		{"/v1/chat/completions", chatBody(object{"logprobs": true, "top_logprobs": 21}), 400, "between 0 and 20", "too many alternatives"},
		{"/v1/chat/completions", chatBody(object{"frequency_penalty": 0.5}), 400, "frequency_penalty", "what would be ignored"},
		{"/v1/chat/completions", chatBody(object{"logit_bias": object{"5": 1}}), 400, "logit_bias", "what would be ignored"},
		{"/v1/chat/completions", chatBody(object{"response_format": object{"type": "yaml"}}), 400, "yaml", "an unknown form"},
		{"/v1/chat/completions", chatBody(object{"response_format": object{"type": "json_schema", "json_schema": object{"schema": object{"not": object{}}}}}), 400, `keyword \"not\"`, "a keyword that cannot be kept"},
		{"/v1/chat/completions", chatBody(object{"max_tokens": 3, "response_format": object{"type": "json_schema", "json_schema": object{"schema": object{"const": "a long constant"}}}}), 400, "may need 17", "a form that does not fit"},
		{"/v1/chat/completions", chatBody(object{"tool_choice": "required"}), 400, "no tools", "a call of nothing"},
		{"/v1/chat/completions", chatBody(object{"tools": tools(), "tool_choice": object{"function": object{"name": "put"}}}), 400, "put", "an unknown tool"},
		{"/v1/chat/completions", chatBody(object{"tools": []object{{"type": "function"}}}), 400, "tools[0]", "a tool without a name"},
		{"/v1/completions", object{"prompt": 5}, 400, "prompt must be", "a prompt that is none"},
		{"/v1/completions", object{"prompt": []int{99999}}, 400, "99999", "a token that is none"},
		{"/v1/completions", object{"prompt": "x", "echo": true}, 400, "echo", "what would be ignored"},
		{"/v1/embeddings", object{}, 404, "/v1/embeddings", "an endpoint that is not here"},
	}
	for _, test := range tests {
		status, reply, _ := f.post(t, test.path, test.body)
		var encoded bytes.Buffer
		encoder := json.NewEncoder(&encoded)
		encoder.SetEscapeHTML(false)
		_ = encoder.Encode(reply)
		if status != test.status || at(reply, "error", "message") == nil || at(reply, "error", "type") == nil || !strings.Contains(encoded.String(), test.names) {
			t.Errorf("%s: %d %s; want %d and %q", test.reason, status, encoded.String(), test.status, test.names)
		}
	}
	if err := f.engine.Flush(); err != nil {
		t.Errorf("refused requests left something: %v", err)
	}
}

// A client that goes away frees what its request held.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, stream := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		body := chatBody(object{"max_tokens": 3500, "stream": stream})
		if stream {
			res := f.send(ctx, t, "/v1/chat/completions", body)
			if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			cancel()
			_ = res.Body.Close()
		} else {
			data, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/v1/chat/completions", bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(20*time.Millisecond, cancel)
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
				t.Error("3500 tokens in 20 ms")
			}
		}
		deadline := time.After(20 * time.Second)
		for f.engine.Flush() != nil {
			select {
			case <-deadline:
				t.Fatal("the request still runs")
			case <-time.After(time.Millisecond):
			}
		}
		if s, err := f.engine.Stats(); err != nil || s.Free != s.Pages || s.Generated >= 2*3500 {
			t.Errorf("%d of %d pages are free after %d tokens (%v)", s.Free, s.Pages, s.Generated, err)
		}
	}
}

// Our own client finds all that it looks for.
func TestRemote(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, err := remote.New(remote.Config{URL: f.url, Temperature: 1, MaxTokens: 64})
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

func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	f := setup(t)
	handler, err := serve.New(serve.Config{Name: "tiny", Engine: f.engine, Tokenizer: f.tok, Template: qwen3(t), Logger: slog.New(slog.DiscardHandler), Waiting: 2})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	f.url = server.URL
	status, reply, header := f.post(t, "/v1/chat/completions", chatBody(object{"n": 3}))
	if status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("%d %v: want to be told to come back", status, reply)
	}
	f.ok(t, "/v1/chat/completions", chatBody(object{"n": 2}))
}
