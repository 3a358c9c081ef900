package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"understudy/audit"
)

// content is one thing that was fetched.
type content struct {
	file string // its name in the folder
	body []byte
}

// crawl collects pages, breadth first: what is fewest clicks away comes first.
type crawl struct {
	cfg     Config
	queue   []string
	names   map[string]string // canonical URL -> file, of what is in the bundle
	pages   []content
	files   []content
	leftOut map[string]bool // canonical URLs
	nothing map[string]bool // canonical URLs of pages that are not there, or say nothing
	said    map[telling]string
	bytes   int64
}

func newCrawl(cfg Config) *crawl {
	return &crawl{cfg: cfg, names: map[string]string{}, leftOut: map[string]bool{}, nothing: map[string]bool{}, said: map[telling]string{}}
}

// telling is what a page of a kind says: another one that says the same is the same file.
type telling struct {
	path   string
	digest [32]byte
}

// sections are the pages that a bundle starts from, the first is its index.
func sections() []string {
	return []string{"/", "/tools", "/calls", "/compare", "/calibration", "/training", "/gates", "/environments", "/alerts"}
}

// global are pages that are not about one run.
func global(path string) bool {
	return slices.Contains([]string{"/gates", "/gate", "/environments", "/environment", "/contract", "/alerts"}, path)
}

// inside are the paths that a bundle may hold.
func inside(path string) bool {
	return slices.Contains(sections(), path) || global(path) || slices.Contains([]string{"/tool", "/call", "/episode", "/compare/call"}, path)
}

// run fetches until everything is there or a bound is met.
func (c *crawl) run(ctx context.Context) error {
	for _, path := range sections() {
		c.enqueue(c.canonical(path))
	}
	for len(c.queue) > 0 {
		at := c.queue[0]
		c.queue = c.queue[1:]
		if len(c.pages) >= c.cfg.MaxPages || c.bytes >= c.cfg.MaxBytes {
			delete(c.names, at)
			c.leftOut[at] = true
			continue
		}
		body, status := c.fetch(ctx, at)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case status == http.StatusNotFound && len(c.pages) == 0:
			return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("run %q does not exist", c.cfg.Run), Hint: "understudy report lists the runs there are"}
		case status != http.StatusOK && len(c.pages) == 0:
			return fmt.Errorf("fetch the overview of run %q: status %d", c.cfg.Run, status)
		case status >= http.StatusInternalServerError:
			delete(c.names, at)
			c.leftOut[at] = true
			continue
		case status != http.StatusOK:
			delete(c.names, at)
			c.nothing[at] = true
			continue
		}
		if c.keep(at, body) {
			c.follow(ctx, body)
		}
	}
	return nil
}

// keep takes a page into the bundle if it says something that no other page of its kind
// says: a small run looks the same under most filters. The index is always there.
func (c *crawl) keep(at string, body []byte) bool {
	s := senseOf(body)
	if s.empty && len(c.pages) > 0 {
		delete(c.names, at)
		c.nothing[at] = true
		return false
	}
	path, _, _ := strings.Cut(at, "?")
	same := telling{path, s.digest}
	if file := c.said[same]; file != "" {
		c.names[at] = file
		return false
	}
	c.said[same] = c.names[at]
	c.pages = append(c.pages, content{c.names[at], body})
	c.bytes += int64(len(body))
	return true
}

// follow notes the links of a page and fetches what it is drawn with.
func (c *crawl) follow(ctx context.Context, page []byte) {
	for _, link := range links(page) {
		at, kind := c.resolve(link.url)
		switch {
		case kind == outside || c.names[at] != "" || c.leftOut[at] || c.nothing[at]:
		case kind == aPage && link.page:
			c.enqueue(at)
		case kind == aFile && !link.page:
			body, status := c.fetch(ctx, at)
			if status != http.StatusOK {
				continue
			}
			name := fileName(at)
			c.names[at] = name
			c.files = append(c.files, content{name, body})
			c.bytes += int64(len(body))
		}
	}
}

func (c *crawl) enqueue(at string) {
	if c.names[at] == "" {
		c.names[at] = c.pageName(at)
		c.queue = append(c.queue, at)
	}
}

// where a URL leads.
type where int

const (
	outside where = iota
	aPage
	aFile
)

// resolve says what a link of a page means: its canonical form and its kind.
func (c *crawl) resolve(link string) (string, where) {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") {
		return "", outside
	}
	if strings.HasPrefix(u.Path, "/assets/") {
		return u.Path, aFile
	}
	q := u.Query()
	if u.Path == "/gate/report" && q.Get("kind") == "badge" {
		return u.Path + "?" + q.Encode(), aFile
	}
	if !inside(u.Path) || !global(u.Path) && q.Get("run") != "" && q.Get("run") != c.cfg.Run {
		return "", outside
	}
	return c.canonical(u.Path + "?" + u.RawQuery), aPage
}

// canonical is a page's URL with its run and its parameters in order.
func (c *crawl) canonical(link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return link
	}
	q := u.Query()
	if !global(u.Path) {
		q.Set("run", c.cfg.Run)
	}
	if len(q) == 0 {
		return u.Path
	}
	return u.Path + "?" + q.Encode()
}

// pageName is index.html for the overview, else the path and, where it has
// parameters of its own, a digest of them.
func (c *crawl) pageName(at string) string {
	path, _, _ := strings.Cut(at, "?")
	if at == c.canonical("/") {
		return "index.html"
	}
	name := strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")
	if name == "" {
		name = "overview"
	}
	if at == c.canonical(path) {
		return name + ".html"
	}
	sum := sha256.Sum256([]byte(at))
	return name + "-" + hex.EncodeToString(sum[:6]) + ".html"
}

func fileName(at string) string {
	path, query, _ := strings.Cut(at, "?")
	if query == "" {
		return path[strings.LastIndex(path, "/")+1:]
	}
	sum := sha256.Sum256([]byte(at))
	return "badge-" + hex.EncodeToString(sum[:6]) + ".svg"
}

// fetch asks the handler as a browser on this machine would.
func (c *crawl) fetch(ctx context.Context, at string) ([]byte, int) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+at, http.NoBody)
	if err != nil {
		return nil, http.StatusBadRequest
	}
	req.RemoteAddr, req.RequestURI = "127.0.0.1:1", at
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	c.cfg.Handler.ServeHTTP(w, req)
	return w.body.Bytes(), w.status
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
