package dashboard_test

import (
	"bufio"
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
	"understudy/web"
)

// wrong are values that no filter has.
func wrong() []string {
	return []string{
		"\x00", "\xff\xfe", "'; DROP TABLE run; --", "<script>owned()</script>", "\u202egnirts", "😀", strings.Repeat("a", 10_000), strings.Repeat("0", 64),
		"-1", "99999999999999999999", "NaN", "%", "../../etc/passwd", "2026-13-45T99:99:99Z", "5-" + strings.Repeat("f", 64), "{{.}}", "[]", "true",
	}
}

// words are the parameters of all pages, forms and endpoints.
func words() []string {
	return []string{
		"run", "environment", "tool", "version", "mode", "split", "key", "episode", "after", "base", "tab", "sort", "real", "rehearsed", "severity", "masked",
		"policy", "decided", "ref", "kind", "experiment", "metric", "part", "said", "sent", "of", "to", "a", "b", "limit", "name", "role", "reason", "days", "about",
		"mark", "token", "back", "theme", "baseline", "path", "group",
	}
}

// TestEveryRouteRefuses asks every route for every kind of nonsense: an answer is
// a page or a clear error, never the service's own failure.
func TestEveryRouteRefuses(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ledgertest.Fill(t, l, ledgertest.Seed{Run: "small", Pairs: 40, Wrong: .5})
	engine, ok := handler(t, l).(*gin.Engine)
	if !ok {
		t.Fatal("the handler does not list its routes")
	}
	lines, _, err := l.Calls(t.Context(), "small", audit.CallFilter{}, audit.Page{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	at := wrongQueries{engine: engine, right: url.Values{
		"run": {"small"}, "key": {lines[0].Key.String()}, "episode": {lines[0].Episode.String()}, "tool": {ledgertest.WorstTool}, "environment": {"shop"}, "version": {"1"},
	}}
	asked := 0
	for _, route := range engine.Routes() {
		if strings.HasPrefix(route.Path, "/events") {
			continue // an answer that has no end
		}
		asked += at.ask(t, route)
	}
	if asked < 500 {
		t.Errorf("%d questions are too few to mean anything", asked)
	}
}

type wrongQueries struct {
	engine http.Handler
	right  url.Values // a query that every page understands
	turn   int        // which wrong value is next
}

// ask sends each wrong value for all words at once, and for each word alone one
// of them, in turns.
func (w *wrongQueries) ask(t *testing.T, route gin.RouteInfo) int {
	t.Helper()
	asked := 0
	for _, value := range wrong() {
		query := url.Values{}
		for _, word := range words() {
			query.Set(word, value)
		}
		w.one(t, route, query)
		asked++
	}
	for i, word := range words() {
		if (i+w.turn)%3 > 0 {
			continue // another route's turn
		}
		query := maps.Clone(w.right)
		query.Set(word, wrong()[w.turn%len(wrong())])
		w.turn++
		w.one(t, route, query)
		asked++
	}
	w.turn++
	return asked
}

func (w *wrongQueries) one(t *testing.T, route gin.RouteInfo, query url.Values) {
	t.Helper()
	path := route.Path
	for part := range strings.SplitSeq(route.Path, "/") {
		if strings.HasPrefix(part, ":") || strings.HasPrefix(part, "*") {
			path = strings.Replace(path, part, url.PathEscape(query.Get("run")), 1)
		}
	}
	body := ""
	if route.Method == http.MethodPost {
		body = query.Encode()
	}
	req, err := http.NewRequestWithContext(t.Context(), route.Method, "http://127.0.0.1"+path+"?"+query.Encode(), strings.NewReader(body))
	if err != nil {
		return // no address that a client could send
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "text/html")
	req.RemoteAddr = "127.0.0.1:1"
	answer := httptest.NewRecorder()
	w.engine.ServeHTTP(answer, req)
	if answer.Code >= http.StatusInternalServerError && answer.Code != http.StatusNotImplemented {
		t.Errorf("%s %s: status %d: %.300s", route.Method, req.URL, answer.Code, answer.Body.String())
	}
}

// TestThousandsOfTools shows a run whose every call was of another tool, with
// names from an enemy: pages stay small, lists are paged, nothing is markup.
func TestThousandsOfTools(t *testing.T) {
	t.Parallel()
	pool := postgres.Pool(t)
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Fill(t, l, ledgertest.Seed{Run: "base", Pairs: 20, Wrong: .5})
	ledgertest.Fill(t, l, ledgertest.Seed{Run: "many", Pairs: 40, Wrong: .5})
	const evil = "<script>owned()</script>\u202e😀\"'&"
	_, err = pool.Exec(t.Context(), `
		INSERT INTO summary_cell (run, version, mode, split, environment, tool, figures)
		SELECT c.run, c.version, c.mode, c.split, c.environment, n.tool,
			convert_to(jsonb_set(convert_from(c.figures, 'UTF8')::jsonb, '{tool}', to_jsonb(n.tool))::text, 'UTF8')
		FROM summary_cell c JOIN run r ON r.id = c.run AND r.name = 'many',
			(SELECT left($2 || i || repeat('a', 200), 150) AS tool FROM generate_series(1, 2000) AS i) n
		WHERE c.tool = $1 AND c.version = '' AND c.mode = '' AND c.split = 'all' ORDER BY c.environment LIMIT 2000`, ledgertest.WorstTool, evil)
	if err != nil {
		t.Fatal(err)
	}
	w := serve(t, l)
	value := regexp.MustCompile(` value="[^"]*"`) // what a form sends back, and nobody sees
	for _, path := range []string{"/?run=many", "/tools?run=many", "/tools?run=many&after=1950", "/calls?run=many", "/calibration?run=many", "/compare?run=many&base=base"} {
		status, body := get(t, w.url+path)
		if status != http.StatusOK || len(body) > firstPaint {
			t.Errorf("%s: status %d, %d bytes of at most %d", path, status, len(body), firstPaint)
		}
		if shown := value.ReplaceAllString(body, ""); strings.Contains(body, "<script>owned") || strings.Contains(shown, "\u202e") {
			t.Errorf("%s: the enemy's markup is markup", path)
		}
	}
	if _, body := get(t, w.url+"/tools?run=many"); !regexp.MustCompile(`>2.010, by`).MatchString(body) || !strings.Contains(body, "Next page") {
		t.Errorf("the list does not say how many tools there are, or has no next page: %.300s", body)
	}
}

// countedStore counts how often a run is looked at again after a viewer came: each
// reads it once when he comes, and a slow machine may let him come at any time.
type countedStore struct {
	*ledger.Ledger
	looks atomic.Int64
}

// visit is one viewer's request: how often it has led to a look.
type visit struct{ looks atomic.Int64 }

type visitKey struct{}

func (c *countedStore) RunHead(ctx context.Context, name string) (audit.RunHead, error) {
	if v, ok := ctx.Value(visitKey{}).(*visit); !ok || v.looks.Add(1) > 1 {
		c.looks.Add(1)
	}
	return c.Ledger.RunHead(ctx, name)
}

// visits makes each request a visit.
func visits(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, &visit{})))
	})
}

