package bundle_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"understudy/web/bundle"
)

const page = `<!doctype html><html><head><title>%s</title></head><body><nav><a href="/gates?run=r">Gates</a></nav><main>%s</main></body></html>`

// site is a dashboard of a small run: most filters show the same.
func site() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		filter := ""
		if split := q.Get("split"); split != "" {
			filter = "&split=" + split
		}
		row := `<table class="wide"><tr data-row="1"><td><a aria-current="page" href="/tool?run=r&tool=pay` + filter + `">pay</a> 100 %</td></tr></table>`
		var body string
		switch r.URL.Path {
		case "/":
			body = `<form><input value="` + filter + `"></form><h1>Overview</h1><p class="empty">no call yet</p><a href="/?run=r&split=failed">failed</a> <a href="/tools?run=r` + filter + `">tools</a> <a href="/calls?run=r&after=gone">more</a> <a href="/tool?run=r&tool=pay&split=failed">failed</a>`
		case "/tools":
			body = `<h1>Tools by ` + q.Get("sort") + `</h1>` + row + `<a href="/tools?run=r&sort=name` + filter + `">name</a> <a href="/tools?run=r&split=failed">failed</a>`
		case "/tool":
			body = `<h1>pay</h1><svg><path d="M0 ` + strconv.Itoa(len(filter)) + `"></path></svg><a href="/call?run=r&key=1` + filter + `">call</a>`
		case "/call":
			body = `<h1>Call 1</h1>` + row
		case "/gates":
			body = `<h1>Gates</h1><section class="card empty">No gate yet</section>`
		case "/alerts":
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		default:
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, page, r.URL.Path+filter, body)
	})
}

// What a bundle holds exists, says something, and says it once; links lead to the page
// that says it.
func TestABundleSaysEachThingOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "site")
	report, err := bundle.Write(t.Context(), bundle.Config{Handler: site(), Run: "r", Dir: dir, Now: time.Unix(0, 0)})
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	files, err := filepath.Glob(filepath.Join(dir, "*.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "<title>")
		title, _, _ := strings.Cut(after, "</title>")
		titles = append(titles, title)
		if !strings.Contains(string(text), `<a title="not in this bundle">Gates`) {
			t.Errorf("%s leads to gates, of which there are none", file)
		}
		if title == "/tools" && strings.Count(string(text), `href="tools.html"`) != 1 {
			t.Errorf("the tools of failed tasks are those of all, and no link says so:\n%s", text)
		}
	}
	slices.Sort(titles)
	// The picture of the tool is another one under the filter, which its text does not say;
	// its call is the same, and stands as it was met first.
	want := []string{"/", "/call&split=failed", "/tool", "/tool&split=failed", "/tools", "/tools"}
	if !slices.Equal(titles, want) {
		t.Errorf("the bundle holds %q, want %q", titles, want)
	}
	if report.Pages != len(want) || report.LeftOut != 1 {
		t.Errorf("%+v: want %d pages, and one left out that could not be fetched", report, len(want))
	}
}
