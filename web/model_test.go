package web_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"understudy/web"
)

// A model's API is served beside the service's own, streams included; without a
// model it is not there.
func TestModelIsMounted(t *testing.T) {
	t.Parallel()
	model := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("%s cannot stream: %v", r.URL.Path, err)
		}
	})
	tests := []struct{ method, path string }{
		{http.MethodPost, "/v1/chat/completions"},
		{http.MethodPost, "/v1/completions"},
		{http.MethodGet, "/v1/models"},
		{http.MethodGet, "/v1/models/tiny"},
	}
	for _, served := range []bool{true, false} {
		cfg := web.Config{Logger: slog.New(slog.DiscardHandler)}
		if served {
			cfg.Model = model
		}
		handler := web.New(cfg)
		for _, test := range tests {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), test.method, test.path, strings.NewReader("{}")))
			if got := strings.HasPrefix(w.Body.String(), test.method+" "+test.path) && w.Code == http.StatusOK; got != served {
				t.Errorf("%s %s answered %d %q; served: %v", test.method, test.path, w.Code, w.Body, served)
			}
		}
	}
}