const viewers = 200

// TestManyViewers has two hundred browsers watch a run: some read, some never do,
// some leave at once. Those that read are told; the others hold nobody up, and
// the run is looked at once for all of them.
func TestManyViewers(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ledgertest.Fill(t, l, ledgertest.Seed{Run: "watched", Pairs: 20, Wrong: .5})
	counted := &countedStore{Ledger: l}
	w := serveBehind(t, l, counted, visits)
	host := strings.TrimPrefix(w.url, "http://")
	told := make(chan struct{}, viewers)
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reading := 0
	for i := range viewers {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("GET /events?run=watched HTTP/1.1\r\nHost: " + host + "\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		switch i % 4 {
		case 0: // leaves at once
			_ = conn.Close()
			continue
		case 1: // never reads
			defer conn.Close()
			continue
		}
		reading++
		all.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				if lines.Text() == "retry: 3000" || strings.HasPrefix(lines.Text(), "event: moved") {
					told <- struct{}{}
				}
			}
		})
	}
	await(t, told, reading, "have their stream")
	began := time.Now()
	before := counted.looks.Load()
	if err := l.TagRun(t.Context(), "watched", "moves nothing"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Commit(t.Context(), "watched", []audit.Pair{hostilePair(t, 1, `{}`)}); err != nil {
		t.Fatal(err)
	}
	await(t, told, reading, "are told that the run moved")
	if looked, seconds := counted.looks.Load()-before, time.Since(began).Seconds(); float64(looked) > 3*seconds+5 {
		t.Errorf("the run was looked at %d times in %.1f s for %d viewers", looked, seconds, reading)
	}
	cancel()
	all.Wait()
}

func await(t *testing.T, told <-chan struct{}, n int, what string) {
	t.Helper()
	deadline := time.After(patience)
	for i := range n {
		select {
		case <-told:
		case <-deadline:
			t.Fatalf("%d of %d viewers %s", i, n, what)
		}
	}
}

// ledgerDown takes the ledger away under an open page and its stream: the page
// says so, others show a clear error, and all come back by themselves.
func ledgerDown(t *testing.T, b *browser) {
	t.Helper()
	pool := postgres.Pool(t)
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ledgertest.Fill(t, l, ledgertest.Seed{Run: "down", Pairs: 20, Wrong: .5})
	b.visit(t, serve(t, l))
	b.open("/")
	b.do(b.mark())
	b.until(`document.querySelector("#offline").hidden`)
	connect(t, pool, false)
	b.until(`!document.querySelector("#offline").hidden`)
	b.sound("the ledger is down")
	if status, body := get(t, b.at+"/tools"); status != http.StatusServiceUnavailable || !strings.Contains(body, "ledger does not answer") {
		t.Errorf("without its ledger a page answers %d: %.200s", status, body)
	}
	connect(t, pool, true)
	b.until(`document.querySelector("#offline").hidden`)
	if _, err := l.Commit(t.Context(), "down", []audit.Pair{hostilePair(t, 1, `{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := l.Summarize(t.Context(), "down"); err != nil {
		t.Fatal(err)
	}
	b.until(`document.querySelector("[data-live=asof]").textContent.includes("21 calls")`)
	if !b.holds(`window.stayed`) {
		t.Error("the page was loaded again instead of coming back")
	}
}

// connect lets nobody, or anybody, into a pool's database.
func connect(t *testing.T, pool *pgxpool.Pool, may bool) {
	t.Helper()
	cfg := pool.Config().ConnConfig.Copy()
	name := cfg.Database
	cfg.Database = "postgres"
	admin, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
	allow := "false"
	if may {
		allow = "true"
	}
	if _, err := admin.Exec(t.Context(), `ALTER DATABASE `+name+` ALLOW_CONNECTIONS `+allow); err != nil {
		t.Fatal(err)
	}
	if may {
		return
	}
	if _, err := admin.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name); err != nil {
		t.Fatal(err)
	}
}

// handler is a service that everybody may use.
func handler(t *testing.T, l *ledger.Ledger) http.Handler {
	t.Helper()
	return web.New(configOf(l, l))
}
