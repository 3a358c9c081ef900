package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// marker begins every secret of TestSecretsStaySecret.
const marker = "geheim"

// TestSecretsStaySecret gives the program secrets in every place that takes one,
// lets it fail and work in every way that names a server, at the log level that
// says most, and looks for them in all that it wrote.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized) // as some servers do: the key that was wrong is repeated
		_, _ = io.WriteString(w, "wrong key "+r.Header.Get("Authorization"))
	}))
	defer echo.Close()
	host := strings.TrimPrefix(echo.URL, "http://")
	dir := folder(t)
	environments := "version: 1\nenvironments:\n  shop:\n    adapter: openapi-http\n    document: http://user:geheim-doc@" + host + "/openapi.json?token=geheim-query\n    headers:\n      Authorization: Bearer ${SHOP_TOKEN}\n"
	if err := os.WriteFile(filepath.Join(dir, "environments.yaml"), []byte(environments), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets := []string{
		"UNDERSTUDY_LOG_LEVEL=debug", "UNDERSTUDY_POLICY_KEY=sk-geheim-key", "UNDERSTUDY_SAMPLING_SECRET=https://geheim-sampling/geheim",
		"UNDERSTUDY_GATE_WEBHOOK=https://hooks.example/services/geheim-hook?key=geheim", "SHOP_TOKEN=geheim-shop",
	}
	for _, args := range [][]string{
		{"migrate", "--database-url", "postgres://u:geheim-db@127.0.0.1:1/x?sslpassword=geheim"},
		{"migrate", "--database-url", "postgres://u:geheim,1@127.0.0.1:1/x"},
		{"migrate", "--database-url", "host=127.0.0.1 port=1 user=u password=geheim-db"},
		{"migrate", "--database-url", "postgres://u:gehe%zzim@127.0.0.1/x"},
		{"migrate", "--database-url", "postgres://u:geheim@127.0.0.1:port/x"},
		{"serve", "--nats-url", "nats://geheim-token@127.0.0.1:1", "--listen", "127.0.0.1:0"},
		{"serve", "--nats-url", "nats://a@127.0.0.1:1,nats://u:geheim,2@127.0.0.1:1", "--listen", "127.0.0.1:0"},
		{"serve", "--nats-url", "geheim://u:geheim@127.0.0.1:1"},
		{"serve", "--gate-webhook", "http://127.0.0.1:1/geheim"},
		{"serve", "--gate-webhook", "geheim"},
		{"probe", "http://u:geheim-pass@" + host + "/v1"},
		{"probe", "http://u:geheim-pass@127.0.0.1:1/v1"},
		{"probe", "http://geheim-user@127.0.0.1:1/v1"},
		{"probe", "http://" + host + "/v1?key=geheim"},
		{"probe", "http://u:geheim@host:port/v1"},
		{"sandbox", "contract", "shop"},
		{"sandbox", "tools", "shop"},
	} {
		got := run(t, program(t, dir, secrets, args...))
		if got.status == 0 {
			t.Errorf("%v: got status 0, want it to fail", args)
		}
		findSecrets(t, args[0]+" "+args[len(args)-1], got.stdout+got.stderr)
	}
	findSecrets(t, "serve", serveAndStop(t, dir, secrets))
}

// serveAndStop runs a whole service, is refused at its door, and returns all that
// it wrote, answers too.
func serveAndStop(t *testing.T, dir string, env []string) string {
	t.Helper()
	s := serveIn(t, dir, env, "--data-dir", filepath.Join(dir, "data"))
	var said strings.Builder
	for _, path := range []string{"/settings", "/v1/alarms", "/metrics", "/debug/pprof/cmdline", "/nowhere"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path+"?token=geheim-url", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer geheim-bearer")
		req.AddCookie(&http.Cookie{Name: "understudy_session", Value: "geheim-cookie"})
		client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		said.WriteString(strings.ReplaceAll(string(body), "geheim-url", "")) // a page repeats its own address to its visitor
	}
	s.stop()
	return said.String() + s.said.String()
}

func findSecrets(t *testing.T, where, said string) {
	t.Helper()
	for rest := said; ; {
		at := strings.Index(rest, marker)
		if at < 0 {
			return
		}
		t.Errorf("%s: a secret is in its output: …%s…", where, rest[max(at-80, 0):min(at+40, len(rest))])
		rest = rest[at+len(marker):]
	}
}

// TestTablesOfHostileNames prints a table and an error of what nobody vetted.
func TestTablesOfHostileNames(t *testing.T) {
	t.Parallel()
	dir, database := folder(t), postgres.URL(t)
	const name = "\x1b[2J\x1b]52;c;cm0=\a\u202eevil\r\n\u009b31m"
	if got := run(t, program(t, dir, nil, "token", "add", name, "--database-url", database)); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	listed := run(t, program(t, dir, nil, "token", "list", "--database-url", database))
	refused := run(t, program(t, dir, nil, "report", name, "--database-url", database))
	for _, said := range []string{listed.stdout, refused.stderr} {
		if !strings.Contains(said, "evil") {
			t.Errorf("the name is not shown: %q", said)
		}
		if strings.ContainsAny(said, "\x1b\a\u202e\r\u009b") {
			t.Errorf("a terminal would act on %q", said)
		}
	}
	if lines := strings.Count(listed.stdout, "\n"); lines != 2 {
		t.Errorf("a table of one token has %d lines, want its head and the token: %q", lines, listed.stdout)
	}
}
