package dashboard

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web/access"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are the parsed pages: each is the layout with its own blocks.
type templates struct{ pages map[string]*template.Template }

// shell is what the layout shows around a page.
type shell struct {
	Title   string
	Path    string // of this page
	Section string // of the navigation
	Nav     []page
	Request *request
	Bar     []barField
	Theme   string // light, dark, or "" for the system's
	Back    string // this page with its filters
	Seen    string // what of the run the page shows: how a stream that has seen the same begins
	keeps   []string
	Version string
	Global  bool // the page is not about one run: it has no bar
	Page    any
}

// barField is one select of the bar.
type barField struct {
	Key, Label string
	Choices    []choice
}

func (s *site) newTemplates() (*templates, error) {
	layout, err := template.New("layout").Funcs(s.functions()).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, fmt.Errorf("read the layout: %w", err)
	}
	all := &templates{pages: map[string]*template.Template{}}
	names := []string{"error", "signin"}
	for _, p := range s.nav {
		names = append(names, p.name)
	}
	for _, name := range names {
		t, err := layout.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, "templates/"+name+".html")
		}
		if err != nil {
			return nil, fmt.Errorf("read the page %s: %w", name, err)
		}
		all.pages[name] = t
	}
	return all, nil
}

// barred is a view that knows which modes and versions its run has.
type barred interface{ summary() *audit.Summary }

// render writes a page. It is made whole before the first byte is sent, so that
// an error is an error page and never half a page.
func (s *site) render(c *gin.Context, status int, p page, r *request, view any) {
	sh := shell{
		Title: p.title, Path: p.path, Section: p.section(), Request: r, Theme: theme(c.Request),
		Back: c.Request.URL.RequestURI(), Version: s.Version, Global: p.global, Page: view, keeps: p.keeps,
	}
	for _, entry := range s.nav {
		if entry.nav {
			sh.Nav = append(sh.Nav, entry)
		}
	}
	if r.Head != nil {
		sh.Seen = seenRun(r.Head.Moves, r.Head.State)
	}
	if b, ok := view.(barred); ok {
		if r.Head != nil && b.summary().Run.Number != 0 {
			sh.Seen += seenFigures(b.summary().Computed)
		}
		for _, key := range p.filters {
			sh.Bar = append(sh.Bar, barField{key, label(key), r.choices(key, b.summary())})
		}
	}
	var b bytes.Buffer
	if err := s.templates.pages[p.name].ExecuteTemplate(&b, "layout", sh); err != nil {
		s.Logger.ErrorContext(context.WithoutCancel(c.Request.Context()), "page not written", slog.String("page", p.name), slog.Any("error", err))
		c.Data(http.StatusInternalServerError, "text/plain; charset=utf-8", []byte("The page could not be written; the service's log says why.\n"))
		return
	}
	c.Data(status, "text/html; charset=utf-8", b.Bytes())
}

func label(key string) string {
	return map[string]string{"mode": "Mode", "version": "Domain version", "split": "Task outcome", "tool": "Tool"}[key]
}

// NavTitle and NavPath are for the layout: a page's fields are its own.
func (p page) NavTitle() string { return p.title }

// NavPath is the page's address.
func (p page) NavPath() string { return p.path }

// failure is what the error page shows.
type failure struct {
	Status        int
	Message, Hint string
}

// fail answers a browser with a page that says what is wrong and what to do. An
// unknown visitor is sent to sign in.
func (s *site) fail(c *gin.Context, err error) {
	code := audit.ErrorCode(err)
	if code == audit.CodeUnauthorized && c.Request.Method == http.MethodGet {
		c.Redirect(http.StatusSeeOther, "/sign-in?"+url.Values{"to": {c.Request.URL.RequestURI()}}.Encode())
		c.Abort()
		return
	}
	access.RetryAfter(c, err)
	f := failure{Status: s.Status(code), Message: err.Error(), Hint: audit.ErrorHint(err)}
	if f.Status >= http.StatusInternalServerError {
		s.Logger.ErrorContext(context.WithoutCancel(c.Request.Context()), "page failed", slog.String("path", c.FullPath()), slog.Any("error", err))
		if code == audit.CodeInternal {
			f.Message, f.Hint = "Something is wrong in the service itself.", "Its log has the details."
		}
	}
	c.Abort()
	p := page{name: "error", title: http.StatusText(f.Status), global: true}
	s.render(c, f.Status, p, &request{Identity: access.Of(c), gin: c}, f)
}

