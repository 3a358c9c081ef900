package mount

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"understudy/audit"
)

// Set opens the environments of a file once each, and shares them. It is an
// audit.Opener and safe for concurrent use.
type Set struct {
	file   *File
	lookup Lookup

	mu   sync.Mutex
	open map[string]*mounted
}

// mounted is an environment that is open, or on its way.
type mounted struct {
	mu  sync.Mutex // held while it is opened: others wait for it alone
	env audit.Environment
}

var _ audit.Opener = (*Set)(nil)

// NewSet makes a set; lookup finds the variables of the file.
func NewSet(file *File, lookup Lookup) *Set {
	return &Set{file: file, lookup: lookup, open: map[string]*mounted{}}
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
	s.mu.Lock()
	m := s.open[name]
	if m == nil {
		m = &mounted{}
		s.open[name] = m
	}
	s.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.env != nil {
		return m.env, nil
	}
	var err error
	m.env, err = s.file.Open(ctx, name, s.lookup)
	return m.env, err
}

// Close closes every environment that was opened.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, m := range s.open {
		m.mu.Lock()
		if m.env != nil {
			errs = append(errs, m.env.Close())
		}
		m.env = nil
		m.mu.Unlock()
	}
	return errors.Join(errs...)
}
