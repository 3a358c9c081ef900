package web

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"understudy/audit"
	"understudy/web/access"
)

// Behind puts a handler that knows nobody behind the service's door: whoever the Guard
// says has the role may use it, as fast as it allows and not from another site. Without
// a Guard it is this machine's alone. Of cfg Guard, Logger and BodyTime are used.
func Behind(cfg Config, role audit.Role, next http.Handler) http.Handler {
	engine := cfg.engine()
	if cfg.Guard == nil {
		engine.Use(access.ThisMachine(cfg.fail))
	} else {
		engine.Use(cfg.Guard.Identify(cfg.fail), cfg.Guard.Limit(cfg.fail), access.Require(role, cfg.fail))
	}
	engine.Any("/*path", access.SameOrigin(cfg.fail), gin.WrapH(next))
	return engine
}
