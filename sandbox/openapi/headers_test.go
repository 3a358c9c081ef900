package openapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"understudy/sandbox/adapter"
	"understudy/sandbox/openapi"
)

// A backend's token goes where the person who wrote it down sent it, and to nobody
// whom only a document names.
func TestHeadersStayWithTheirHost(t *testing.T) {
	var got []string
	seen := func(who string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			got = append(got, who+" "+r.Header.Get("Authorization"))
			fmt.Fprintf(w, `{"openapi":"3.1.0","servers":[{"url":%q}],"paths":{"/a":{"post":{"operationId":"a"}}}}`, r.URL.Query().Get("server"))
		}
	}
	document, backend := httptest.NewServer(seen("document")), httptest.NewServer(seen("backend"))
	defer document.Close()
	defer backend.Close()
	open := func(address, at string) error {
		env, err := openapi.New(t.Context(), openapi.Spec{
			Document: document.URL + "/openapi.json?server=" + at, URL: address, Headers: map[string]string{"Authorization": "Bearer s"},
		}, adapter.Config{Name: "shop"})
		if err == nil {
			err = env.Close()
		}
		return err
	}
	if err := open("", backend.URL); err == nil || !strings.Contains(err.Error(), "say so by url") {
		t.Errorf("a document that sends the token elsewhere: %v", err)
	}
	if err := open("", document.URL); err != nil || got[len(got)-1] != "document Bearer s" {
		t.Errorf("a document of the backend's own: %v, %q", err, got)
	}
	if err := open(backend.URL, backend.URL); err != nil || got[len(got)-1] != "document " {
		t.Errorf("a document of another host than the backend: %v, %q; want no token there", err, got)
	}
}
