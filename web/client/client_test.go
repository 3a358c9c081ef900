package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"understudy/audit"
	"understudy/web/client"
)

// busy is a service that never has time.
type busy struct{ asked int }

func (b *busy) RoundTrip(*http.Request) (*http.Response, error) {
	b.asked++
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusTooManyRequests)
	_, _ = w.WriteString(`{"error":{"code":"busy","message":"later"}}`)
	return w.Result(), nil
}

// TestPatience: however often the client asks again, its pauses stay pauses.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &busy{}
		c := client.Client{URL: "http://service", HTTP: &http.Client{Transport: service}, Retries: 100}
		if _, err := c.Score(t.Context(), audit.ScoreBatch{}); audit.ErrorCode(err) != audit.CodeBusy || service.asked != 101 {
			t.Errorf("asked %d times: %v", service.asked, err)
		}
	})
}
