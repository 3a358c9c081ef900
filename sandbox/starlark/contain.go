package starlark

import (
	"fmt"
	"runtime"
	"strings"
)

// panicError is a Go panic under domain code: a defect of the engine, which must
// cost a call and not the process. Its text names the place but has no stack: it
// becomes part of an answer, and two runs must give the same one.
type panicError struct {
	cause any
	place string // function of the engine
}

func (e *panicError) Error() string {
	return fmt.Sprintf("the engine panicked in %s: %v", e.place, e.cause)
}

// contain runs f and turns its panic into an error.
func contain(f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &panicError{cause: cause, place: panicPlace()}
		}
	}()
	return f()
}

// panicPlace is the function that panicked, seen from the deferred function that
// recovered: the first below the runtime's own frames.
func panicPlace() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	panicking := false
	for {
		frame, more := frames.Next()
		own := strings.HasPrefix(frame.Function, "runtime.")
		if panicking && !own {
			return frame.Function
		}
		panicking = panicking || frame.Function == "runtime.gopanic"
		if !more {
			return "an unknown place"
		}
	}
}
