package remote_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/remote"
)

func newPlayer(t *testing.T, chat func(w http.ResponseWriter, r request)) *remote.Player {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	p, err := remote.NewPlayer(remote.Config{URL: serve(t, oneModel, chat), HTTP: &http.Client{Transport: transport}, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// answering replies to everything but probes with a message.
func answering(message string) func(http.ResponseWriter, request) {
	return func(w http.ResponseWriter, r request) {
		if r.isProbe() {
			_, _ = fmt.Fprint(w, `{"choices":[{"message":{"content":"yes"}}]}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"choices":[{"finish_reason":"stop","message":%s}],"usage":{"completion_tokens":4}}`, message)
	}
}

func acting(tools ...audit.Tool) envace.Request {
	return envace.Request{Role: audit.ActRole, Transcript: &envace.Transcript{Task: audit.Task{ID: "t", Prompt: "hi"}, Tools: tools}}
}

// However a server writes a call's arguments, they are read as what was meant.
func TestPlayerReadsCalls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		arguments, want string
		fault           envace.Fault
		reason          string
	}{
		{`"{\"x\":1}"`, `{"x":1}`, "", "JSON in a text, as the API has it"},
		{`{"x":1}`, `{"x":1}`, "", "the JSON itself"},
		{`""`, `{}`, "", "an empty text, for a tool that takes nothing"},
		{`null`, `{}`, "", "null"},
		{`"{\"x\":"`, `{"x":`, envace.FaultMalformed, "broken: the world is to refuse it"},
	}
	for _, test := range tests {
		p := newPlayer(t, answering(`{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"get","arguments":`+test.arguments+`}}]}`))
		output, err := p.Generate(t.Context(), acting(audit.Tool{Name: "get"}))
		if err != nil {
			t.Fatal(err)
		}
		act := p.ReadAct(output)
		if len(act.Calls) != 1 || act.Calls[0].Tool != "get" || string(act.Calls[0].Arguments) != test.want || act.Fault != test.fault || output.Sampled() != 4 {
			t.Errorf("%s: %+v of %q", test.reason, act, output.Text)
		}
	}
}

// The conversation as a server reads it: each answer with the number of its call.
func TestPlayerTellsTheConversation(t *testing.T) {
	t.Parallel()
	var seen []string
	p := newPlayer(t, func(w http.ResponseWriter, r request) {
		if !r.isProbe() {
			for _, m := range r.Messages {
				seen = append(seen, m.Role)
			}
		}
		answering(`{"content":"done"}`)(w, r)
	})
	r := acting()
	call := audit.Call{Tool: "get", Arguments: json.RawMessage(`{}`)}
	r.Transcript.Items = []envace.Item{{Act: &envace.Act{Calls: []audit.Call{call}}}, {Answer: &envace.Answer{Call: call, Raw: []byte(`{}`)}}, {Act: &envace.Act{Reply: "so"}}, {User: "more"}}
	output, err := p.Generate(t.Context(), r)
	if err != nil || p.ReadAct(output).Reply != "done" {
		t.Fatalf("%+v, %v", output, err)
	}
	if got := strings.Join(seen, " "); got != "system user assistant tool assistant user" {
		t.Errorf("messages of %s", got)
	}
}

// A prompt over the model's context, in the words of several servers, is no fault of
// the server's: it is told apart from an outage and from a refusal.
func TestPromptOverTheContext(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status int
		body   string
		prompt bool
		reason string
	}{
		{400, `{"error":{"code":"context_length_exceeded"}}`, true, "OpenAI"},
		{400, `This model's maximum context length is 4096 tokens`, true, "vLLM"},
		{400, `the request exceeds the available context size`, true, "llama.cpp"},
		{413, `no`, true, "a body over the server's limit"},
		{400, `unknown field "tools"`, false, "another refusal"},
		{429, `the queue is too long`, false, "a busy server"},
		{503, `loading`, false, "a server that is not up yet"},
	}
	for _, test := range tests {
		chat := func(w http.ResponseWriter, r request) {
			if r.isProbe() {
				answering("")(w, r)
				return
			}
			http.Error(w, test.body, test.status)
		}
		_, err := newPlayer(t, chat).Generate(t.Context(), acting())
		if errors.Is(err, envace.ErrPrompt) != test.prompt || err == nil || !test.prompt && audit.ErrorHint(err) == "" {
			t.Errorf("%s: a player gets %v", test.reason, err)
		}
		if wanted := audit.CodeInfrastructure; test.status >= 429 && audit.ErrorCode(err) != wanted {
			t.Errorf("%s: code %s, want %s", test.reason, audit.ErrorCode(err), wanted)
		}
		p := newPolicy(t, remote.Config{URL: serve(t, oneModel, chat), Retries: -1})
		for range 7 { // not an outage: the breaker stays shut
			answers, err := p.Rehearse(t.Context(), ask(1))
			if test.prompt && (err != nil || !strings.Contains(answers[0].Unavailable, "over the context")) {
				t.Errorf("%s: an audit gets %+v, %v", test.reason, answers, err)
			}
		}
	}
}
