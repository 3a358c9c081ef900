package access

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"understudy/audit"
)

// maxForm is far above any form of the dashboard.
const maxForm = 64 << 10

// BodyTime is above the time that a slow line takes to send a form, or to go on
// with anything longer.
const BodyTime = 30 * time.Second

const bodyKey = "understudy.body"

// Body bounds what may be read of a request, in bytes, and how long it is waited
// for: in all, for whoever has no role yet; between two reads, for others. A body
// that stops coming would hold its connection for ever, also where no handler reads
// it, and keep the service from stopping. What announces more than the limit is
// refused before a byte is read.
func Body(limit int64, patience time.Duration, fail func(*gin.Context, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.Request.Body == nil || c.Request.Body == http.NoBody {
			return
		}
		b := &body{ReadCloser: http.MaxBytesReader(c.Writer, c.Request.Body, limit), control: http.NewResponseController(connection(c)), patience: patience}
		b.wait()
		c.Request.Body = b
		c.Set(bodyKey, b)
		if c.Request.ContentLength > limit {
			fail(c, tooLarge(limit, nil))
		}
	}
}

// connection is the writer below gin's own, which serves another request when this
// one has ended, while a reader of the body may still be about.
func connection(c *gin.Context) http.ResponseWriter {
	if w, ok := c.Writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		return w.Unwrap()
	}
	return c.Writer
}

// body is a request's body with a clock.
type body struct {
	io.ReadCloser
	control  *http.ResponseController
	patience time.Duration
	trusted  bool // whoever sends it has a role: each read begins the time anew
}

// wait gives the sender time from now on. There is no connection in some tests.
func (b *body) wait() { _ = b.control.SetReadDeadline(time.Now().Add(b.patience)) }

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.trusted {
		b.wait()
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) { // it is whole: an answer may take its time
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// trust begins the time of a body anew with each read.
func trust(c *gin.Context) {
	if b, ok := c.Value(bodyKey).(*body); ok {
		b.trusted = true
		b.wait()
	}
}

// Patient waits for the rest of a body as long as it takes: a sender that makes it
// meanwhile may think for minutes.
func Patient(c *gin.Context) {
	if b, ok := c.Value(bodyKey).(*body); ok {
		b.trusted = false
		_ = b.control.SetReadDeadline(time.Time{})
	}
}

// Form reads a form before its handler runs, within its bounds: visitors who have
// not signed in send forms, too.
func Form(fail func(*gin.Context, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.Request.Method != http.MethodPost {
			return
		}
		if c.Request.ContentLength > maxForm {
			fail(c, tooLarge(maxForm, nil))
			return
		}
		c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, maxForm)
		err := c.Request.ParseForm()
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
