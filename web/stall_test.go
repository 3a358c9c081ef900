package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/web"
	"understudy/web/access"
)

// stallServer waits a moment for bodies.
func stallServer(t *testing.T) (address, token string) {
	t.Helper()
	l := newLedger(t)
	server := httptest.NewServer(web.New(web.Config{
		Store: l, Figures: l, Gates: l, Trainings: l, Scorer: scorer{}, Environments: noOpener{}, Guard: &access.Guard{Keys: l},
		BodyTime: 50 * time.Millisecond,
		Logger:   slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil },
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), give(t, l, "trainer", audit.AuditorRole)
}

// begin sends the head of a request whose body stops after a few bytes.
func begin(t *testing.T, address, head, token, body string) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if token != "" {
		head += "\r\nAuthorization: Bearer " + token
	}
	if _, err := fmt.Fprintf(conn, "%s\r\nHost: %s\r\n\r\n%s", head, address, body); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestBodiesThatStop sends bodies that are announced and never come: each
// connection is answered and let go, whoever holds it.
func TestBodiesThatStop(t *testing.T) {
	t.Parallel()
	address, token := stallServer(t)
	const announced, chunked = "\r\nContent-Length: 1000", "\r\nTransfer-Encoding: chunked"
	for _, row := range []struct {
		head, token string
		status      int
		reason      string
	}{
		{"POST /v1/score HTTP/1.1" + announced, "", http.StatusUnauthorized, "a visitor's, that no handler reads"},
		{"POST /v1/score HTTP/1.1" + chunked, "", http.StatusUnauthorized, "a visitor's, of unknown length"},
		{"GET /healthz HTTP/1.1" + announced, "", http.StatusOK, "where none belongs"},
		{"POST /healthz HTTP/1.1" + announced, "", http.StatusNotFound, "where there is no page"},
		{"POST /v1/nowhere HTTP/1.1" + announced, "", http.StatusNotFound, "where there is no endpoint"},
		{"POST /sign-in HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded" + announced, "", http.StatusBadRequest, "a form"},
		{"POST /v1/score HTTP/1.1" + announced, token, http.StatusBadRequest, "a trainer's"},
		{"POST /v1/trainings HTTP/1.1" + chunked, token, http.StatusBadRequest, "a trainer's, of unknown length"},
	} {
		conn := begin(t, address, row.head, row.token, "")
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", row.reason, err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Errorf("%s: the connection stays open: %v", row.reason, err)
		}
		if res.StatusCode != row.status {
			t.Errorf("%s: got %d, want %d", row.reason, res.StatusCode, row.status)
		}
		_ = res.Body.Close()
	}
}

// TestEpisodesMayPause pauses between two steps for longer than any other body may.
func TestEpisodesMayPause(t *testing.T) {
	t.Parallel()
	address, token := stallServer(t)
	const step = `{"call":{"tool":"t"},"rehearsal":"{}"}` + "\n"
	chunk := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	conn := begin(t, address, "POST /v1/episodes HTTP/1.1\r\nTransfer-Encoding: chunked", token,
		chunk(`{"policy":"p","environment":"e","episode":"1"}`+"\n"+step))
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answers := bufio.NewReader(res.Body)
	if line, err := answers.ReadString('\n'); err != nil || strings.Contains(line, `"error"`) {
		t.Fatalf("the first step: %v %s", err, line)
	}
	other := begin(t, address, "POST /v1/score HTTP/1.1\r\nContent-Length: 10", token, "")
	if _, err := io.Copy(io.Discard, other); err != nil { // it ends when its time is over
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, chunk(step)+"0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := answers.ReadString('\n'); err != nil || strings.Contains(line, `"error"`) {
		t.Errorf("a step after a pause: %v %s", err, line)
	}
}
