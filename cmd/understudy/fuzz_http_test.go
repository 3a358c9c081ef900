package main_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/ledger"
	main "understudy/cmd/understudy"
)

// requests are one of each kind that the service answers, and some that it must
// refuse: path with query, and body.
func requests() [][3]string {
	const output = `{"environment":"retail-mini@1","episode":"e","call":{"tool":"get_user","arguments":{"user":"U1"}},"rehearsal":"{}"}`
	const hostile = `\u0000\ud800<script>'; DROP TABLE run; --`
	return [][3]string{
		{"POST", "/v1/score", `{"policy":"p","checkpoint":1,"deadline_ms":200,"outputs":[` + output + `]}`},
		{"POST", "/v1/score", `{"policy":"` + hostile + `","run":"` + hostile + `","deadline_ms":200,"outputs":[` + strings.ReplaceAll(output, `"e"`, `"`+hostile+`"`) + `]}`},
		{"POST", "/v1/score", `{"policy":"p","checkpoint":9223372036854775807,"deadline_ms":-1,"outputs":[` + output + `,{"role":"act"}]}`},
		{"POST", "/v1/episodes", `{"policy":"p","environment":"retail-mini@1","episode":"s"}` + "\n" + `{"call":{"tool":"get_user","arguments":{}},"rehearsal":"{}"}` + "\n"},
		{"POST", "/v1/score/openrlhf", `{"query":["ab"],"prompts":["a"],"labels":[` + strings.Replace(output, "{", `{"policy":"p",`, 1) + `]}`},
		{"POST", "/v1/score/slime", `{"response":"a","label":` + strings.Replace(output, "{", `{"policy":"p",`, 1) + `}`},
		{"POST", "/v1/gates", `{"policy":"version: 1\ndefaults:\n  leaf_f1: {min: 0.9}\n","run":"seed"}`},
		{"POST", "/v1/trainings", `{"experiment":"x","arm":"a","seed":1}`},
		{"POST", "/v1/trainings/1/metrics", `{"metrics":[{"name":"reward","step":1,"value":0.5}]}`},
		{"POST", "/v1/trainings/1/finish", `{"reason":"` + hostile + `"}`},
		{"POST", "/gym/seed_session", `{"environment":"retail-mini@1"}`},
		{"POST", "/gym/aggregate_metrics", `{"verify_responses":[{"reward":1.7e308}]}`},
		{"POST", "/gym/verify", `{"response":{"output":[]}}`},
		{"POST", "/gym/get_user", `{"user":"U1"}`},
		{"GET", "/v1/scores/" + strings.Repeat("0a", 32) + "?wait_ms=1", ""},
		{"GET", "/v1/gates?run=seed&limit=3&after=%00", ""},
		{"GET", "/v1/gate?run=seed&decided=2001-01-01T00:00:00Z", ""},
		{"GET", "/v1/alarms?limit=5&run=%ff", ""},
		{"GET", "/", ""},
		{"GET", "/?run=seed&split=all&mode=open&environment=x", ""},
		{"GET", "/tools?run=seed", ""},
		{"GET", "/tool?run=seed&tool=get_user", ""},
		{"GET", "/calls?run=seed&tool=get_user&severity=5&after=x&q=%00", ""},
		{"GET", "/call?run=seed&key=" + strings.Repeat("01", 32), ""},
		{"GET", "/episode?run=seed&episode=" + strings.Repeat("01", 32), ""},
		{"GET", "/compare?run=seed&base=seed", ""},
		{"GET", "/calibration?run=seed", ""},
		{"GET", "/training?experiment=x", ""},
		{"GET", "/gates?run=%ff", ""},
		{"GET", "/environments", ""},
		{"GET", "/jobs?state=dead&after=9999999999999999999999", ""},
		{"GET", "/alerts", ""},
		{"GET", "/settings", ""},
		{"GET", "/assets/..%2f..%2fetc%2fpasswd", ""},
		{"POST", "/sign-in", "token=x&next=//evil.example"},
		{"POST", "/theme", "theme=dark"},
		{"GET", "/v1/openapi.json", ""},
		{"GET", "/readyz", ""},
	}
}

// anyService is a running service over a real ledger with one run; send gives it a
// request as its administrator and fails when it finds a fault of its own, or answers
// what is said to be JSON and is none.
type anyService struct {
	*main.Main
	secret string
	client *http.Client
	said   lockedBuffer
}

