// Package dashboard is the service's face for people: pages by html/template,
// charts by package chart, one style sheet, one small script. Every page is a
// URL with its filters in it and works without the script, which adds live
// updates, keys and local times.
//
//	page.go      what a page is; each page is one file: page_tools.go holds its
//	             handler, its view and names its template templates/tools.html
//	filter.go    the filters in a URL
//	render.go    from a view to bytes
//	text.go      how numbers and texts are written
//
// A new page is a file with a function that returns a page, and a line in
// site.pages. It reads through the interfaces of store.go.
package dashboard

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web/access"
	"understudy/web/chart"
)

// Config is what the pages need.
type Config struct {
	Version string
	Store   Store
	Guard   *access.Guard
	Status  func(code audit.Code) int // the one table from errors to statuses
	Logger  *slog.Logger
	Viewer  func() (leave func()) // counts one live page; nil = nobody counts
	// Closing is closed when the service begins to stop, so that live streams
	// end; nil = never.
	Closing <-chan struct{}
}

// site is the dashboard at work.
type site struct {
	Config
	templates *templates
	charts    *chart.Set
	assets    *assets
	watches   watches // of runs with live pages
	nav       []page
}

// Mount adds every page to a router that identifies requests already.
func Mount(engine *gin.Engine, cfg Config) error {
	charts, err := chart.New()
	if err != nil {
		return err
	}
	files, err := newAssets()
	if err != nil {
		return err
	}
	s := &site{Config: cfg, charts: charts, assets: files}
	s.watches.read = s.liveState
	s.nav = s.pages()
	if s.templates, err = s.newTemplates(); err != nil {
		return err
	}
	engine.GET("/assets/:file", files.serve)
	group := engine.Group("/", access.Headers, access.SameOrigin(s.fail), access.Form(s.fail))
	group.GET("/sign-in", s.getSignIn)
	group.POST("/sign-in", s.postSignIn)
	group.POST("/sign-out", s.postSignOut)
	group.POST("/theme", s.postTheme)
	for _, p := range s.nav {
		role := p.role
		if role == "" {
			role = audit.ReaderRole
		}
		group.Match([]string{http.MethodGet, http.MethodHead}, p.path, access.Require(role, s.fail), func(c *gin.Context) { s.show(c, p) })
		for path, handle := range p.actions {
			group.POST(path, access.Require(audit.AuditorRole, s.fail), handle)
		}
		for path, handle := range p.parts {
			group.GET(path, access.Require(role, s.fail), handle)
		}
	}
	group.GET("/events", access.Require(audit.ReaderRole, s.fail), s.events)
	engine.NoRoute(access.Headers, func(c *gin.Context) {
		s.fail(c, &audit.Error{Code: audit.CodeNotFound, Message: "there is no page " + c.Request.URL.Path, Hint: "start from the overview"})
	})
	return nil
}

// show answers with one page.
func (s *site) show(c *gin.Context, p page) {
	r, err := s.newRequest(c, p)
	if err != nil {
		s.fail(c, err)
		return
	}
	view, err := p.view(c.Request.Context(), r)
	if err != nil {
		s.fail(c, err)
		return
	}
	s.render(c, http.StatusOK, p, r, view)
}

// request is what a page's handler is asked.
type request struct {
	filter
	Identity access.Identity
	Runs     []audit.RunHead // newest first, at most maxRunsListed
	Head     *audit.RunHead  // the run that the filter names; nil = there is none yet
	gin      *gin.Context
}

// Query is a parameter of the URL beyond the filters.
func (r *request) Query(name string) string { return r.gin.Query(name) }

// maxRunsListed is how many runs the selector offers.
const maxRunsListed = 200

// newRequest reads the filters and finds the run: the one that is named, or
// the newest that has a verdict.
func (s *site) newRequest(c *gin.Context, p page) (*request, error) {
	r := &request{filter: filterOf(c.Request.URL.Query()), Identity: access.Of(c), gin: c}
	if err := r.validate(); err != nil {
		return nil, err
	}
	runs, err := s.Store.RunHeads(c.Request.Context(), maxRunsListed)
	if err != nil {
		return nil, err
	}
	r.Runs = runs
	if r.Run == "" && !p.global {
		r.Run = newest(runs)
	}
	return r, s.findRun(c.Request.Context(), r)
}

func newest(runs []audit.RunHead) string {
	for _, run := range runs {
		if run.Pairs > run.Masked {
			return run.Name
		}
	}
	if len(runs) > 0 {
		return runs[0].Name
	}
	return ""
}

func (s *site) findRun(ctx context.Context, r *request) error {
	if r.Run == "" {
		return nil
	}
	for i := range r.Runs {
		if r.Runs[i].Name == r.Run {
			r.Head = &r.Runs[i]
			return nil
		}
	}
	head, err := s.Store.RunHead(ctx, r.Run)
	if err != nil {
		return err
	}
	r.Head = &head
	return nil
}
