package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/web"
)

// keeper is a store of decisions in memory.
type keeper struct {
	mu    sync.Mutex
	gates []audit.GateRecord
	err   error
}

func (k *keeper) SaveGate(_ context.Context, g audit.GateRecord) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	g.Decided = time.Unix(int64(len(k.gates)), 5000).UTC()
	k.gates = append(k.gates, g)
	return k.err
}

func (k *keeper) Gates(_ context.Context, f audit.GateFilter, p audit.Page) ([]audit.GateRecord, string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var found []audit.GateRecord
	for _, g := range k.gates {
		if f.Run == "" || f.Run == g.Run {
			g.Document = nil
			found = append(found, g)
		}
	}
	return found[:min(len(found), max(p.Limit, 1))], "next", nil
}

func (k *keeper) Gate(_ context.Context, run string, decided time.Time) (audit.GateRecord, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, g := range k.gates {
		if g.Run == run && g.Decided.Equal(decided) {
			return g, nil
		}
	}
	return audit.GateRecord{}, &audit.Error{Code: audit.CodeNotFound, Message: "no such gate", Hint: "list them"}
}

func serve(t *testing.T, k *keeper, decided func(context.Context, *gate.Verdict)) string {
	t.Helper()
	figures := &gate.Memory{}
	var pairs []audit.Pair
	for i := range 80 {
		pairs = append(pairs, audit.Pair{
			Episode: strconv.Itoa(i), PromptGroup: strconv.Itoa(i), Environment: "shop", Version: "1", Mode: audit.Forced,
			Action: audit.Action{Call: audit.Call{Tool: "get"}},
			Verdict: audit.Verdict{
				Real: audit.Outcome{Class: audit.OK}, Rehearsed: audit.Outcome{Class: audit.OK},
				Scores: audit.Scores{Valid: true, LeafF1: new(1.0)},
			},
		})
	}
	figures.Add(audit.RunFacts{ID: "good"}, pairs)
	server := httptest.NewServer(web.New(web.Config{
		Version: "test", Logger: slog.New(slog.DiscardHandler), Figures: figures, Gates: k, Decided: decided,
		Ready: func(context.Context) error { return errors.New("not yet") },
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func ask(t *testing.T, method, at, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func request(policy, run string) string {
	text, err := json.Marshal(map[string]string{"policy": policy, "run": run})
	if err != nil {
		panic(err)
	}
	return string(text)
}

const lenient = "version: 1\ndefaults:\n  leaf_f1: {min: 0.9}\n"

func TestGateOverHTTP(t *testing.T) {
	t.Parallel()
	k, told := &keeper{}, 0
	at := serve(t, k, func(_ context.Context, v *gate.Verdict) {
		told++
		if v.Status != gate.Pass {
			t.Errorf("told of %s", v.Line)
		}
	})
	status, body := ask(t, http.MethodPost, at+"/v1/gates", request(lenient, "good"))
	if status != http.StatusOK || !strings.Contains(body, `"PASS"`) {
		t.Fatalf("%d %s", status, body)
	}
	if _, err := gate.Verify([]byte(body)); err != nil {
		t.Errorf("the answer does not recompute: %v", err)
	}
	if told != 1 {
		t.Errorf("told %d times of one decision", told)
	}
	status, body = ask(t, http.MethodGet, at+"/v1/gates?run=good&limit=5", "")
	var list struct {
		Gates []audit.GateRecord `json:"gates"`
		Next  string             `json:"next"`
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK || len(list.Gates) != 1 || list.Next != "next" {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	decided := url.QueryEscape(list.Gates[0].Decided.Format(time.RFC3339Nano))
	status, body = ask(t, http.MethodGet, at+"/v1/gate?run=good&decided="+decided, "")
	if _, err := gate.Verify([]byte(body)); status != http.StatusOK || err != nil {
		t.Errorf("the kept report: %d, %v", status, err)
	}
}

func TestGateRefusals(t *testing.T) {
	t.Parallel()
	at := serve(t, &keeper{}, nil)
	tests := []struct {
		method, path, body string
		status             int
		want, reason       string
	}{
		{http.MethodPost, "/v1/gates", request(lenient, "nope"), http.StatusNotFound, "nope", "a run that does not exist"},
		{http.MethodPost, "/v1/gates", request("version: 1\ndefaults:\n  leaf_f2: {min: 0.9}\n", "good"), http.StatusBadRequest, "leaf_f1", "an unknown figure names the nearest"},
		{http.MethodPost, "/v1/gates", `{"policy":1}`, http.StatusBadRequest, "send", "a wrong type"},
		{http.MethodPost, "/v1/gates", `{"polcy":""}`, http.StatusBadRequest, "polcy", "an unknown member"},
		{http.MethodPost, "/v1/gates", `{} {}`, http.StatusBadRequest, "follows", "two objects"},
		{http.MethodPost, "/v1/gates", request(strings.Repeat("#", 1<<20), "good"), http.StatusRequestEntityTooLarge, "1 MiB", "a huge policy"},
		{http.MethodGet, "/v1/gates?limit=-1", "", http.StatusBadRequest, "positive", "a limit below one"},
		{http.MethodGet, "/v1/gate?run=good&decided=today", "", http.StatusBadRequest, "today", "a time that is none"},
		{http.MethodGet, "/v1/gate?run=good&decided=2001-01-01T00:00:00Z", "", http.StatusNotFound, "no such gate", "a decision that is not kept"},
		{http.MethodGet, "/readyz", "", http.StatusServiceUnavailable, "not ready", "not ready yet"},
	}
	for _, test := range tests {
		if status, body := ask(t, test.method, at+test.path, test.body); status != test.status || !strings.Contains(body, test.want) {
			t.Errorf("%s: got %d %s, want %d naming %q", test.reason, status, body, test.status, test.want)
		}
	}
}

func TestOwnFaultsAreNotShown(t *testing.T) {
	t.Parallel()
	at := serve(t, &keeper{err: errors.New("password=hunter2")}, nil)
	if status, body := ask(t, http.MethodPost, at+"/v1/gates", request(lenient, "good")); status != http.StatusInternalServerError || strings.Contains(body, "hunter2") {
		t.Errorf("got %d %s", status, body)
	}
}
