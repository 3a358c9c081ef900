package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/leaktest"
	"understudy/envace/remote"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// request is what a scripted server sees of a chat request.
type request struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	N        int             `json:"n"`
	Seed     *int64          `json:"seed"`
	LogProbs bool            `json:"logprobs"`
	TokenIDs bool            `json:"return_token_ids"`
	Format   json.RawMessage `json:"response_format"`
	Tools    json.RawMessage `json:"tools"`
}

func (r request) isProbe() bool { return strings.Contains(r.Messages[0].Content, "word yes") }

// serve runs a chat server; chat writes the reply to one request.
func serve(t *testing.T, models string, chat func(w http.ResponseWriter, r request)) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, models) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var body request
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("request: %v", err)
		}
		chat(w, body)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

const oneModel = `{"data":[{"id":"tiny"}]}`

// vllm answers as vLLM does: everything is supported.
func vllm(answer func(r request, i int) string) func(http.ResponseWriter, request) {
	return func(w http.ResponseWriter, r request) {
		choices := make([]string, 0, max(r.N, 1))
		for i := range max(r.N, 1) {
			text := "yes"
			if r.Format != nil {
				text = `{"yes":true}`
			}
			if !r.isProbe() {
				text = answer(r, i)
			}
			choices = append(choices, fmt.Sprintf(`{"finish_reason":"stop","message":{"content":%q},"token_ids":[1,2],"logprobs":{"content":[{"logprob":-0.1},{"logprob":-0.3}]}}`, text))
		}
		_, _ = fmt.Fprintf(w, `{"choices":[%s]}`, strings.Join(choices, ","))
	}
}

