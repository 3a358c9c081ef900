package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"understudy/envace/serve"
)

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
		{"/v1/chat/completions", chatBody(object{"temperature": 1e308}), 400, "temperature", "a scale that is 0 in float32"},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]} {}`, 400, "something follows", "two objects"},
		{"/v1/chat/completions", chatBody(object{"messages": []object{{"role": "user", "content": strings.Repeat("a", 4<<20)}}}), 400, "4194", "a prompt that is not even cut into tokens"},
		{"/v1/completions", object{"prompt": slices.Repeat([]string{"a"}, 100_000), "n": 128}, 400, "12800000 texts", "more texts than fit in memory"},
		{"/v1/completions", object{"prompt": slices.Repeat([][]int{{1}}, 129)}, 400, "129 texts", "too many prompts"},
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
	for _, how := range []string{"stream", "whole", "whole, asked in chunks"} {
		before, err := f.engine.Stats()
		if err != nil {
			t.Fatal(err)
		}
		stream := how == "stream"
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
			if how != "whole" {
				req.ContentLength = -1 // unknown: the body's end comes apart
			}
			go func() {
				for { // until it runs
					if s, err := f.engine.Stats(); err != nil || s.Running > 0 {
						cancel()
						return
					}
				}
			}()
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
				t.Error("3500 tokens before the client went away")
			}
		}
		deadline := time.After(20 * time.Second)
		for f.engine.Flush() != nil {
			select {
			case <-deadline:
				t.Fatalf("%s: the request still runs", how)
			case <-time.After(time.Millisecond):
			}
		}
		if s, err := f.engine.Stats(); err != nil || s.Free != s.Pages || s.Generated-before.Generated >= 3500 {
			t.Errorf("%s: %d of %d pages are free after %d tokens (%v)", how, s.Free, s.Pages, s.Generated-before.Generated, err)
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
