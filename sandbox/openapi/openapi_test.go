package openapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/leaktest"
	"understudy/sandbox/adapter"
	"understudy/sandbox/openapi"
	"understudy/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// document describes the backend below: all places of parameters, a shared
// parameter, a shared schema that refers to itself, and OpenAPI 3.0's own words.
const document = `
openapi: 3.0.3
info: {title: Desk, version: "1"}
paths:
  /tickets/{ticket}:
    parameters:
      - {$ref: "#/components/parameters/Ticket"}
    get: {operationId: get_ticket, summary: One ticket.}
    delete: {operationId: close_ticket}
  /tickets:
    get:
      operationId: find_tickets
      parameters:
        - {name: tag, in: query, schema: {type: array, items: {type: string}}}
        - {name: X-Shelf, in: header, schema: {type: string}}
        - {name: X-Limit, in: header, schema: {type: integer, minimum: 0, exclusiveMinimum: true}}
    post:
      operationId: open_ticket
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: "#/components/schemas/Ticket"}}}
  /break:
    post: {operationId: break, requestBody: {content: {application/x-www-form-urlencoded: {schema: {type: object, properties: {how: {type: string}}}}}}}
  /upload:
    post: {operationId: upload, requestBody: {content: {image/png: {schema: {type: string}}}}}
components:
  parameters:
    Ticket: {name: ticket, in: path, required: true, schema: {type: string}}
  schemas:
    Ticket:
      type: object
      required: [title]
      properties:
        title: {type: string}
        cost: {type: number, nullable: true}
        parent: {$ref: "#/components/schemas/Ticket"}
        label:
          type: object
          required: [example]
          additionalProperties: false
          properties:
            example: {type: string}
            nullable: {type: boolean}
            size: {enum: [small, null], default: null}
`

// desk is the backend: a set of tickets for each session.
type desk struct {
	mu       sync.Mutex
	sessions map[string]map[string]json.RawMessage
	cookies  bool
	served   int
}

func (d *desk) tickets(w http.ResponseWriter, r *http.Request) map[string]json.RawMessage {
	session := r.Header.Get("X-Session")
	if c, err := r.Cookie("desk"); err == nil && d.cookies {
		session = c.Value
	}
	if d.sessions[session] == nil {
		d.sessions[session] = map[string]json.RawMessage{"t1": json.RawMessage(`{"title":"Lamp","cost":9007199254740993}`)}
	}
	_ = w
	return d.sessions[session]
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	tickets := d.tickets(w, r)
	id := strings.TrimPrefix(r.URL.Path, "/tickets/")
	answer := func(status int, format string, args ...any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, format, args...)
	}
	switch {
	case r.URL.Path == "/seed_session":
		d.served++
		http.SetCookie(w, &http.Cookie{Name: "desk", Value: fmt.Sprint("c", d.served)})
		answer(200, `{"session":{"id":"s%d"}}`, d.served)
	case r.URL.Path == "/break":
		d.breaks(w, r, answer)
	case r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "again") {
			answer(400, `{"detail":"ticket already exists"}`)
			return
		}
		id := fmt.Sprint("t", len(tickets)+1)
		tickets[id] = body
		answer(201, `{"id":%q}`, id)
	case r.URL.Path == "/tickets":
		ids := []string{}
		for id := range tickets {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		text, _ := json.Marshal(map[string]any{"ids": ids, "tags": r.URL.Query()["tag"], "limit": r.Header.Get("X-Limit")})
		answer(200, "%s", text)
	case tickets[id] == nil:
		answer(404, `{"detail":"no such ticket"}`)
	case r.Method == http.MethodDelete:
		delete(tickets, id)
		w.WriteHeader(http.StatusNoContent)
	default:
		answer(200, "%s", tickets[id])
	}
}

func (d *desk) breaks(w http.ResponseWriter, r *http.Request, answer func(int, string, ...any)) {
	switch how := r.PostFormValue("how"); how {
	case "huge":
		answer(200, `{"pad":"%s"}`, strings.Repeat("x", 6<<20))
	case "endless":
		answer(200, `{"pad":"%s"}`, strings.Repeat("x", 20<<20))
	case "hang":
		d.mu.Unlock()
		<-r.Context().Done()
		d.mu.Lock()
	case "cut":
		w.Header().Set("Content-Length", "100")
		fmt.Fprint(w, "{")
	case "coded":
		answer(400, `{"error":{"code":"not_found","message":"the desk is already closed"}}`)
	case "garbage":
		answer(200, "{\xff")
	case "nested":
		answer(200, `{"success":false,"error":"the desk is already closed"}`)
	default:
		status := 0
		_, _ = fmt.Sscan(how, &status)
		answer(status, `{"message":"no"}`)
	}
}

