package web

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"understudy/audit"
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

// errorBody is how every error of the API looks.
type errorBody struct {
	Error struct {
		Code    audit.Code `json:"code"`
		Message string     `json:"message"`
		Hint    string     `json:"hint,omitempty"`
	} `json:"error"`
}

// fail answers with an error. What is our own fault is logged and not shown.
func (cfg Config) fail(c *gin.Context, err error) {
	body := errorBody{}
	body.Error.Code, body.Error.Message, body.Error.Hint = audit.ErrorCode(err), err.Error(), audit.ErrorHint(err)
	if status := statusOf(body.Error.Code); status >= http.StatusInternalServerError {
		cfg.Logger.ErrorContext(context.WithoutCancel(c.Request.Context()), "request failed",
			slog.String("path", c.FullPath()), slog.Any("error", err))
		body.Error.Message = http.StatusText(status)
	}
	c.AbortWithStatusJSON(statusOf(body.Error.Code), body)
}
