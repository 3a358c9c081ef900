package grammar

import "errors"

// ErrUnsupported is returned (wrapped, with the place and the keyword) when a
// schema asks for what a generation cannot be held to.
var ErrUnsupported = errors.New("not supported in constrained decoding")

// ErrBudget is returned when a text cannot be completed within its limit.
var ErrBudget = errors.New("the limit is below the shortest text that the schema allows")
