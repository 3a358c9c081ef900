package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/sandbox/adapter"
)

// episode is one client of the backend.
type episode struct {
	server    *server
	client    *http.Client
	transport *http.Transport
	session   string // of the session header
}

var _ adapter.Episode = (*episode)(nil)

func value(text []byte) diff.Value {
	value, err := diff.Decode(text, diff.Limits{})
	if err != nil {
		return diff.Value{}
	}
	return value
}

// Call implements adapter.Episode.
func (e *episode) Call(ctx context.Context, tool string, arguments json.RawMessage) (adapter.Reply, error) {
	op := e.server.ops[tool]
	path, header, body, err := op.request(arguments)
	if err != nil {
		return adapter.Failed(nil, audit.SchemaInvalid, "arguments: "+err.Error(), nil), nil //nolint:nilerr // it is the answer: nothing was sent
	}
	a, err := e.send(ctx, op.method, path, header, body)
	if err != nil {
		return adapter.Reply{}, err
	}
	return e.server.outcome(tool, a)
}

// answer is what a backend answered.
type answer struct {
	code   int
	status string // for people
	text   []byte
}

// send makes one request and reads its answer.
func (e *episode) send(ctx context.Context, method, path string, header http.Header, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(e.server.base.String(), "/")+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for name, value := range e.server.spec.Headers {
		req.Header.Set(name, value)
	}
	maps.Copy(req.Header, header)
	if len(body) > 0 && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", mediaJSON)
	}
	req.Header.Set("Accept", mediaJSON)
	if e.session != "" && e.server.spec.SessionHeader != "" {
		req.Header.Set(e.server.spec.SessionHeader, e.session)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return answer{}, audit.ShownError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, adapter.MaxTransfer+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("read the answer: %w", err)
	case len(text) > adapter.MaxTransfer:
		return answer{}, fmt.Errorf("the answer is over %d MiB", adapter.MaxTransfer>>20)
	}
	return answer{resp.StatusCode, resp.Status, text}, nil
}

// request places the arguments: in the path, the query, headers, cookies and the body.
func (op operation) request(arguments json.RawMessage) (path string, header http.Header, body []byte, err error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &given); err != nil {
		return "", nil, nil, err
	}
	header = http.Header{}
	query, inPath := url.Values{}, map[string]string{}
	for _, p := range op.params {
		raw, ok := given[p.Name]
		delete(given, p.Name)
		if !ok {
			continue
		}
		values := texts(raw)
		if p.In == "header" && strings.ContainsFunc(strings.Join(values, ""), unicode.IsControl) {
			return "", nil, nil, fmt.Errorf("%s: a header holds no line breaks and no other control characters", p.Name)
		}
		switch p.In {
		case "path":
			inPath["{"+p.Name+"}"] = strings.Join(values, ",")
		case "header":
			header.Set(p.Name, strings.Join(values, ","))
		case "cookie":
			header.Add("Cookie", (&http.Cookie{Name: p.Name, Value: strings.Join(values, ",")}).String())
		default:
			if p.Explode != nil && !*p.Explode {
				values = []string{strings.Join(values, ",")}
			}
			query[p.Name] = values
		}
	}
	if path, err = op.address(inPath); err != nil {
		return "", nil, nil, err
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	body, err = op.encode(given)
	if op.body == mediaForm && len(body) > 0 {
		header.Set("Content-Type", mediaForm)
	}
	return path, header, body, err
}

// encode makes the body of what is left of the arguments, digit for digit.
func (op operation) encode(given map[string]json.RawMessage) ([]byte, error) {
	switch {
	case op.body == "":
		return nil, nil
	case op.whole && op.body == mediaJSON:
		return given["body"], nil
	case op.body == mediaForm:
		form := url.Values{}
		if op.whole {
			if err := json.Unmarshal(given["body"], &given); err != nil {
				return nil, err
			}
		}
		for name, raw := range given {
			form[name] = texts(raw)
		}
		return []byte(form.Encode()), nil
	}
	return json.Marshal(given)
}

// texts are a value's texts as a path or a query holds them: one, or one an element.
func texts(raw json.RawMessage) []string {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && list != nil {
		out := make([]string, 0, len(list))
		for _, item := range list {
			out = append(out, texts(item)...)
		}
		return slices.Clip(out)
	}
	var text string
	if json.Unmarshal(raw, &text) == nil && string(bytes.TrimSpace(raw)) != "null" {
		return []string{text}
	}
	return []string{string(bytes.TrimSpace(raw))}
}

// endTimeout bounds a good-bye, which outlives the caller's context.
const endTimeout = 5 * time.Second

// Close implements adapter.Episode.
func (e *episode) Close() error {
	if e.server.spec.EndPath != "" {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		_, _ = e.send(ctx, http.MethodPost, e.server.spec.EndPath, nil, []byte(`{}`)) // the backend forgets it in time
	}
	e.transport.CloseIdleConnections()
	return nil
}
