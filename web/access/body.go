package access

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
)

// maxForm is far above any form of the dashboard, and formTime above the time
// that a slow line takes to send it.
const (
	maxForm  = 64 << 10
	formTime = 20 * time.Second
)

// Body bounds what may be read of a request, in bytes. What announces more is
// refused before a byte is read.
func Body(limit int64, fail func(*gin.Context, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.Request.ContentLength > limit {
			fail(c, tooLarge(limit, nil))
			return
		}
		c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, limit)
	}
}

// Form reads a form before its handler runs, within its bounds of size and time:
// visitors who have not signed in send forms, too.
func Form(fail func(*gin.Context, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.Request.Method != http.MethodPost {
			return
		}
		if c.Request.ContentLength > maxForm {
			fail(c, tooLarge(maxForm, nil))
			return
		}
		control := http.NewResponseController(c.Writer)
		_ = control.SetReadDeadline(time.Now().Add(formTime)) // of a connection; there is none in tests
		c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxForm)
		err := c.Request.ParseForm()
		_ = control.SetReadDeadline(time.Time{})
		if _, over := errors.AsType[*http.MaxBytesError](err); over {
			fail(c, tooLarge(maxForm, err))
		} else if err != nil {
			fail(c, &audit.Error{Code: audit.CodeInvalid, Message: "the form cannot be read", Hint: "send it again from the page", Err: err})
		}
	}
}

func tooLarge(limit int64, err error) error {
	return &audit.Error{Code: audit.CodeLimit, Message: fmt.Sprintf("the request is over %d KiB", limit>>10), Hint: "send less at once", Err: err}
}
