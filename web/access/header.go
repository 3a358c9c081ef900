package access

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"understudy/audit"
)

// policy lets a page load our own files and nothing else: no inline script, no
// inline style, no frame. Rehearsed text is hostile input.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Headers sets what every answer says to a browser.
func Headers(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
}

// SameOrigin refuses requests that change something and that another site made
// a browser send (cross-site request forgery). Programs send none of the
// headers it looks at.
func SameOrigin(fail func(*gin.Context, error)) gin.HandlerFunc {
	protection := http.NewCrossOriginProtection()
	return func(c *gin.Context) {
		if err := protection.Check(c.Request); err != nil {
			fail(c, &audit.Error{
				Code: audit.CodeForbidden, Message: "the request came from another site", Err: err,
				Hint: "open the dashboard itself, and try again there",
			})
		}
	}
}
