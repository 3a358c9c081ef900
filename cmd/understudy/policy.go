package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"understudy/audit"
	"understudy/envace/remote"
	openai "understudy/envace/serve"
	"understudy/gpu/chat"
)

// policyFlags say which policy rehearses, where episodes bring no rehearsals: a
// server's, or one whose weights are here.
type policyFlags struct {
	url         string
	model       string
	temperature float64
	k           int
	engine      engineFlags
}

// register is for a policy on a server; registerLocal for one that may be here, too.
func (p *policyFlags) register(fs *flag.FlagSet) {
	p.registerServer(fs, "model of --policy's server; needed when it serves several")
}

func (p *policyFlags) registerLocal(fs *flag.FlagSet) {
	p.registerServer(fs, "model of --policy's server, needed when it serves several; without --policy, the folder of a model that rehearses here")
	p.engine.register(fs)
}

func (p *policyFlags) registerServer(fs *flag.FlagSet, model string) {
	fs.StringVar(&p.url, "policy", "", "base URL of an OpenAI-compatible server whose model rehearses, such as http://127.0.0.1:8000/v1")
	fs.StringVar(&p.model, "model", "", model)
	fs.Float64Var(&p.temperature, "temperature", 0, "of rehearsals; 0 = always the likeliest token")
	fs.IntVar(&p.k, "k", 1, "rehearsals of each action; their agreement is stored")
}

// given says whether there is a policy to rehearse.
func (p *policyFlags) given() bool { return p.url != "" || p.model != "" }

// policy is what rehearses, and what it holds.
type policy struct {
	rehearser audit.Rehearser // nil: only rehearsals that came with an episode are audited
	patience  time.Duration   // with one rehearsal; 0 = what is usual with a server
	handler   http.Handler    // of a model that is here: OpenAI's API over it
	close     func() error
}

// open opens the policy that the flags name, if any.
func (p *policyFlags) open(ctx context.Context, inv *invocation) (policy, error) {
	none := policy{close: func() error { return nil }}
	switch {
	case !p.given():
		return none, nil
	case p.url == "":
		return p.local(ctx, inv)
	}
	r, err := p.remote(inv.config)
	if err != nil {
		return none, err // a nil *Policy must not become a non-nil Rehearser
	}
	none.rehearser = r
	return none, nil
}

func (p *policyFlags) remote(cfg Config) (*remote.Policy, error) {
	return remote.New(remote.Config{
		URL: p.url, Model: p.model, APIKey: string(cfg.PolicyKey), Temperature: p.temperature, HTTP: cfg.typedClient(p.url),
	})
}

// A rehearsal on this machine's processors may take long, and need not be long.
const (
	localTimeout   = time.Hour
	localMaxTokens = 512
)

// local loads a model; it is asked as a server is, without a network.
func (p *policyFlags) local(ctx context.Context, inv *invocation) (policy, error) {
	out, config, err := p.serve(ctx, inv)
	if err != nil {
		return policy{}, err
	}
	if out.rehearser, err = remote.New(config); err != nil {
		_ = out.close() // the first error says more
		return policy{}, modelError(p.model, err)
	}
	return out, nil
}

// serve loads a model and says how it is asked in this process.
func (p *policyFlags) serve(ctx context.Context, inv *invocation) (policy, remote.Config, error) {
	e, err := openEngine(p.model, p.engine)
	if err != nil {
		return policy{}, remote.Config{}, err
	}
	out := policy{close: e.close, patience: localTimeout}
	template, err := chat.Load(p.model)
	if err == nil {
		out.handler, err = openai.New(openai.Config{Name: e.name, Engine: e.Engine, Tokenizer: e.tokens, Template: template, Logger: inv.log})
	}
	if err != nil {
		_ = e.close() // the first error says more
		return policy{}, remote.Config{}, modelError(p.model, err)
	}
	inv.log.InfoContext(ctx, "model loaded", slog.String("model", e.name), slog.String("device", e.device.Name()),
		slog.String("mode", e.device.Mode().String()), slog.Int("context", e.Limit()))
	return out, remote.Config{
		URL: "http://built-in", Model: e.name, Temperature: p.temperature, MaxTokens: localMaxTokens, Timeout: localTimeout,
		HTTP: &http.Client{Transport: inProcess{out.handler}},
	}, nil
}

// inProcess answers requests by a handler of this process.
type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	reply := &reply{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(reply, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", reply.status, http.StatusText(reply.status)), StatusCode: reply.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: reply.header,
		Body: io.NopCloser(&reply.body), ContentLength: int64(reply.body.Len()), Request: r,
	}, nil
}

// reply is an http.ResponseWriter that keeps what is written.
type reply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *reply) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *reply) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *reply) Write(data []byte) (int, error) { return r.body.Write(data) }
