package web

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web/access"
)

// statusOf is the one table from errors to HTTP statuses.
func statusOf(code audit.Code) int {
	switch code {
	case audit.CodeInvalid:
		return http.StatusBadRequest
	case audit.CodeNotFound:
		return http.StatusNotFound
	case audit.CodeConflict:
		return http.StatusConflict
	case audit.CodeUnauthorized:
		return http.StatusUnauthorized
	case audit.CodeForbidden:
		return http.StatusForbidden
	case audit.CodeLimit:
		return http.StatusRequestEntityTooLarge
	case audit.CodeUnprocessable:
		return http.StatusUnprocessableEntity
	case audit.CodeBusy:
		return http.StatusTooManyRequests
	case audit.CodeInfrastructure:
		return http.StatusServiceUnavailable
	case audit.CodeInternal:
	}
	return http.StatusInternalServerError
}

// fail answers with an error. What is our own fault is logged and not shown.
func (cfg Config) fail(c *gin.Context, err error) {
	report := audit.ReportError(err)
	status := statusOf(report.Error.Code)
	if status >= http.StatusInternalServerError {
		cfg.logOwn(c, err)
		report.Error.Message = http.StatusText(status)
	}
	if status == http.StatusTooManyRequests {
		c.Header("Retry-After", "1")
	}
	access.RetryAfter(c, err)
	c.AbortWithStatusJSON(status, report)
}

// logOwn logs an error that is not the caller's.
func (cfg Config) logOwn(c *gin.Context, err error) {
	if statusOf(audit.ErrorCode(err)) < http.StatusInternalServerError {
		return
	}
	cfg.Logger.ErrorContext(context.WithoutCancel(c.Request.Context()), "request failed",
		slog.String("path", c.FullPath()), slog.Any("error", err))
}