func newPolicy(t *testing.T, config remote.Config) *remote.Policy {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	config.HTTP = &http.Client{Transport: transport}
	p, err := remote.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ask(k int) audit.RehearseRequest {
	return audit.RehearseRequest{Call: audit.Call{Tool: "get", Arguments: json.RawMessage(`{}`)}, K: k, Seed: 5}
}

func TestRehearse(t *testing.T) {
	t.Parallel()
	url := serve(t, oneModel, vllm(func(_ request, i int) string {
		if i == 2 {
			return `<execution_result>{"b":2,"a":0}</execution_result>`
		}
		return `<execution_result>{"a":1, "b":2}</execution_result>` + strings.Repeat(" ", i)
	}))
	p := newPolicy(t, remote.Config{URL: url + "/v1/"})
	answers, err := p.Rehearse(t.Context(), ask(3))
	if err != nil {
		t.Fatal(err)
	}
	if len(answers) != 3 || string(answers[0].Raw) != `{"a":1, "b":2}` {
		t.Fatalf("got %+v", answers)
	}
	if got := []float64{*answers[0].Agreement, *answers[2].Agreement}; got[0] != 2./3 || got[1] != 1./3 {
		t.Errorf("agreement %v, want 2/3 for the pair and 1/3 for the odd one", got)
	}
	if c := *answers[0].Confidence; c < .818 || c > .819 {
		t.Errorf("confidence %v, want exp(-0.2): the geometric mean of the token probabilities", c)
	}
	if len(answers[0].Tokens) != 2 || len(answers[0].LogProbs) != 2 {
		t.Errorf("tokens %v, log-probabilities %v", answers[0].Tokens, answers[0].LogProbs)
	}
}

func TestRehearseWithoutN(t *testing.T) {
	t.Parallel()
	var seeds []int64
	url := serve(t, oneModel, func(w http.ResponseWriter, r request) {
		if !r.isProbe() {
			seeds = append(seeds, *r.Seed)
		}
		_, _ = fmt.Fprint(w, `{"choices":[{"message":{"content":"<execution_result>1</execution_result>"}}]}`)
	})
	answers, err := newPolicy(t, remote.Config{URL: url}).Rehearse(t.Context(), ask(3))
	if err != nil || len(answers) != 3 {
		t.Fatalf("%v, %d answers", err, len(answers))
	}
	if fmt.Sprint(seeds) != "[5 6 7]" {
		t.Errorf("seeds %v: a server without n is asked k times, each with its own seed", seeds)
	}
	if answers[0].Confidence != nil || answers[0].LogProbs != nil {
		t.Error("confidence out of thin air")
	}
}

func TestRehearseLogProbsThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	for _, lp := range []string{"NaN", "-Infinity", "-9999.0", "null", "0.5"} {
		url := serve(t, oneModel, func(w http.ResponseWriter, _ request) {
			_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":"<execution_result>\"NaN\"</execution_result>"},"logprobs":{"content":[{"logprob":-1},{"logprob":%s}]}}]}`, lp)
		})
		answers, err := newPolicy(t, remote.Config{URL: url}).Rehearse(t.Context(), ask(1))
		if err != nil {
			t.Fatalf("%s: %v", lp, err)
		}
		if a := answers[0]; a.LogProbs != nil || a.Confidence != nil || a.Unavailable != "" || string(a.Raw) != `"NaN"` {
			t.Errorf("log-probability %s: got %+v; want the answer without numbers", lp, a)
		}
	}
}

func TestRehearseTruncatedAndMissingContent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		choice, raw string
		truncated   bool
		reason      string
	}{
		{`{"finish_reason":"length","message":{"content":"<execution_result>{\"a\":"}}`, `{"a":`, true, "cut by the token limit"},
		{`{"finish_reason":"stop","message":{"content":null}}`, ``, false, "content null"},
		{`{"finish_reason":"stop","message":{}}`, ``, false, "content missing, as with reasoning only"},
	}
	for _, test := range tests {
		url := serve(t, oneModel, func(w http.ResponseWriter, _ request) {
			_, _ = fmt.Fprintf(w, `{"choices":[%s]}`, test.choice)
		})
		answers, err := newPolicy(t, remote.Config{URL: url}).Rehearse(t.Context(), ask(1))
		if err != nil || string(answers[0].Raw) != test.raw || answers[0].Truncated != test.truncated {
			t.Errorf("%s: %v, %+v", test.reason, err, answers)
		}
	}
}

func TestRehearseServerFails(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	url := serve(t, oneModel, func(w http.ResponseWriter, r request) {
		if r.isProbe() {
			_, _ = fmt.Fprint(w, `{"choices":[{"message":{"content":"yes"}}]}`)
			return
		}
		asked.Add(1)
		http.Error(w, "out of range float values", http.StatusInternalServerError)
	})
	p := newPolicy(t, remote.Config{URL: url, Retries: -1})
	now := time.Unix(1000, 0)
	p.SetClock(func() time.Time { return now })
	rehearse := func() {
		t.Helper()
		answers, err := p.Rehearse(t.Context(), ask(2))
		if err != nil {
			t.Fatal(err)
		}
		if len(answers) != 2 || answers[1].Unavailable == "" || len(answers[1].Raw) != 0 {
			t.Fatalf("got %+v, want two masked answers: an outage is never a number", answers)
		}
	}
	for range 7 {
		rehearse()
	}
	if n := asked.Load(); n != 5 {
		t.Errorf("the server was asked %d times, want 5: the breaker opens after five failures in a row", n)
	}
	now = now.Add(10 * time.Second)
	for range 2 {
		rehearse()
	}
	if n := asked.Load(); n != 6 {
		t.Errorf("the server was asked %d times, want 6: once more when its rest is over, and the next failure begins another", n)
	}
}

func TestRehearseRetries(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	url := serve(t, oneModel, func(w http.ResponseWriter, r request) {
		if !r.isProbe() && asked.Add(1) == 1 {
			http.Error(w, "busy", http.StatusTooManyRequests)
			return
		}
		_, _ = fmt.Fprint(w, `{"choices":[{"message":{"content":"<execution_result>1</execution_result>"}}]}`)
	})
	answers, err := newPolicy(t, remote.Config{URL: url}).Rehearse(t.Context(), ask(1))
	if err != nil || string(answers[0].Raw) != "1" || asked.Load() != 2 {
		t.Errorf("%v, %+v after %d requests; want an answer at the second", err, answers, asked.Load())
	}
}

func TestRehearseUnreachable(t *testing.T) {
	t.Parallel()
	const nowhere = "http://127.0.0.1:0" // no server has port 0; that of a closed one may be another's by now
	answers, err := newPolicy(t, remote.Config{URL: nowhere, Retries: -1}).Rehearse(t.Context(), ask(1))
	if err != nil || answers[0].Unavailable == "" {
		t.Errorf("a server that is down: %v, %+v; want a masked answer", err, answers)
	}
}

func TestRehearseCallersFaults(t *testing.T) {
	t.Parallel()
	refuse := func(status int) func(http.ResponseWriter, request) {
		return func(w http.ResponseWriter, _ request) { http.Error(w, "no", status) }
	}
	tests := []struct {
		models string
		chat   func(http.ResponseWriter, request)
		code   audit.Code
		reason string
	}{
		{oneModel, refuse(http.StatusUnauthorized), audit.CodeUnauthorized, "a wrong key"},
		{oneModel, refuse(http.StatusNotFound), audit.CodeNotFound, "a model that is not served"},
		{`{"data":[{"id":"a"},{"id":"b"}]}`, refuse(http.StatusOK), audit.CodeInvalid, "two models and no choice"},
	}
	for _, test := range tests {
		_, err := newPolicy(t, remote.Config{URL: serve(t, test.models, test.chat), APIKey: "k-secret"}).Rehearse(t.Context(), ask(1))
		if audit.ErrorCode(err) != test.code || audit.ErrorHint(err) == "" || strings.Contains(fmt.Sprint(err), "k-secret") {
			t.Errorf("%s: got %v (%s)", test.reason, err, audit.ErrorCode(err))
		}
	}
	for _, url := range []string{"", "localhost:8000", "ftp://x", "http://"} {
		if _, err := remote.New(remote.Config{URL: url}); audit.ErrorCode(err) != audit.CodeInvalid {
			t.Errorf("URL %q: %v", url, err)
		}
	}
}

func TestRehearseCancelled(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	var asked atomic.Int32
	url := serve(t, oneModel, func(w http.ResponseWriter, _ request) {
		if asked.Add(1) == 2 {
			cancel(stop)
		}
		http.Error(w, "busy", http.StatusTooManyRequests)
	})
	if _, err := newPolicy(t, remote.Config{URL: url, Retries: 100}).Rehearse(ctx, ask(1)); !errors.Is(err, stop) {
		t.Errorf("got %v, want the cause of the cancellation", err)
	}
}

// Callers who wait for the first one's probe of a server that hangs go when their own
// time is up, and are not made to try one after the other.
func TestProbeIsWaitedForNoLongerThanAllowed(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 10), make(chan struct{})
	url := serve(t, oneModel, func(http.ResponseWriter, request) {
		asked <- struct{}{}
		<-release
	})
	p := newPolicy(t, remote.Config{URL: url, Retries: -1})
	first := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := p.Probe(ctx)
		first <- err
	}()
	<-asked
	over, stop := context.WithCancel(t.Context())
	stop()
	if _, err := p.Probe(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a second caller got %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first caller got %v", err)
	}
	close(release)
	if n := len(asked); n != 0 {
		t.Errorf("the server was asked %d times more", n)
	}
}

func TestProbe(t *testing.T) {
	t.Parallel()
	full, err := newPolicy(t, remote.Config{URL: serve(t, oneModel, vllm(nil))}).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !full.Chat || !full.N || !full.LogProbs || !full.TokenIDs || !full.JSONSchema || !full.Seed || !full.Deterministic || full.Completions {
		t.Errorf("a server with all but completions: %+v", full)
	}
	n := 0
	bare, err := newPolicy(t, remote.Config{URL: serve(t, oneModel, func(w http.ResponseWriter, r request) {
		if r.Seed != nil && n > 3 || r.Tools != nil {
			http.Error(w, "unknown field", http.StatusBadRequest)
			return
		}
		n++
		_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":"yes %d"}}]}`, n)
	})}).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !bare.Chat || bare.N || bare.LogProbs || bare.TokenIDs || bare.JSONSchema || bare.Deterministic || bare.Tools {
		t.Errorf("a bare server: %+v", bare)
	}
	for _, row := range bare.Rows() {
		if (row[1] == "no") != (row[2] != "") {
			t.Errorf("row %v: an absent feature says what it costs, a present one nothing", row)
		}
	}
}
