// Package web is the service's face: JSON for machines, pages for people. It
// reads through interfaces of audit and knows no store, queue or environment.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/audit/gate"
)

// readyTimeout is how long a readiness question may take: shorter than the
// period of usual probes.
const readyTimeout = 2 * time.Second

// Config is what the handlers need.
type Config struct {
	Version string
	Ready   func(ctx context.Context) error // nil while requests can be served
	Figures audit.FigureSource              // what gates decide on
	Gates   Gates
	Decided func(ctx context.Context, v *gate.Verdict) // told of each decision; nil: nobody is
	Logger  *slog.Logger
}

// New returns the handler of everything that is served.
func New(cfg Config) http.Handler {
	gin.SetMode(gin.ReleaseMode) // its debug mode prints to stdout
	engine := gin.New()
	engine.Use(gin.Recovery())
	engine.GET("/healthz", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) })
	engine.GET("/version", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"version": cfg.Version}) })
	engine.GET("/readyz", cfg.readyz)
	engine.POST("/v1/gates", cfg.postGate)
	engine.GET("/v1/gates", cfg.getGates)
	engine.GET("/v1/gate", cfg.getGate)
	return engine
}

func (cfg Config) readyz(c *gin.Context) {
	ctx, cancel := context.WithTimeout(c.Request.Context(), readyTimeout)
	defer cancel()
	if err := cfg.Ready(ctx); err != nil {
		cfg.Logger.WarnContext(ctx, "not ready", slog.Any("error", err))
		c.JSON(http.StatusServiceUnavailable, gin.H{"status": "not ready"})
		return
	}
	c.JSON(http.StatusOK, gin.H{"status": "ready"})
}
