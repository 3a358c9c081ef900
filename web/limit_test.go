package web_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web"
	"understudy/web/access"
)

func TestGuessingIsSlowedDown(t *testing.T) {
	t.Parallel()
	l, at := guardedBy(t, access.Limits{Failures: 3})
	good := give(t, l, "alice", audit.ReaderRole)
	ask := func(secret string) (int, http.Header) {
		status, _, header := send(t, noRedirects(), http.MethodGet, at+"/v1/gates", "", "Authorization", "Bearer "+secret)
		return status, header
	}
	if status, _ := ask(good); status != http.StatusOK {
		t.Fatalf("a right token: got %d", status)
	}
	for range 3 {
		if status, _ := ask(audit.NewSecret()); status != http.StatusUnauthorized {
			t.Fatalf("a wrong token: got %d, want 401", status)
		}
	}
	status, header := ask(audit.NewSecret())
	wait, err := strconv.Atoi(header.Get("Retry-After"))
	if status != http.StatusTooManyRequests || err != nil || wait < 1 || wait > 60 {
		t.Errorf("the fourth guess in a minute: got %d, Retry-After %q, want 429 and seconds", status, header.Get("Retry-After"))
	}
	form := url.Values{"token": {audit.NewSecret()}, "to": {"/"}}.Encode()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/sign-in", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := noRedirects().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("a guess by the form, from the same address: got %d, want 429", res.StatusCode)
	}
	if page, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(page), `name="token"`) || !strings.Contains(string(page), "too many wrong tokens") {
		t.Errorf("the page does not say why it refuses, or leaves no field to try again: %v: %.300s", err, page)
	}
	late := give(t, l, "bob", audit.ReaderRole)
	if status, _ := ask(late); status != http.StatusTooManyRequests {
		t.Errorf("a token that was never right before, from an address that guesses: got %d: it would tell the guesser", status)
	}
	if status, _ := ask(good); status != http.StatusOK {
		t.Errorf("a program beside the guesser: got %d, want it to go on", status)
	}
}

// TestOneWrongTokenFromEverywhere tries one token from many addresses, which a
// proxy of ours names; without that setting the header is anybody's to forge.
func TestOneWrongTokenFromEverywhere(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		proxied bool
		secret  func() string
		want    int
		reason  string
	}{
		{true, always(audit.NewSecret()), http.StatusTooManyRequests, "the same token from four addresses"},
		{true, audit.NewSecret, http.StatusUnauthorized, "four addresses with a token each"},
		{false, audit.NewSecret, http.StatusTooManyRequests, "a visitor who invents addresses"},
	} {
		l, at := guardedBy(t, access.Limits{Failures: 3, Proxied: row.proxied})
		give(t, l, "somebody", audit.ReaderRole)
		last := 0
		for i := range 4 {
			last, _, _ = send(t, noRedirects(), http.MethodGet, at+"/v1/gates", "",
				"Authorization", "Bearer "+row.secret(), "X-Forwarded-For", "10.9.9.9, 203.0.113."+strconv.Itoa(i))
		}
		if last != row.want {
			t.Errorf("%s: got %d, want %d", row.reason, last, row.want)
		}
	}
}

func always(secret string) func() string { return func() string { return secret } }

func TestTokenThatAsksTooFast(t *testing.T) {
	t.Parallel()
	l, at := guardedBy(t, access.Limits{Requests: 1}) // two at once
	fast, slow := give(t, l, "fast", audit.ReaderRole), give(t, l, "slow", audit.ReaderRole)
	ask := func(secret string) int {
		status, _, header := send(t, noRedirects(), http.MethodGet, at+"/v1/gates", "", "Authorization", "Bearer "+secret)
		if (status == http.StatusTooManyRequests) != (header.Get("Retry-After") != "") {
			t.Errorf("got %d with Retry-After %q", status, header.Get("Retry-After"))
		}
		return status
	}
	refused := 0
	for range 8 {
		if ask(fast) == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 6 {
		t.Errorf("of eight requests at once of a token that may make two, %d were refused", refused)
	}
	if status := ask(slow); status != http.StatusOK {
		t.Errorf("another token: got %d, want 200", status)
	}
}

// endless never ends and counts what was read of it.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	e.read += int64(len(p))
	return len(p), nil
}

