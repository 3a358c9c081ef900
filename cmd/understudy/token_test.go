package main_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"understudy/audit"
	"understudy/audit/ledger/cluster"
	"understudy/web/access"
)

// TestTokensAreKeptHashedOnly gives a token, lets it in by every door beside wrong
// ones, revokes it, and looks for it in a dump of the whole database and in all that
// was written at the log level that says most.
func TestTokensAreKeptHashedOnly(t *testing.T) {
	t.Parallel()
	database := postgres.URL(t)
	env := []string{"UNDERSTUDY_LOG_LEVEL=debug", "UNDERSTUDY_DATABASE_URL=" + database}
	var said strings.Builder
	do := func(args ...string) string {
		got := run(t, program(t, t.TempDir(), env, args...))
		if got.status != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
		said.WriteString(got.stderr)
		return got.stdout
	}
	token, told, _ := strings.Cut(do("token", "add", "ci", "--role", "auditor"), "\n")
	said.WriteString(told)
	s := serve(t, env)
	session := signIn(t, s.url, token)
	if status := bearer(t, s.url, token); status != http.StatusOK {
		t.Fatalf("the token: got %d", status)
	}
	wrong := audit.NewSecret()
	if status := bearer(t, s.url, wrong); status != http.StatusUnauthorized {
		t.Errorf("another token: got %d, want 401", status)
	}
	said.WriteString(do("token", "list"))
	dumps := dump(t, database)
	said.WriteString(do("token", "revoke", "ci"))
	if status := bearer(t, s.url, token); status != http.StatusUnauthorized {
		t.Errorf("the revoked token: got %d, want 401", status)
	}
	dumps += dump(t, database)
	s.stop()
	said.WriteString(s.said.String())
	for name, secret := range map[string]string{"token": token, "session": session, "wrong token": wrong} {
		core := secret[strings.LastIndexByte(secret[:len(secret)-40], '_')+1:] // the random part, without the words before it
		for where, text := range map[string]string{"the database": dumps, "the log": said.String()} {
			if strings.Contains(text, core) || strings.Contains(text, hex.EncodeToString([]byte(core))) {
				t.Errorf("%s holds the %s", where, name)
			}
		}
		hash := audit.SecretHash(secret)
		if kept := strings.Contains(dumps, hex.EncodeToString(hash[:])); kept == (name == "wrong token") {
			t.Errorf("the hash of the %s is kept: %v", name, kept)
		}
	}
	if !strings.Contains(said.String(), `"level":"DEBUG"`) && !strings.Contains(said.String(), `"msg":"serving"`) {
		t.Errorf("the log says nothing that could hold a secret: %s", said.String())
	}
}

// bearer asks with a token and returns the status.
func bearer(t *testing.T, at, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"/v1/alarms?token="+token, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// signIn signs a browser in and returns the value of its cookie.
func signIn(t *testing.T, at, token string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/sign-in", strings.NewReader(url.Values{"token": {token}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	home, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, cookie := range jar.Cookies(home) {
		if cookie.Name == access.Cookie && res.StatusCode == http.StatusOK {
			return cookie.Value
		}
	}
	t.Fatalf("not signed in: %s, %v", res.Status, jar.Cookies(home))
	return ""
}

// dump is all that the database holds, as text.
func dump(t *testing.T, database string) string {
	t.Helper()
	server, err := cluster.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(server.Dir, "pg_dump"), "--dbname="+database).Output()
	if err != nil || !strings.Contains(string(out), "COPY public.token") {
		t.Fatalf("pg_dump: %v: %.500s", err, out)
	}
	return string(out)
}
