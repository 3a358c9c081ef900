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
	"sync"
	"testing"
	"time"

	"understudy/envace/serve"
	"understudy/gpu"
	"understudy/gpu/reference"
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

// paced is a device each of whose steps says that it began and waits for leave.
type paced struct {
	gpu.Device
	began, leave chan struct{}
}

func (p paced) Embed(y, table, tokens gpu.Buffer) {
	select {
	case p.began <- struct{}{}:
	default:
	}
	<-p.leave
	p.Device.Embed(y, table, tokens)
}

// announced is a body that says when its first bytes were read.
type announced struct {
	io.ReadCloser
	first func()
}

func (a announced) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if n > 0 {
		a.first()
	}
	return n, err
}

// await waits for what comes soon, or never.
func await(t *testing.T, what string, happened <-chan struct{}) {
	t.Helper()
	select {
	case <-happened:
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s: not in five minutes", what)
	}
}

// A client that goes away frees what its request held, before it has written all of
// its text.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stream", "whole", inChunks} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			disconnect(t, how)
		})
	}
}

const (
	inChunks = "whole, asked in chunks" // whose end comes apart from them
	tooMany  = 3500                     // tokens: they take long
	few      = 20                       // enough to begin a stream
)

func disconnect(t *testing.T, how string) {
	t.Helper()
	device := paced{reference.New(reference.Single), make(chan struct{}, 1), make(chan struct{}, few)}
	f := setupOn(t, device)
	goOn := sync.OnceFunc(func() { close(device.leave) })
	handler, err := serve.New(serve.Config{Name: "tiny", Engine: f.engine, Tokenizer: f.tok, Template: qwen3(t), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	read, noticed, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	firstRead := sync.OnceFunc(func() { close(read) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(noticed) })
		r.Body = announced{r.Body, firstRead}
		handler.ServeHTTP(w, r)
		close(left)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(goOn) // before server and engine are closed: they wait for its requests
	ctx, leave := context.WithCancel(t.Context())
	body, err := json.Marshal(chatBody(object{"max_tokens": tooMany, "stream": how == "stream"}))
	if err != nil {
		t.Fatal(err)
	}
	var sent io.Reader = bytes.NewReader(body)
	if how == inChunks {
		pipe, w := io.Pipe()
		sent = pipe
		go func() {
			_, _ = w.Write(body)
			<-read
			_ = w.Close()
		}()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions", sent)
	if err != nil {
		t.Fatal(err)
	}
	if how == "stream" {
		for range few {
			device.leave <- struct{}{}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		leave()
		_ = res.Body.Close()
	} else {
		go func() {
			<-device.began // it runs
			leave()
		}()
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			t.Error("a reply before the first token")
		}
	}
	await(t, "the server notices that its client has gone", noticed)
	goOn()
	await(t, "the request ends", left)
	if err := f.engine.Flush(); err != nil {
		t.Error(err)
	}
	if s, err := f.engine.Stats(); err != nil || s.Free != s.Pages || s.Generated >= tooMany {
		t.Errorf("%d of %d pages are free after %d tokens (%v)", s.Free, s.Pages, s.Generated, err)
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
