package main_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	main "understudy/cmd/understudy"
)

// TestGateWebhook asks a service for verdicts that turn from PASS to FAIL: the
// webhook hears of it once, when the second FAIL shows that it lasts.
func TestGateWebhook(t *testing.T) {
	var mu sync.Mutex
	var heard []string
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, string(body))
	}))
	defer hook.Close()
	cfg, err := main.LoadConfig(map[string]string{
		"data-dir": folder(t), "listen": "127.0.0.1:0", "stop-timeout": patience.String(), "gate-webhook": hook.URL, "outbound-allow": "127.0.0.1",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &main.Main{Config: cfg, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, status := range []string{"PASS", "FAIL", "FAIL", "FAIL"} {
		if err := main.RecordGate(t.Context(), m, status); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(heard) != 1 || !strings.Contains(heard[0], `"gate_regressed"`) || !json.Valid([]byte(heard[0])) {
		t.Errorf("heard %v, want one regression", heard)
	}
}
