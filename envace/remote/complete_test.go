package remote_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/remote"
)

// completer is a client of a server that answers each path with a fixed text and
// keeps the last request.
func completer(t *testing.T, answers map[string]string) (*remote.Completer, *string) {
	t.Helper()
	asked := new(string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = string(body)
		_, _ = io.WriteString(w, answers[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	c, err := remote.NewCompleter(remote.Config{URL: server.URL, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c, asked
}

func TestComplete(t *testing.T) {
	t.Parallel()
	c, asked := completer(t, map[string]string{
		"/v1/models":           oneModel,
		"/v1/chat/completions": `{"choices":[{"finish_reason":"stop","message":{"content":"{\"a\":1}"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
	})
	text, usage, err := c.Complete(t.Context(), []envace.Message{{Role: "user", Content: "hi"}}, json.RawMessage(`{"type":"object"}`), .5)
	if err != nil || text != `{"a":1}` || usage != (remote.Usage{Prompt: 7, Completion: 3}) {
		t.Errorf("got %q, %+v, %v", text, usage, err)
	}
	for _, want := range []string{`"model":"tiny"`, `"temperature":0.5`, `"strict":true`, `"schema":{"type":"object"}`} {
		if !strings.Contains(*asked, want) {
			t.Errorf("the request lacks %s: %s", want, *asked)
		}
	}
}

func TestCompleteRefusesHalfAnAnswer(t *testing.T) {
	t.Parallel()
	c, _ := completer(t, map[string]string{
		"/v1/models":           oneModel,
		"/v1/chat/completions": `{"choices":[{"finish_reason":"length","message":{"content":"{\"a\":"}}],"usage":{"completion_tokens":9}}`,
	})
	_, usage, err := c.Complete(t.Context(), nil, nil, 0)
	if !errors.Is(err, remote.ErrTruncated) || usage.Completion != 9 {
		t.Errorf("got %+v, %v: a cut answer is an error whose tokens are counted", usage, err)
	}
}

func TestEmbed(t *testing.T) {
	t.Parallel()
	tests := []struct{ reply, fault, reason string }{
		{`{"data":[{"index":1,"embedding":[2]},{"index":0,"embedding":[1]}]}`, "", "the server's order is not ours"},
		{`{"data":[{"index":0,"embedding":[1]}]}`, "text 1 of 2", "one is missing"},
		{`{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`, "repeated", "one came twice"},
		{`{"data":[{"index":5,"embedding":[1]}]}`, "index 5", "one that was not asked for"},
	}
	for _, test := range tests {
		c, _ := completer(t, map[string]string{"/v1/models": oneModel, "/v1/embeddings": test.reply})
		got, err := c.Embed(t.Context(), []string{"a", "b"})
		switch {
		case test.fault == "" && (err != nil || got[0][0] != 1 || got[1][0] != 2):
			t.Errorf("%s: got %v, %v", test.reason, got, err)
		case test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)):
			t.Errorf("%s: got %v, %v", test.reason, got, err)
		}
	}
}

// A server that fails leaves a judge without an answer: whoever asks can tell it from
// what asking again cannot mend.
func TestCompleteServerFails(t *testing.T) {
	t.Parallel()
	for reply, reason := range map[string]string{`{"choices":[]}`: "no choices", `{`: "no JSON", `{"choices":[{"finish_reason":"length","message":{"content":"x"}}]}`: "half an answer"} {
		c, _ := completer(t, map[string]string{"/v1/models": oneModel, "/v1/chat/completions": reply})
		if _, _, err := c.Complete(t.Context(), nil, nil, 0); audit.ErrorCode(err) != audit.CodeInfrastructure || audit.ErrorHint(err) == "" {
			t.Errorf("%s: %v", reason, err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) }))
	defer server.Close()
	c, err := remote.NewCompleter(remote.Config{URL: server.URL, Model: "m", Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Complete(t.Context(), nil, nil, 0); audit.ErrorCode(err) != audit.CodeInfrastructure {
		t.Errorf("a busy server: %v", err)
	}
}

// The one model of a server is looked up once, not before every question.
func TestModelIsLookedUpOnce(t *testing.T) {
	t.Parallel()
	looked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			looked++
			_, _ = io.WriteString(w, oneModel)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"x"}}]}`)
	}))
	defer server.Close()
	c, err := remote.NewCompleter(remote.Config{URL: server.URL, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, _, err := c.Complete(t.Context(), nil, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if looked != 1 {
		t.Errorf("the models were listed %d times", looked)
	}
}
