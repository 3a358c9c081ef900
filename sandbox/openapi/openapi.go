package openapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"understudy/audit"
	"understudy/sandbox/adapter"
)

// Spec says where a backend is and how its episodes are kept apart.
type Spec struct {
	Document    string            // file or URL of the OpenAPI document; "" = every declared tool is POST /NAME
	URL         string            // of the backend; "" = the document's first server
	Headers     map[string]string // of every request; no host gets them that only a document names
	LastSegment bool              // tools are named by the last segment of their path
	Exclude     []string          // paths that are no tools

	SessionHeader string // gets a random value, another one for each episode
	SeedPath      string // POSTed to when an episode starts; its cookies are kept
	SeedSession   string // JSON Pointer into its answer: the value of SessionHeader
	EndPath       string // POSTed to when an episode ends

	Outcomes map[string]Outcome // of HTTP statuses, beside the usual ones
}

// New mounts a backend.
func New(ctx context.Context, spec Spec, config adapter.Config) (*adapter.Environment, error) {
	reader, err := adapter.NewResultReader()
	if err != nil {
		return nil, err
	}
	s := &server{spec: spec, reader: reader, ops: map[string]operation{}, inference: audit.DefaultInference()}
	if err := s.load(ctx, config); err != nil {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: "OpenAPI environment " + config.Name,
			Hint: "document names a file or an address of an OpenAPI 3 document, url the backend", Err: err,
		}
	}
	return adapter.New(ctx, s, config)
}

// server is a mounted backend: adapter.Server.
type server struct {
	spec      Spec
	reader    *adapter.ResultReader
	inference audit.Inference
	base      *url.URL
	tools     []audit.Tool
	ops       map[string]operation
	notes     []string
}

func (s *server) load(ctx context.Context, config adapter.Config) error {
	base := s.spec.URL
	if s.spec.Document != "" {
		text, err := fetch(ctx, s.spec)
		if err != nil {
			return err
		}
		ops, declared, notes, err := parse(text, s.spec.LastSegment, s.spec.Exclude)
		if err != nil {
			return err
		}
		s.notes = notes
		for _, op := range ops {
			if _, twice := s.ops[op.tool.Name]; twice {
				return fmt.Errorf("two operations are named %s; give one an operationId of its own", op.tool.Name)
			}
			s.ops[op.tool.Name] = op
			s.tools = append(s.tools, op.tool)
		}
		if base == "" {
			base = declared
			if len(s.spec.Headers) > 0 && remote(s.spec.Document) && !sameHost(base, s.spec.Document) {
				return fmt.Errorf("the document of %s has the requests, with their headers, sent to %s: if that is right, say so by url", audit.ShownURL(s.spec.Document), audit.ShownURL(base))
			}
		}
	}
	for _, t := range config.Declared {
		if _, known := s.ops[t.Name]; !known {
			s.ops[t.Name] = operation{method: http.MethodPost, path: "/" + t.Name, body: mediaJSON, tool: t}
		}
	}
	var err error
	if s.base, err = url.Parse(base); err != nil || s.base.Host == "" || s.base.Scheme != "http" && s.base.Scheme != "https" {
		return fmt.Errorf("url %q is no address such as http://127.0.0.1:8000", base)
	}
	return nil
}

func remote(document string) bool { return strings.Contains(document, "://") }

func sameHost(a, b string) bool {
	x, err := url.Parse(a)
	y, other := url.Parse(b)
	return err == nil && other == nil && x.Scheme == y.Scheme && x.Host == y.Host
}

// fetch reads the document from a file or an address.
func fetch(ctx context.Context, spec Spec) ([]byte, error) {
	if !remote(spec.Document) {
		return os.ReadFile(spec.Document)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, spec.Document, http.NoBody)
	if err != nil {
		return nil, audit.ShownError(err)
	}
	if spec.URL == "" || sameHost(spec.URL, spec.Document) {
		for name, value := range spec.Headers {
			req.Header.Set(name, value)
		}
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	if len(spec.Headers) > 0 {
		client.CheckRedirect = adapter.Stay
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, audit.ShownError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", audit.ShownURL(spec.Document), resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, adapter.MaxTransfer))
}

// Tools implements adapter.Server.
func (s *server) Tools(context.Context) ([]audit.Tool, error) { return s.tools, nil }

// Notes implements adapter.Noter.
func (s *server) Notes() []string { return slices.Clone(s.notes) }

// Close implements adapter.Server.
func (s *server) Close() error { return nil }

// Begin implements adapter.Server: a client of its own, with cookies of its own.
func (s *server) Begin(ctx context.Context, start adapter.Begin) (adapter.Episode, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	e := &episode{server: s, transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute}}
	e.client = &http.Client{Transport: e.transport, Jar: jar, CheckRedirect: adapter.Stay}
	if s.spec.SessionHeader != "" {
		e.session = rand.Text()
	}
	if s.spec.SeedPath == "" {
		return e, nil
	}
	if err := e.seed(ctx, start); err != nil {
		return nil, errors.Join(err, e.Close()) //nolint:contextcheck // a good-bye outlives the caller's context
	}
	return e, nil
}

// seed starts the episode on the backend.
func (e *episode) seed(ctx context.Context, start adapter.Begin) error {
	body := start.Seeding
	if len(body) == 0 {
		body = json.RawMessage(`{}`)
	}
	a, err := e.send(ctx, http.MethodPost, e.server.spec.SeedPath, nil, body)
	if err != nil {
		return err
	}
	if a.code/100 != 2 {
		return fmt.Errorf("POST %s: %s %s", e.server.spec.SeedPath, a.status, a.text[:min(len(a.text), 200)])
	}
	if e.server.spec.SeedSession == "" {
		return nil
	}
	at, found := value(a.text).Lookup(e.server.spec.SeedSession)
	if !found {
		return fmt.Errorf("the answer of POST %s has nothing at %s", e.server.spec.SeedPath, e.server.spec.SeedSession)
	}
	e.session = at.Text()
	return nil
}
