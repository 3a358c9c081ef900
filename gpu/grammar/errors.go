package grammar

import "errors"

// ErrUnsupported is returned (wrapped, with the place and the keyword) when a
// schema asks for what a generation cannot be held to.
var ErrUnsupported = errors.New("not supported in constrained decoding")