func mount(t *testing.T, d *desk, spec openapi.Spec, config adapter.Config) *adapter.Environment {
	t.Helper()
	d.sessions = map[string]map[string]json.RawMessage{}
	backend := httptest.NewServer(d)
	t.Cleanup(backend.Close)
	spec.Document = filepath.Join(t.TempDir(), "openapi.yaml")
	if err := os.WriteFile(spec.Document, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	spec.URL = backend.URL
	config.Name = "desk"
	env, err := openapi.New(t.Context(), spec, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	return env
}

func call(tool, arguments string) audit.Call {
	return audit.Call{Tool: tool, Arguments: json.RawMessage(arguments)}
}

func probed() adapter.Config {
	return adapter.Config{
		Deterministic: true, Timeout: 5 * time.Minute, // for the slowest machine
		Tools:  map[string]adapter.ToolConfig{"open_ticket": {Effect: audit.Write}},
		Probes: []adapter.Probe{{Call: "find_tickets"}, {Call: "get_ticket", Arguments: json.RawMessage(`{"ticket":"$.arguments.ticket"}`)}},
		Tasks: []adapter.Task{{
			ID: "close", Solution: []audit.Call{call("get_ticket", `{"ticket":"t1"}`), call("close_ticket", `{"ticket":"t1"}`)},
			Checks: []adapter.Check{{Call: call("get_ticket", `{"ticket":"t1"}`), Refused: audit.NotFound}},
		}},
	}
}

// Each way of keeping episodes apart keeps the contract.
func TestConformance(t *testing.T) {
	for name, row := range map[string]struct {
		desk *desk
		spec openapi.Spec
	}{
		"a header of its own":       {&desk{}, openapi.Spec{SessionHeader: "X-Session"}},
		"a cookie from seeding":     {&desk{cookies: true}, openapi.Spec{SeedPath: "/seed_session"}},
		"a header from the seeding": {&desk{}, openapi.Spec{SeedPath: "/seed_session", SeedSession: "/session/id", SessionHeader: "X-Session"}},
	} {
		t.Run(name, func(t *testing.T) { sandboxtest.Test(t, mount(t, row.desk, row.spec, probed())) })
	}
}

func TestAnswersOfEveryKind(t *testing.T) {
	spec := openapi.Spec{
		SessionHeader: "X-Session", Outcomes: map[string]openapi.Outcome{"418": {Status: audit.StatusRefused, Family: audit.Limit}},
	}
	env := mount(t, &desk{}, spec, probed())
	hurried := mount(t, &desk{}, spec, adapter.Config{Timeout: time.Second}) // without probes: its one call is the one that hangs
	broken := func(how string) audit.Call { return call("break", `{"how":"`+how+`"}`) }
	tests := []struct {
		call   audit.Call
		status audit.Status
		family audit.Family
		raw    string
		reason string
	}{
		{call("get_ticket", `{"ticket":"t1"}`), audit.StatusOK, "", `{"title":"Lamp","cost":9007199254740993}`, "every digit"},
		{call("get_ticket", `{"ticket":"a/b?c"}`), audit.StatusRefused, audit.NotFound, `{"body":{"detail":"no such ticket"},"status":404}`, "a path argument is escaped, and 404 is an answer"},
		{call("get_ticket", `{"ticket":".."}`), audit.StatusInvalid, audit.SchemaInvalid, ``, "the address above, which no escape hides"},
		{call("get_ticket", `{"ticket":"../break"}`), audit.StatusInvalid, audit.SchemaInvalid, ``, "servers that unescape first would go there"},
		{call("close_ticket", `{"ticket":""}`), audit.StatusInvalid, audit.SchemaInvalid, ``, "the address of all tickets"},
		{call("get_ticket", `{"ticket":"..a"}`), audit.StatusRefused, audit.NotFound, ``, "dots in a name are a name"},
		{call("open_ticket", `{"title":"Box","label":{"example":"x","nullable":true,"size":null}}`), audit.StatusOK, "", `{"id":"t2"}`, "properties that are named as keywords, null among the values"},
		{call("open_ticket", `{"title":"Box","label":{"example":"x","size":"large"}}`), audit.StatusInvalid, audit.SchemaInvalid, ``, "the values are those of the enum"},
		{call("find_tickets", `{"tag":["a","b"],"X-Limit":5}`), audit.StatusOK, "", `{"ids":["t1"],"limit":"5","tags":["a","b"]}`, "a list in the query, a number in a header"},
		{call("find_tickets", `{"X-Limit":0}`), audit.StatusInvalid, audit.SchemaInvalid, "", "a Boolean exclusiveMinimum of OpenAPI 3.0 holds"},
		{call("open_ticket", `{"title":"Chair","cost":null,"parent":{"title":"Room"}}`), audit.StatusOK, "", `{"id":"t2"}`, "nullable, and a schema that refers to itself"},
		{call("open_ticket", `{"title":"Chair","parent":{"cost":1}}`), audit.StatusInvalid, audit.SchemaInvalid, "", "the schema within the schema is checked"},
		{call("open_ticket", `{"title":"again"}`), audit.StatusRefused, audit.Conflict, `{"body":{"detail":"ticket already exists"},"status":400}`, "400 says why in its text"},
		{call("close_ticket", `{"ticket":"t1"}`), audit.StatusOK, "", ``, "204 says nothing"},
		{broken("nested"), audit.StatusRefused, audit.Conflict, ``, "an error that the backend calls a success"},
		{broken("coded"), audit.StatusRefused, audit.NotFound, ``, "400 says little, and the body's code more than its text"},
		{call("find_tickets", `{"X-Shelf":"a\r\nX-Session: other"}`), audit.StatusInvalid, audit.SchemaInvalid, ``, "a header in a header is an argument that is not valid, and no lost episode"},
		{broken("401"), audit.StatusRefused, audit.Authentication, ``, "by status"},
		{broken("403"), audit.StatusRefused, audit.Authorization, ``, "by status"},
		{broken("409"), audit.StatusRefused, audit.Conflict, ``, "by status"},
		{broken("418"), audit.StatusRefused, audit.Limit, ``, "as declared"},
		{broken("422"), audit.StatusInvalid, audit.SchemaInvalid, ``, "by status"},
		{broken("429"), audit.StatusFault, audit.Transient, ``, "busy: nothing was done"},
		{broken("500"), audit.StatusUnknown, audit.Internal, ``, "it may have written half"},
		{broken("504"), audit.StatusUnknown, audit.Internal, ``, "no answer"},
		{broken("hang"), audit.StatusUnknown, audit.Internal, ``, "a time-out"},
		{broken("cut"), audit.StatusUnknown, audit.Internal, ``, "a body that ends early"},
		{broken("endless"), audit.StatusUnknown, audit.Internal, ``, "beyond 16 MiB nothing is read"},
		{broken("huge"), audit.StatusOK, "", ``, "6 MB are cut, and oversize"},
		{broken("garbage"), audit.StatusOK, "", "{\xff", "what cannot be decoded is masked by whoever reads it"},
	}
	for _, test := range tests {
		env := env
		if strings.Contains(string(test.call.Arguments), "hang") {
			env = hurried
		}
		s, err := env.Open(t.Context(), audit.Start{})
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.Call(t.Context(), test.call)
		if err != nil {
			t.Fatal(err)
		}
		family := audit.Family("")
		if o.Error != nil {
			family = o.Error.Family
		}
		if o.Status != test.status || family != test.family || test.raw != "" && string(o.Raw) != test.raw || len(o.Raw) > adapter.MaxAnswer+1 {
			t.Errorf("%s: %s got %s %s %.200q, want %s %s %q", test.reason, test.call.Tool, o.Status, family, o.Raw, test.status, test.family, test.raw)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if notes := strings.Join(env.Notes(), "\n"); !strings.Contains(notes, "/upload") {
		t.Errorf("notes %q do not say that an operation is left out", notes)
	}
}

func TestBadDocuments(t *testing.T) {
	dir := t.TempDir()
	for name, row := range map[string]struct{ text, says, reason string }{
		"swagger.yaml": {"swagger: '2.0'", "3.0 and 3.1", "version 2"},
		"page.html":    {"<html>: : :\n\t- x", "JSON nor YAML", "no document at all"},
		"empty.json":   {`{"openapi":"3.1.0","paths":{}}`, "url", "no server is named"},
		"ring.json": {
			`{"openapi":"3.1.0","paths":{"/a":{"post":{"requestBody":{"$ref":"#/components/requestBodies/A"}}}},` +
				`"components":{"requestBodies":{"A":{"$ref":"#/components/requestBodies/A"}}}}`, "url", "a body that is itself",
		},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := openapi.New(t.Context(), openapi.Spec{Document: path}, adapter.Config{Name: "bad"})
		if audit.ErrorCode(err) != audit.CodeInvalid || !strings.Contains(err.Error(), row.says) || audit.ErrorHint(err) == "" {
			t.Errorf("%s: got %v, want invalid, saying %q", row.reason, err, row.says)
		}
	}
	if _, err := openapi.New(t.Context(), openapi.Spec{Document: filepath.Join(dir, "none")}, adapter.Config{Name: "bad"}); err == nil {
		t.Error("a document that is not there passed")
	}
}
