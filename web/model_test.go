package web_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"understudy/web"
	"understudy/web/metric"
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

// A panic is an answer, which is counted as one.
func TestPanicIsCounted(t *testing.T) {
	t.Parallel()
	counted := metric.New(nil)
	handler := web.New(web.Config{
		Logger: slog.New(slog.DiscardHandler), Metrics: counted,
		Model: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a fault of ours") }),
	})
	for _, test := range []struct {
		path, says string
		status     int
	}{
		{"/v1/models", "internal error", http.StatusInternalServerError},
		{"/metrics", `understudy_http_request_seconds_count{method="GET",route="/v1/models",status="5xx"} 1`, http.StatusOK},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, http.NoBody))
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s: %d %s, want %d and %s", test.path, w.Code, w.Body, test.status, test.says)
		}
	}
}

// A program that asks for what is not there is answered in JSON, with what to do.
func TestUnknownEndpoint(t *testing.T) {
	t.Parallel()
	handler := web.New(web.Config{Logger: slog.New(slog.DiscardHandler)})
	for _, test := range []struct{ path, hint string }{
		{"/v1/chat/completions", "serve --model"},
		{"/v1/embeddings", "/v1/openapi.json"},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, test.path, strings.NewReader("{}")))
		var reply struct {
			Error struct{ Message, Hint string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil || w.Code != http.StatusNotFound || !strings.Contains(reply.Error.Message, test.path) || !strings.Contains(reply.Error.Hint, test.hint) {
			t.Errorf("%s: %d %s: %v", test.path, w.Code, w.Body, err)
		}
	}
}
