package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
	"understudy/web"
	"understudy/web/access"
	"understudy/web/metric"
)

var postgres ledgertest.Server

func TestMain(m *testing.M) { os.Exit(postgres.Main(m)) }

// guarded is a service with a door over an empty ledger.
func guarded(t *testing.T) (*ledger.Ledger, string) {
	t.Helper()
	return guardedBy(t, access.Limits{})
}

// guardedBy is one whose visitors may ask so fast. Its clock stands still: a test on
// a busy machine is no slower visitor.
func guardedBy(t *testing.T, limits access.Limits) (*ledger.Ledger, string) {
	t.Helper()
	l := newLedger(t)
	closing, began := make(chan struct{}), time.Now()
	guard := &access.Guard{Keys: l, Limits: limits, Now: func() time.Time { return began }}
	server := httptest.NewServer(web.New(web.Config{
		Version: "test", Store: l, Figures: l, Gates: l, Guard: guard, Closing: closing,
		Scorer: scorer{}, Environments: noOpener{}, Trainings: l, Alarms: l, Metrics: metric.New(l),
		Logger: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil },
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(closing) })
	return l, server.URL
}

func newLedger(t *testing.T) *ledger.Ledger {
	t.Helper()
	l, err := ledger.New(postgres.Pool(t), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func give(t *testing.T, l *ledger.Ledger, name string, role audit.Role) string {
	t.Helper()
	secret := audit.NewSecret()
	if err := l.AddToken(t.Context(), audit.Token{Name: name, Role: role}, audit.SecretHash(secret)); err != nil {
		t.Fatal(err)
	}
	return secret
}

// send makes one request and returns its status and where it leads.
func send(t *testing.T, client *http.Client, method, at, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header.Get("Location"), res.Header
}

func noRedirects() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func TestOpenToThisMachineUntilTheFirstToken(t *testing.T) {
	t.Parallel()
	l, at := guarded(t)
	client := noRedirects()
	tests := []struct {
		header []string
		status int
		reason string
	}{
		{nil, http.StatusOK, "this machine, no token yet"},
		{[]string{"Host", "evil.example"}, http.StatusSeeOther, "a name that was rebound to this machine"},
		{[]string{"X-Forwarded-For", "203.0.113.9"}, http.StatusSeeOther, "passed on by a proxy"},
	}
	for _, test := range tests {
		if status, _, _ := send(t, client, http.MethodGet, at+"/", "", test.header...); status != test.status {
			t.Errorf("%s: got %d, want %d", test.reason, status, test.status)
		}
	}
	give(t, l, "first", audit.AdminRole)
	if status, to, _ := send(t, client, http.MethodGet, at+"/tools?run=x", ""); status != http.StatusSeeOther || !strings.HasPrefix(to, "/sign-in?to=%2Ftools") {
		t.Errorf("after the first token: got %d to %q, want the sign-in page", status, to)
	}
}

// TestTheDoorStaysClosed lets the only token end: whoever sits at this machine is no
// admin for that.
func TestTheDoorStaysClosed(t *testing.T) {
	t.Parallel()
	for reason, end := range map[string]func(l *ledger.Ledger) error{
		"it expired": func(l *ledger.Ledger) error {
			return l.AddToken(t.Context(), audit.Token{Name: "first", Role: audit.AdminRole, Expires: time.Now().Add(-time.Hour)}, audit.SecretHash("x"))
		},
		"it was revoked": func(l *ledger.Ledger) error {
			give(t, l, "first", audit.AdminRole)
			return l.RevokeToken(t.Context(), "first")
		},
	} {
		l, at := guarded(t)
		if err := end(l); err != nil {
			t.Fatal(err)
		}
		if status, _, _ := send(t, noRedirects(), http.MethodGet, at+"/v1/gates", ""); status != http.StatusUnauthorized {
			t.Errorf("%s: got %d, want 401", reason, status)
		}
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	l, at := guarded(t)
	tokens := map[audit.Role]string{}
	for _, role := range audit.Roles() {
		tokens[role] = give(t, l, string(role), role)
	}
	tokens["wrong"], tokens[""] = audit.NewSecret(), ""
	tests := []struct {
		method, path string
		role         audit.Role
		status       int
		reason       string
	}{
		{http.MethodGet, "/v1/gates", "", http.StatusUnauthorized, "nobody reads the API"},
		{http.MethodGet, "/v1/gates", "wrong", http.StatusUnauthorized, "a token that was never given"},
		{http.MethodGet, "/v1/gates", audit.ReaderRole, http.StatusOK, "a reader reads"},
		{http.MethodPost, "/v1/gates", audit.ReaderRole, http.StatusForbidden, "a reader decides nothing"},
		{http.MethodPost, "/v1/gates", audit.AuditorRole, http.StatusBadRequest, "an auditor gets as far as the body"},
		{http.MethodPost, "/call/mark", audit.ReaderRole, http.StatusForbidden, "a reader marks nothing"},
		{http.MethodPost, "/call/mark", audit.AuditorRole, http.StatusBadRequest, "an auditor gets as far as the form"},
		{http.MethodGet, "/healthz", "", http.StatusOK, "a probe needs no token"},
		{http.MethodGet, "/", audit.AdminRole, http.StatusOK, "an admin reads, too"},
	}
	for _, test := range tests {
		var header []string
		if tokens[test.role] != "" {
			header = []string{"Authorization", "Bearer " + tokens[test.role]}
		}
		if status, _, _ := send(t, noRedirects(), test.method, at+test.path, "", header...); status != test.status {
			t.Errorf("%s: got %d, want %d", test.reason, status, test.status)
		}
	}
	if err := l.RevokeToken(t.Context(), "reader"); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := send(t, noRedirects(), http.MethodGet, at+"/v1/gates", "", "Authorization", "Bearer "+tokens[audit.ReaderRole]); status != http.StatusUnauthorized {
		t.Errorf("a revoked token: got %d", status)
	}
}

func TestSignInAndOut(t *testing.T) {
	t.Parallel()
	l, at := guarded(t)
	secret := give(t, l, "alice", audit.AuditorRole)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := noRedirects()
	client.Jar = jar
	form := func(token, to string) string { return url.Values{"token": {token}, "to": {to}}.Encode() }
	if status, _, _ := send(t, client, http.MethodPost, at+"/sign-in", form("understudy_wrong", "/")); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: got %d", status)
	}
	for _, to := range []string{"//evil.example", "https://evil.example", "/\\evil.example", ""} {
		if _, location, _ := send(t, client, http.MethodPost, at+"/sign-in", form(secret, to)); location != "/" {
			t.Errorf("sign-in leads to %q for %q, want the overview", location, to)
		}
	}
	status, to, header := send(t, client, http.MethodPost, at+"/sign-in", form(secret, "/tools"))
	if cookie := header.Get("Set-Cookie"); status != http.StatusSeeOther || to != "/tools" || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") || strings.Contains(cookie, secret) {
		t.Errorf("signed in: %d to %q with %q", status, to, cookie)
	}
	if status, _, _ := send(t, client, http.MethodGet, at+"/", ""); status != http.StatusOK {
		t.Errorf("with a session: got %d", status)
	}
	if status, _, _ := send(t, client, http.MethodPost, at+"/call/mark", "x=1", "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
		t.Errorf("a form of another site: got %d, want it refused", status)
	}
	if status, _, _ := send(t, client, http.MethodPost, at+"/v1/gates", "x=1", "Origin", "https://evil.example"); status != http.StatusForbidden {
		t.Errorf("a request of another site to the API: got %d, want it refused", status)
	}
	send(t, client, http.MethodPost, at+"/sign-out", "")
	if status, _, _ := send(t, client, http.MethodGet, at+"/", ""); status != http.StatusSeeOther {
		t.Errorf("signed out: got %d, want the sign-in page", status)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	_, at := guarded(t)
	for _, path := range []string{"/", "/nowhere", "/sign-in"} {
		_, _, h := send(t, noRedirects(), http.MethodGet, at+path, "")
		policy := h.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

// TestRevokedTokenEndsItsStreams revokes a token whose holder watches a page.
func TestRevokedTokenEndsItsStreams(t *testing.T) {
	t.Parallel()
	l, at := guarded(t)
	if _, err := l.CreateRun(t.Context(), audit.NewRun{Name: "watched", Policy: "p"}); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/events?run=watched", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+give(t, l, "viewer", audit.ReaderRole))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := l.RevokeToken(t.Context(), "viewer"); err != nil {
		t.Fatal(err)
	}
	// Without an end this read lasts until the test's own.
	if text, err := io.ReadAll(res.Body); err != nil || !strings.HasPrefix(string(text), "retry:") {
		t.Errorf("the stream ended with %q, %v", text, err)
	}
}
