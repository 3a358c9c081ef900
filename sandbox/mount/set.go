package mount

import (
	"context"
	"fmt"
	"strings"

	"understudy/audit"
	"understudy/sandbox/shared"
)

// Set opens the environments of a file once each, and shares them. It is an
// audit.Opener and safe for concurrent use.
type Set struct {
	file   *File
	lookup Lookup
	open   shared.Environments // by name
}

var _ audit.Opener = (*Set)(nil)

// NewSet makes a set; lookup finds the variables of the file.
func NewSet(file *File, lookup Lookup) *Set {
	return &Set{file: file, lookup: lookup}
}

// Has reports whether a reference names an environment of the file.
func (s *Set) Has(ref string) bool {
	name, _, _ := strings.Cut(ref, "@")
	_, ok := s.file.entries[name]
	return ok
}

// Names lists the environments in order.
func (s *Set) Names() []string { return s.file.Names() }

// Environment implements audit.Opener. A reference is the name, or name@version
// with the version that is declared. What failed to open is tried again.
func (s *Set) Environment(ctx context.Context, ref string) (audit.Environment, error) {
	name, version, versioned := strings.Cut(ref, "@")
	if declared := s.file.entries[name].Version; versioned && s.Has(name) && version != declared && (declared != "" || version != "1") {
		return nil, &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("environment %s is declared with version %q", name, declared),
			Hint: "write " + name + ", or declare the other version under another name",
		}
	}
	return s.open.Environment(ctx, name, func(ctx context.Context) (audit.Environment, error) { return s.file.Open(ctx, name, s.lookup) })
}

// Close closes every environment that was opened.
func (s *Set) Close() error { return s.open.Close() }
