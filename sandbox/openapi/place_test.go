package openapi_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"understudy/audit"
	"understudy/sandbox/adapter"
	"understudy/sandbox/openapi"
)

// orders has operations whose addresses arguments of others could spell.
const orders = `
openapi: 3.1.0
info: {title: Orders, version: "1"}
paths:
  /orders/{order}:
    parameters: [{name: order, in: path, required: true, schema: {type: string}}]
    get: {operationId: get_order}
    delete: {operationId: drop_order}
  /orders/recent:
    get: {operationId: recent}
  /orders/{order}/export:
    parameters: [{name: order, in: path, required: true, schema: {type: string}}]
    get: {operationId: export}
  /orders/{order}/lines/{line}:
    parameters:
      - {name: order, in: path, required: true, schema: {type: string}}
      - {name: line, in: path, required: true, schema: {type: string}}
    get: {operationId: get_line}
`

// A slash in an argument is data, and travels as %2F in one segment; whatever a server
// may read in it that unescapes before it routes, no argument leads to another operation.
func TestPathArgumentsStayInTheirSegment(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked string
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = r.Method + " " + r.URL.EscapedPath()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	t.Cleanup(backend.Close)
	document := filepath.Join(t.TempDir(), "openapi.yaml")
	if err := os.WriteFile(document, []byte(orders), 0o600); err != nil {
		t.Fatal(err)
	}
	env, err := openapi.New(t.Context(), openapi.Spec{Document: document, URL: backend.URL, Exclude: []string{"/orders/{order}/export"}}, adapter.Config{Name: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Close() })
	session, err := env.Open(t.Context(), audit.Start{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	for _, row := range []struct {
		tool, arguments string
		want            string // what is asked; "" = nothing
		reason          string
	}{
		{"get_order", `{"order":"a/b"}`, "GET /orders/a%2Fb", "a slash is data"},
		{"get_order", `{"order":"a%2Fb"}`, "GET /orders/a%252Fb", "and so is what looks like an escape"},
		{"get_order", `{"order":"50%"}`, "GET /orders/50%25", "a sign of its own"},
		{"get_order", `{"order":"a\\b?c#d"}`, "GET /orders/a%5Cb%3Fc%23d", "all that a URL reads otherwise"},
		{"get_line", `{"order":"{line}","line":"7"}`, "GET /orders/%7Bline%7D/lines/7", "a value is no placeholder"},
		{"get_line", `{"order":"1","line":"export"}`, "GET /orders/1/lines/export", "a word of another address, elsewhere"},
		{"drop_order", `{"order":"recent"}`, "DELETE /orders/recent", "an operation of another method is none of this address"},
		{"get_order", `{"order":"recent"}`, "", "the address of another tool"},
		{"get_order", `{"order":"1/export"}`, "", "an operation that is no tool, for servers that unescape before they route"},
		{"get_order", `{"order":"1%2Fexport"}`, "", "for those that unescape twice"},
		{"get_order", `{"order":"1\\export"}`, "", "for those to which a backslash is a slash"},
		{"get_order", `{"order":"1/export/"}`, "", "with a slash at its end"},
		{"get_order", `{"order":"..%2Fadmin"}`, "", "dots that lead up once they are unescaped"},
		{"get_order", `{"order":"%2e%2e"}`, "", "dots in disguise"},
		{"get_order", `{"order":"%252E%252E%252Fadmin"}`, "", "twice in disguise"},
	} {
		mu.Lock()
		asked = ""
		mu.Unlock()
		o, err := session.Call(t.Context(), call(row.tool, row.arguments))
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		got := asked
		mu.Unlock()
		want := audit.StatusOK
		if row.want == "" {
			want = audit.StatusInvalid
		}
		if got != row.want || o.Status != want {
			t.Errorf("%s %s asks %q (%s %+v), want %q: %s", row.tool, row.arguments, got, o.Status, o.Error, row.want, row.reason)
		}
	}
}