func startAnyService(tb testing.TB) *anyService {
	tb.Helper()
	dsn := postgres.URL(tb)
	s := &anyService{secret: audit.NewSecret()}
	cfg, err := main.LoadConfig(map[string]string{"data-dir": folder(tb), "listen": "127.0.0.1:0", "stop-timeout": patience.String(), "database-url": dsn}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	seedRun(tb, dsn, s.secret)
	s.Main = &main.Main{Config: cfg, Logger: slog.New(slog.NewTextHandler(&s.said, &slog.HandlerOptions{Level: slog.LevelError}))}
	if err := s.Run(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(tb.Context()); err != nil {
			tb.Error(err)
		}
	})
	s.client = &http.Client{
		Timeout:       5 * time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	tb.Cleanup(s.client.CloseIdleConnections)
	return s
}

func (s *anyService) send(t *testing.T, method, target, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+target, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+s.secret)
	if !strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := s.client.Do(req)
	if err != nil {
		return // what net/http itself refuses to send or to read
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	if res.StatusCode >= http.StatusInternalServerError && res.StatusCode != http.StatusNotImplemented {
		t.Errorf("%s %q %q: %d %s\n%s", method, target, body, res.StatusCode, text, s.said.String())
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") && len(text) > 0 {
		for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatalf("%s %q %q: no JSON: %v: %s", method, target, body, err, text)
			}
		}
	}
}

// FuzzHTTP sends any request to a running service over a real ledger: none makes
// it panic or find a fault of its own, and what the API answers is JSON.
func FuzzHTTP(f *testing.F) {
	for _, r := range requests() {
		f.Add(r[0], r[1], r[2])
	}
	s := startAnyService(f)
	f.Fuzz(func(t *testing.T, method, target, body string) {
		at, err := url.ParseRequestURI(target)
		if err != nil || at.Host != "" || !strings.HasPrefix(target, "/") || strings.HasPrefix(at.Path, "/events") {
			return // no request of this server, or a stream without an end
		}
		s.send(t, method, target, body)
	})
}

// TestParametersThatAreNoText gives each page and each list of the API, in
// each parameter that any of them reads, what PostgreSQL takes for no text.
func TestParametersThatAreNoText(t *testing.T) {
	t.Parallel()
	s := startAnyService(t)
	parameters := strings.Fields(`a after arm b base decided environment episode experiment key kind limit masked metric mode name of
		part policy policy_digest real ref rehearsed run said sent seed severity sort split state tab to tool version wait_ms`)
	for _, r := range requests() {
		at, err := url.Parse(r[1])
		if err != nil || r[0] != http.MethodGet {
			continue
		}
		for _, parameter := range parameters {
			q := at.Query()
			for name, values := range q { // those of the seeds that are no text would hide this one's
				if strings.ContainsRune(values[0], 0) || !utf8.ValidString(values[0]) {
					q.Del(name)
				}
			}
			q.Set(parameter, "\x00\xff")
			s.send(t, http.MethodGet, at.Path+"?"+q.Encode(), "")
		}
	}
}

// seedRun fills a ledger with a run of one good and one bad call, and lets an
// administrator in.
func seedRun(tb testing.TB, dsn, secret string) {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	defer pool.Close()
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := l.CreateRun(tb.Context(), audit.NewRun{Name: "seed", Policy: "p"}); err != nil {
		tb.Fatal(err)
	}
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	var pairs []audit.Pair
	for i, rehearsed := range []string{`{"user":"U1"}`, `{"user":"U9","x":[1]}`} {
		c := &audit.Case{
			Environment: "retail-mini@1", Mode: audit.Open, Tool: audit.Tool{Name: "get_user", Effect: audit.Read},
			Call:      audit.Call{Tool: "get_user", Arguments: json.RawMessage(`{"user":"U1"}`)},
			Rehearsal: &audit.Rehearsal{Raw: []byte(rehearsed)}, Observation: &audit.Observation{Status: audit.StatusOK, Raw: []byte(`{"user":"U1"}`)},
		}
		pairs = append(pairs, audit.Pair{
			Key: audit.Digest(bytes.Repeat([]byte{byte(i + 1)}, 32)), Episode: "e", PromptGroup: "g", Policy: "p", Environment: "retail-mini", Version: "1", Mode: audit.Open,
			Action: audit.Action{Call: c.Call, Rehearsal: c.Rehearsal}, Observation: c.Observation, Verdict: rules.Judge(c),
		})
	}
	if _, err := l.Commit(tb.Context(), "seed", pairs); err != nil {
		tb.Fatal(err)
	}
	if err := l.Summarize(tb.Context(), "seed"); err != nil {
		tb.Fatal(err)
	}
	if err := l.AddToken(tb.Context(), audit.Token{Name: "fuzz", Role: audit.AdminRole}, audit.SecretHash(secret)); err != nil {
		tb.Fatal(err)
	}
}
