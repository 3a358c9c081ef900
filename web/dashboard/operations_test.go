package dashboard_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
	"understudy/web"
	"understudy/web/bundle"
)

// comparedCalls opens the biggest regression and goes on to the call itself.
func comparedCalls(t *testing.T, _ *world, b *browser) {
	t.Helper()
	b.open("/compare?run=step-200&base=step-100&tab=regressed")
	before, after := b.text(`document.querySelector("[data-row] .sev").textContent`), b.text(`document.querySelectorAll("[data-row] .sev")[1].textContent`)
	if before >= after || after != "S5" {
		t.Errorf("the first row went from %s to %s: the biggest regression comes first", before, after)
	}
	b.click(`[data-row] a`)
	b.sound("compared call")
	b.looks("compare call")
	b.media("light", 1280)
	if b.text(`document.querySelectorAll(".three .sev")[1].textContent`) != after {
		t.Error("the page of the call shows another severity than its row")
	}
	b.click(`.three section:last-child p a`)
	if !b.holds(`location.pathname === "/call" && location.search.includes("step-200")`) {
		t.Errorf("the link leads to %s", b.text(`location.href`))
	}
}

func operationKeys(t *testing.T, _ *world, b *browser) {
	t.Helper()
	b.open("/compare?run=step-200&base=step-100&tab=regressed")
	b.press("jj")
	b.press("\r")
	b.arrive(`location.pathname === "/compare/call"`)
	b.press("u")
	b.arrive(`location.pathname === "/compare" && location.search.includes("base=step-100")`)
	b.open("/compare?run=step-200&base=step-100&tab=both_right")
	first := b.text(`document.querySelector("[data-row] a").href`)
	b.press("n")
	b.arrive(`location.search.includes("after=50")`)
	if b.text(`document.querySelector("[data-row] a").href`) == first {
		t.Error("the second page starts like the first")
	}
}

func jobsSentAgain(t *testing.T, w *world, b *browser) {
	t.Helper()
	dead := func() int {
		runs, err := w.RunJobs(t.Context(), 10)
		if err != nil || len(runs) != 1 {
			t.Fatalf("%d runs have jobs, %v", len(runs), err)
		}
		return runs[0].Dead
	}
	before := dead()
	b.open("/jobs")
	b.press("n")
	b.arrive(`location.search.includes("after=")`)
	b.click(`form:has([name=episode]) button`)
	if after := dead(); after != before-1 {
		t.Errorf("%d jobs are given up after one was sent again, before %d", after, before)
	}
	b.open("/jobs")
	b.do(b.pressButton(`form[action="/jobs/revive"]:not(:has([name=episode])) button`))
	b.arrive(`location.search.includes("sent=")`)
	if after := dead(); after != 0 {
		t.Errorf("%d jobs are given up after all were sent again", after)
	}
}

// tokens makes a token, sees it once, and revokes it.
func tokens(t *testing.T, w *world, b *browser) {
	t.Helper()
	b.open("/settings")
	b.typeInto(`input[name=name]`, "ci <b>")
	b.do(b.pressButton(`form[action="/settings/tokens"] button`))
	b.arrive(`document.querySelector("#new-token")`)
	secret := b.text(`document.querySelector("#new-token").textContent`)
	if _, err := w.Token(t.Context(), audit.SecretHash(secret)); err != nil {
		t.Errorf("the token that is shown opens nothing: %v", err)
	}
	b.do(b.pressButton(`button[data-copy]`))
	b.until(`getSelection().toString() === document.querySelector("#new-token").textContent`)
	b.open("/settings#100%")
	b.until(`document.querySelector("time[title]")`)
	if b.holds(`document.body.textContent.includes("` + secret + `")`) {
		t.Error("the token is shown twice")
	}
	b.do(b.pressButton(`form[action="/settings/tokens/revoke"] button`))
	b.arrive(`document.querySelector("tr.faded")`)
	if _, err := w.Token(t.Context(), audit.SecretHash(secret)); audit.ErrorCode(err) != audit.CodeUnauthorized {
		t.Errorf("a revoked token: got %v", err)
	}
}

// bundled opens the files of a run without a server: its pages are styled, lead
// to each other and run nothing.
func bundled(t *testing.T, w *world, b *browser) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site")
	handler := web.New(web.Config{Version: "test", Store: w.Ledger, Figures: w, Gates: w, Logger: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil }})
	report, err := bundle.Write(t.Context(), bundle.Config{Handler: handler, Run: "step-200", Dir: dir, MaxPages: 40, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if report.Pages != 40 || report.LeftOut == 0 {
		t.Errorf("%+v: a run of so many calls has more pages than 40", report)
	}
	files := *b
	files.at = "file://" + dir
	files.open("/index.html")
	if !files.holds(`getComputedStyle(document.querySelector(".card")).borderTopWidth === "1px"`) {
		t.Error("the style sheet does not apply")
	}
	files.look("bundle", "light", 1280)
	if headline := files.text(`document.querySelector("h1").textContent`); !strings.Contains(headline, ledgertest.WorstTool) {
		t.Errorf("the first page says %q", headline)
	}
	files.click(`.verdict h1 a`)
	if !files.holds(`location.pathname.includes("/tool-")`) {
		t.Errorf("the first link leads to %s", files.text(`location.href`))
	}
	files.sound("bundled tool")
	checkLinks(t, dir)
}

// checkLinks opens every file of a bundle and looks where its links lead.
func checkLinks(t *testing.T, dir string) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil || len(pages) != 40 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	target := regexp.MustCompile(`(?:href|src)="([^"#]+)[^"]*"`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"<script", "<form", "<button", "<img src=x"} {
			if bytes.Contains(text, []byte(bad)) {
				t.Errorf("%s holds %s", filepath.Base(page), bad)
			}
		}
		for _, m := range target.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(dir, string(m[1]))); err != nil {
				t.Errorf("%s leads to %s, which is not there", filepath.Base(page), m[1])
			}
		}
	}
}

// TestOperationsRefuse asks for what is not there, and as somebody who may not.
func TestOperationsRefuse(t *testing.T) {
	t.Parallel()
	l, err := ledger.New(postgres.Pool(t), ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := serve(t, l)
	for path, want := range map[string]int{
		"/compare": http.StatusOK, "/calibration": http.StatusOK, "/training": http.StatusOK, "/gates": http.StatusOK, "/environments": http.StatusOK,
		"/alerts": http.StatusOK, "/jobs": http.StatusOK, "/settings": http.StatusOK,
		"/compare?run=none": http.StatusNotFound, "/training?experiment=none": http.StatusNotFound, "/gate?run=x&decided=never": http.StatusNotFound,
		"/gate?run=x&decided=2026-01-02T03:04:05Z": http.StatusNotFound, "/alerts?kind=none": http.StatusBadRequest, "/jobs?after=x": http.StatusBadRequest,
		"/gates?after=x": http.StatusBadRequest, "/environment": http.StatusBadRequest,
		"/contract?ref=%00%ff": http.StatusNotFound, "/?run=%00%ff": http.StatusNotFound, "/training?experiment=%00%ff": http.StatusNotFound,
	} {
		if status, body := get(t, w.url+path); status != want || !strings.Contains(body, "<main") {
			t.Errorf("%s on an empty ledger: status %d, want %d as a page", path, status, want)
		}
	}
}

func get(t *testing.T, at string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
