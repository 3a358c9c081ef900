package dashboard_test

import (
	"context"
	_ "embed" // the checks that run in the browser
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
	"understudy/web"
	"understudy/web/dashboard"
)

var postgres ledgertest.Server

func TestMain(m *testing.M) { os.Exit(postgres.Main(m)) }

const (
	// seededPairs is how many pairs every page is tried with.
	seededPairs = 10_000
	// baselinePairs is how many of the same calls the checkpoint before made.
	baselinePairs = 2_000
)

// world is a service over a ledger with two checkpoints.
type world struct {
	*ledger.Ledger
	url string
}

// newLedger is an empty ledger of the test's own.
func newLedger(t *testing.T) *ledger.Ledger {
	t.Helper()
	l, err := ledger.New(postgres.Pool(t), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// configOf is a service over a ledger that shows a store, without a guard.
func configOf(l *ledger.Ledger, store dashboard.Store) web.Config {
	return web.Config{
		Version: "test", Store: store, Figures: l, Gates: l, Logger: slog.New(slog.DiscardHandler),
		Ready: func(context.Context) error { return nil },
	}
}

func serve(t *testing.T, l *ledger.Ledger) *world {
	t.Helper()
	return serveBehind(t, l, l, func(h http.Handler) http.Handler { return h })
}

// serveBehind is a service whose requests go through something of the test's own.
func serveBehind(t *testing.T, l *ledger.Ledger, store dashboard.Store, through func(http.Handler) http.Handler) *world {
	t.Helper()
	cfg, closing := configOf(l, store), make(chan struct{})
	cfg.Closing = closing
	server := httptest.NewServer(through(web.New(cfg)))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(closing) }) // first: live pages end
	return &world{Ledger: l, url: server.URL}
}

// patience is for the slowest machine: nothing that works waits for it.
const patience = 5 * time.Minute

// browser is one tab. What its console complains of fails the test.
type browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // a tab is a context to chromedp
	at  string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path := chromium(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900), chromedp.Flag("lang", "en-GB"),
		chromedp.WSURLReadTimeout(patience)) // until the browser has started
	allocator, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx)
		cancel()
		stop()
	})
	b := &browser{t: t, ctx: ctx}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil { // the first call starts the browser
		t.Fatal(err)
	}
	err := chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			t.Errorf("the page's script failed: %+v", e.ExceptionDetails)
		}
		if e, ok := event.(*log.EventEntryAdded); ok && e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "status of 4") && !strings.Contains(e.Entry.Text, "status of 503") {
			t.Errorf("the browser complains: %s", e.Entry.Text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// visit turns the tab to another test and the service that it tries. It leaves the page
// before the service ends: a live page would ask it again, and complain.
func (b *browser) visit(t *testing.T, w *world) {
	t.Helper()
	b.t, b.at = t, w.url
	t.Cleanup(func() { _ = chromedp.Do(b.ctx, chromedp.Navigate("about:blank")) })
}

// chromium finds the browser; a machine without one fails with the line to run.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no Chromium on PATH: run `make deps`, or apt-get install -y chromium")
	return ""
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

// open loads a page.
func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](`window.left = true`), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		// Navigate would wait for a page whose live stream never ends.
		_, err := cdp.Call(ctx, t, page.Navigate, page.NavigateParams{URL: b.at + path})
		return err
	}))
	b.arrive(`!window.left && document.querySelector("main")`)
}

// click follows a link and waits for what is behind it.
func (b *browser) click(selector string) {
	b.t.Helper()
	before := b.text(`location.href`)
	b.do(chromedp.ScrollIntoView(selector), chromedp.Click(selector))
	b.arrive(`location.href !== ` + strconv.Quote(before))
}

// arrive waits for a page of which a claim holds, whole and with its script listening.
func (b *browser) arrive(claim string) {
	b.t.Helper()
	b.until(`document.readyState === "complete" && (` + claim + `)`)
}

func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// text evaluates a JavaScript expression to a text.
func (b *browser) text(expression string) string {
	b.t.Helper()
	return evaluate[string](b, expression)
}

// holds evaluates a JavaScript claim.
func (b *browser) holds(claim string) bool { b.t.Helper(); return evaluate[bool](b, "!!("+claim+")") }

// until waits for a claim to hold, also across a navigation.
func (b *browser) until(claim string) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		if holds, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+claim+")")); err == nil && holds {
			return
		}
		<-tick.C
	}
	b.t.Fatalf("never came true at %s: %s", b.text("location.href"), claim)
}

// media sets the browser's colour scheme and the width of its window.
func (b *browser) media(scheme string, width int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// looks shows the page as people see it who like it light, dark, or narrow.
func (b *browser) looks(name string) {
	b.t.Helper()
	file := strings.ReplaceAll(name, " ", "-")
	b.look(file, "light", 1280)
	b.look(file, "dark", 1280)
	b.sound(name + " in the dark")
	b.look(file, "light", 390)
	if !b.holds(`[...document.querySelectorAll(".scroll .stacked")].every(t => t.scrollWidth <= t.parentElement.clientWidth + 1)`) {
		b.t.Errorf("%s: rows that become blocks on narrow screens still go beyond them", name)
	}
	if !b.holds(`document.documentElement.scrollWidth <= 391`) {
		b.t.Errorf("%s: the page is wider than a narrow screen: %s", name, b.text(`[...document.querySelectorAll("main *")].filter(e => e.getBoundingClientRect().right > 391 && !e.closest(".scroll, .squares, nav")).slice(0, 5).map(e => e.outerHTML.slice(0, 120)).join("\n")`))
	}
}

// look shows the page in a colour scheme and a width. It keeps a picture of the
// whole page in UNDERSTUDY_SCREENSHOTS, or among the artifacts of go test
// -artifacts; where nobody would see it, none is taken.
func (b *browser) look(name, scheme string, width int64) {
	b.t.Helper()
	b.media(scheme, width)
	dir := os.Getenv("UNDERSTUDY_SCREENSHOTS")
	if dir == "" && flag.Lookup("test.artifacts").Value.String() == "true" {
		dir = b.t.ArtifactDir()
	}
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+"-"+scheme+"-"+strconv.FormatInt(width, 10)+".png"), picture, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// press types keys at the page.
func (b *browser) press(keys string) {
	b.t.Helper()
	b.until(`document.readyState === "complete"`) // the script listens
	b.do(chromedp.KeyEvent(keys))
}

func (b *browser) typeInto(selector, text string) {
	b.t.Helper()
	b.do(chromedp.ScrollIntoView(selector), chromedp.SendKeys(selector, text))
}

// choose picks an option of a select.
func (b *browser) choose(selector, value string) chromedp.Action[chromedp.Void] {
	return chromedp.SetValue(selector, value)
}

func (b *browser) pressButton(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(selector)
}

// script lets pages run scripts, or not. Evaluations of the test always run.
func (b *browser) script(on bool) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
		return err
	}))
}

// weight is how many bytes the page and what it loads need.
func (b *browser) weight() int {
	b.t.Helper()
	return evaluate[int](b, `performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource")).reduce((n, e) => n + e.encodedBodySize, 0)`)
}

//go:embed sound.js
var soundScript string

// sound looks for what keeps people out of a page: controls without a name,
// faint text, headings that skip a level, drawings without a title, ...
func (b *browser) sound(name string) {
	b.t.Helper()
	if faults := b.text(soundScript); faults != "" {
		b.t.Errorf("%s:\n%s", name, faults)
	}
}

// mark leaves a trace that a new load of the page would wipe out.
func (b *browser) mark() chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](`window.stayed = true`)
}
