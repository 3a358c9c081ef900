package audit

import (
	"fmt"
	"runtime/debug"
)

// panicError is a Go panic of an adapter, of an environment or of a rehearser: a
// defect that must cost what it touched, and never the process.
type panicError struct {
	who   string
	cause any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.who, e.cause) }

// contain runs f and turns its panic into an error that says who panicked.
func contain(who string, f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{who: who, cause: cause, stack: debug.Stack()}
		}
	}()
	return f()
}
