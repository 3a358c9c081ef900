package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web/access"
)

// readyTimeout is how long a readiness question may take: shorter than the
// period of usual probes.
const readyTimeout = 2 * time.Second

// mountOperation serves what operators look at: metrics for readers, profiles
// for admins. Health and readiness are asked without a token.
func (cfg Config) mountOperation(engine *gin.Engine) {
	if cfg.Metrics != nil {
		engine.GET("/metrics", access.Require(audit.ReaderRole, cfg.fail), gin.WrapH(cfg.Metrics.Handler()))
	}
	profiles := engine.Group("/debug/pprof", access.SameOrigin(cfg.fail), access.Require(audit.AdminRole, cfg.fail))
	profiles.GET("/", gin.WrapF(pprof.Index))
	profiles.GET("/:profile", func(c *gin.Context) {
		switch name := c.Param("profile"); name {
		case "cmdline": // it may hold a database URL
			cfg.fail(c, &audit.Error{Code: audit.CodeNotFound, Message: "the command line is not shown", Hint: "look at the configuration on the settings page"})
		case "profile":
			pprof.Profile(c.Writer, c.Request)
		case "symbol":
			pprof.Symbol(c.Writer, c.Request)
		case "trace":
			pprof.Trace(c.Writer, c.Request)
		default:
			pprof.Handler(name).ServeHTTP(c.Writer, c.Request)
		}
	})
}

// scorer is the calibration hook, counted.
func (cfg Config) scorer() audit.Scorer {
	if cfg.Scorer == nil {
		return nil
	}
	return cfg.Metrics.Scorer(cfg.Scorer)
}

// panicked logs a handler's panic, and answers as for any fault of ours.
func (cfg Config) panicked(c *gin.Context, cause any) {
	cfg.Logger.ErrorContext(context.WithoutCancel(c.Request.Context()), "request panicked",
		slog.String("path", c.FullPath()), slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
	c.AbortWithStatusJSON(http.StatusInternalServerError, audit.ReportError(&audit.Error{Code: audit.CodeInternal, Message: "internal error"}))
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
