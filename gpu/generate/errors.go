package generate

import "errors"

var (
	// ErrInvalid is returned for a request that no engine could serve.
	ErrInvalid = errors.New("invalid request")
	// ErrBudget is returned when a request needs more KV pages than there are, or
	// more tokens than a grammar's shortest text is allowed.
	ErrBudget = errors.New("does not fit its budget")
	// ErrContext is returned when prompt and new tokens exceed the context length.
	ErrContext = errors.New("exceeds the context length")
	// ErrNotFinite is returned when a model gives logits that are no numbers.
	ErrNotFinite = errors.New("logits are not finite")
	// ErrClosed is returned when the engine has stopped.
	ErrClosed = errors.New("the engine is closed")
	// ErrBusy is returned by Flush while requests run.
	ErrBusy = errors.New("requests are running")
)