// theme is light, dark or "": what the browser chose by the switch.
func theme(r *http.Request) string {
	if cookie, err := r.Cookie(themeCookie); err == nil && (cookie.Value == "light" || cookie.Value == "dark") {
		return cookie.Value
	}
	return ""
}

const themeCookie = "understudy_theme"

// postTheme remembers a choice for a year and goes back.
func (s *site) postTheme(c *gin.Context) {
	theme := c.PostForm("theme")
	if theme != "" && theme != "light" && theme != "dark" {
		s.fail(c, &audit.Error{Code: audit.CodeInvalid, Message: "there are no such colours", Hint: "light, dark, or the system's"})
		return
	}
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // a taste, no secret; it must also work over plain http
		Name: themeCookie, Value: theme, Path: "/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteLaxMode, HttpOnly: true,
	})
	c.Redirect(http.StatusSeeOther, ownPath(c.PostForm("back")))
}

// ownPath is a path on this service, whatever was asked for: a redirect never
// leaves it.
func ownPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n") {
		return "/"
	}
	return to
}

// signIn is the view of the sign-in page.
type signIn struct{ To, Fault string }

func signInPage() page { return page{name: "signin", title: "Sign in", global: true} }

func (s *site) getSignIn(c *gin.Context) {
	s.render(c, http.StatusOK, signInPage(), &request{Identity: access.Of(c), gin: c}, signIn{To: ownPath(c.Query("to"))})
}

func (s *site) postSignIn(c *gin.Context) {
	to := ownPath(c.PostForm("to"))
	err := s.Guard.SignIn(c, c.PostForm("token"))
	code := audit.ErrorCode(err)
	switch {
	case err != nil && (code == audit.CodeUnauthorized || code == audit.CodeBusy): // to be tried again
		access.RetryAfter(c, err)
		s.render(c, s.Status(code), signInPage(), &request{gin: c}, signIn{To: to, Fault: err.Error() + ": " + audit.ErrorHint(err)})
	case err != nil:
		s.fail(c, err)
	default:
		c.Redirect(http.StatusSeeOther, to)
	}
}

func (s *site) postSignOut(c *gin.Context) {
	if err := s.Guard.SignOut(c); err != nil {
		s.fail(c, err)
		return
	}
	c.Redirect(http.StatusSeeOther, "/sign-in")
}

// keep is a word of the filter that the bar has no field for, but the form keeps.
type keep struct{ Name, Value string }

// Keep lists what a change of the bar must not lose.
func (sh shell) Keep() []keep {
	fields := map[string]bool{}
	for _, f := range sh.Bar {
		fields[f.Key] = true
	}
	r := sh.Request
	var kept []keep
	for _, k := range []keep{
		{"environment", r.Environment}, {"tool", r.Tool}, {"version", r.Version}, {"mode", string(r.Mode)}, {"split", string(r.Split)},
	} {
		if k.Value != "" && !fields[k.Name] {
			kept = append(kept, k)
		}
	}
	for _, name := range sh.keeps {
		if value := r.Query(name); value != "" {
			kept = append(kept, keep{name, value})
		}
	}
	return kept
}

// Link is a page of the navigation under the run and the split that are looked at.
func (sh shell) Link(path string) string {
	f := filter{Run: sh.Request.Run, Version: sh.Request.Version, Mode: sh.Request.Mode, Split: sh.Request.Split}
	return f.URL(path)
}