// TestNoHandlerReadsWithoutEnd sends every route that takes a body one without
// end, announced and unannounced.
func TestNoHandlerReadsWithoutEnd(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	handler := web.New(web.Config{
		Store: l, Figures: l, Gates: l, Trainings: l, Alarms: l, Scorer: scorer{}, Environments: noOpener{},
		Logger: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil },
		Model: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				t.Error("the model's handler was given a body without end")
			}
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}),
	})
	engine, ok := handler.(*gin.Engine)
	if !ok {
		t.Fatalf("the handler is a %T", handler)
	}
	const slack = 1 << 20 // buffers
	tried := 0
	for _, route := range engine.Routes() {
		if route.Method != http.MethodPost {
			continue
		}
		tried++
		path := strings.NewReplacer(":id", "1", ":tool", "t", ":name", "n").Replace(route.Path)
		for _, announced := range []int64{-1, 1 << 40} {
			body := &endless{}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, io.NopCloser(body))
			r.ContentLength = announced
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code < 400 && w.Code != http.StatusSeeOther || w.Code >= 500 {
				t.Errorf("%s with %d bytes announced: got %d, want it refused", route.Path, announced, w.Code)
			}
			if body.read > audit.MaxScoreBytes+slack || announced > 0 && body.read > 0 {
				t.Errorf("%s with %d bytes announced: %d bytes were read", route.Path, announced, body.read)
			}
		}
	}
	if tried < 15 {
		t.Errorf("only %d routes take a body", tried)
	}
}

func TestMetricsAndProfiles(t *testing.T) {
	t.Parallel()
	l, at := guarded(t)
	tokens := map[audit.Role]string{}
	for _, role := range audit.Roles() {
		tokens[role] = give(t, l, string(role), role)
	}
	for _, row := range []struct {
		path   string
		role   audit.Role
		status int
		holds  string
		reason string
	}{
		{"/metrics", "", http.StatusUnauthorized, "", "figures are not for everybody"},
		{"/metrics", audit.ReaderRole, http.StatusOK, "understudy_jobs{state=\"queued\"} 0", "the depth of the queue"},
		{"/metrics", audit.ReaderRole, http.StatusOK, "understudy_jobs{state=\"dead\"} 0", "dead letters"},
		{"/metrics", audit.ReaderRole, http.StatusOK, "understudy_actions_audited_total{severity=\"S5\"} 0", "verdicts by severity, before the first"},
		{"/metrics", audit.ReaderRole, http.StatusOK, "understudy_live_viewers 0", "live pages"},
		{"/metrics", audit.ReaderRole, http.StatusOK, "go_memstats_heap_alloc_bytes", "the heap"},
		{"/metrics", audit.ReaderRole, http.StatusOK, "go_gc_duration_seconds", "the collector"},
		{"/metrics", audit.ReaderRole, http.StatusOK, `understudy_http_request_seconds_count{method="GET",route="/metrics",status="4xx"} 1`, "latencies of requests by route"},
		{"/debug/pprof/", audit.AuditorRole, http.StatusForbidden, "", "profiles are an admin's"},
		{"/debug/pprof/", audit.AdminRole, http.StatusOK, "goroutine", "the index"},
		{"/debug/pprof/heap?debug=1", audit.AdminRole, http.StatusOK, "heap profile", "the heap"},
		{"/debug/pprof/cmdline", audit.AdminRole, http.StatusNotFound, "", "a command line may hold a password"},
	} {
		status, body := read(t, at+row.path, tokens[row.role])
		if status != row.status || !strings.Contains(body, row.holds) {
			t.Errorf("%s: got %d without %q, want %d\n%.600s", row.reason, status, row.holds, row.status, body)
		}
	}
	for i := range 50 { // paths of others are one route
		read(t, at+"/v1/nowhere-"+strconv.Itoa(i), tokens[audit.ReaderRole])
	}
	_, body := read(t, at+"/metrics", tokens[audit.ReaderRole])
	if n := strings.Count(body, "understudy_http_request_seconds_count"); n > 20 {
		t.Errorf("%d series of requests after fifty paths that are none:\n%s", n, body)
	}
}

func read(t *testing.T, at, token string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := noRedirects().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}
