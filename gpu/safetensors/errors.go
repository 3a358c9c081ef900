package safetensors

import (
	"errors"
	"fmt"
)

// ErrNotFound is returned, wrapped, when a folder holds no weights or a file has no
// tensor of the name that was asked for.
var ErrNotFound = errors.New("not found")

// FormatError says that a file breaks the format.
type FormatError struct {
	File   string // the file's path
	Tensor string // the tensor's name; empty when the whole file is wrong
	Reason string // what is wrong
}

// Error names the file and the tensor.
func (e *FormatError) Error() string {
	if e.Tensor == "" {
		return fmt.Sprintf("%s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s: tensor %q: %s", e.File, shorten(e.Tensor), e.Reason)
}

// shorten keeps hostile names from filling a log.
func shorten(name string) string {
	const most = 200
	if len(name) <= most {
		return name
	}
	return name[:most] + "..."
}
