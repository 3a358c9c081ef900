// Package web is the service's face: JSON for machines, pages for people. It
// reads through interfaces of audit and knows no store, queue or environment.
package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/web/access"
	"understudy/web/dashboard"
	"understudy/web/metric"
	"understudy/web/tracing"
)

// Config is what the handlers need.
type Config struct {
	Version string
	Ready   func(ctx context.Context) error // nil while requests can be served
	Figures audit.FigureSource              // what gates decide on
	Gates   Gates
	Decided func(ctx context.Context, v *gate.Verdict) // told of each decision; nil: nobody is
	Logger  *slog.Logger
	// Scorer is the calibration hook; nil: it is not served.
	Scorer audit.Scorer
	// Environments runs tools for NeMo Gym's agents; nil: its server is not served.
	Environments audit.Opener
	Alarms       Alarms    // nil: none are listed
	Trainings    Trainings // nil: nobody can write metrics
	// Guard says who may do what; nil lets everybody do everything, for tests.
	Guard *access.Guard
	// Store is what the dashboard shows; nil serves the API alone.
	Store dashboard.Store
	// Model is OpenAI's API over a model that is here, for auditors; nil: it is not
	// served.
	Model http.Handler
	// Metrics counts what is done and shows it to readers at /metrics; nil: it is not
	// served.
	Metrics *metric.Set
	// Tracer makes a span of each request; nil: none.
	Tracer *tracing.Tracer
	// BodyTime is how long a body may stop coming; 0 = access.BodyTime.
	BodyTime time.Duration
	// Closing is closed when the service begins to stop; nil = never.
	Closing <-chan struct{}
}

// New returns the handler of everything that is served. It panics when the
// pages that are built in cannot be read.
func New(cfg Config) http.Handler {
	if cfg.Guard == nil {
		cfg.Guard = &access.Guard{}
	}
	engine := cfg.engine()
	engine.GET("/healthz", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) })
	engine.GET("/version", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"version": cfg.Version}) })
	engine.GET("/readyz", cfg.readyz)
	cfg.Scorer = cfg.scorer()
	engine.Use(cfg.noEndpoint, cfg.Guard.Identify(cfg.fail), cfg.Guard.Limit(cfg.fail))
	read, write := cfg.api(engine)
	write.POST("/gates", cfg.postGate)
	read.GET("/gates", cfg.getGates)
	read.GET("/gate", cfg.getGate)
	cfg.mountOperation(engine)
	cfg.mountScores(read, write)
	cfg.mountTrainings(write)
	cfg.mountGym(engine)
	if cfg.Model != nil {
		write.POST("/chat/completions", gin.WrapH(cfg.Model))
		write.POST("/completions", gin.WrapH(cfg.Model))
		read.GET("/models", gin.WrapH(cfg.Model))
		read.GET("/models/:name", gin.WrapH(cfg.Model))
	}
	if cfg.Store != nil {
		err := dashboard.Mount(engine, dashboard.Config{
			Version: cfg.Version, Store: cfg.Store, Guard: cfg.Guard, Status: statusOf, Logger: cfg.Logger, Closing: cfg.Closing,
			Viewer: cfg.Metrics.Viewer,
		})
		if err != nil {
			panic(err)
		}
	}
	return engine
}

// engine has what comes before any handler.
func (cfg Config) engine() *gin.Engine {
	gin.SetMode(gin.ReleaseMode) // its debug mode prints to stdout
	engine := gin.New()
	engine.Use(cfg.Metrics.Requests, cfg.Tracer.Requests, gin.CustomRecoveryWithWriter(nil, cfg.panicked), // a panic is an answer that they see
		access.Body(audit.MaxScoreBytes, cmp.Or(cfg.BodyTime, access.BodyTime), cfg.fail))
	return engine
}

// api is the JSON API under /v1: what readers may ask, and what auditors may do.
func (cfg Config) api(engine *gin.Engine) (read, write *gin.RouterGroup) {
	v1 := engine.Group("/v1", access.SameOrigin(cfg.fail))
	return v1.Group("", access.Require(audit.ReaderRole, cfg.fail)), v1.Group("", access.Require(audit.AuditorRole, cfg.fail))
}

// noEndpoint answers programs that ask for what the API does not have in JSON: the
// dashboard would send them a page.
func (cfg Config) noEndpoint(c *gin.Context) {
	path := c.Request.URL.Path
	if c.FullPath() != "" || !strings.HasPrefix(path, "/v1/") {
		return
	}
	hint := "GET /v1/openapi.json lists the endpoints"
	if cfg.Model == nil && (path == "/v1/models" || strings.HasSuffix(path, "/completions")) {
		hint = "start it with a model: understudy serve --model DIR"
	}
	cfg.fail(c, &audit.Error{Code: audit.CodeNotFound, Message: "there is no endpoint " + c.Request.Method + " " + path, Hint: hint})
}
