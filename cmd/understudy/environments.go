package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"understudy/audit"
	"understudy/sandbox"
	"understudy/sandbox/domains"
)

// environments opens every environment that this program knows:
//
//	retail, retail@2, retail@1+tau2   domains that ship with the program
//	tau2:retail                       imported ones: SOURCE:NAME is the folder
//	                                  environments/SOURCE/NAME of the data folder
//
// It is safe for concurrent use.
type environments struct {
	dir string // environments of the data folder

	mu      sync.Mutex
	sources map[string]*sandbox.Registry // "" = shipped
}

var _ audit.Opener = (*environments)(nil)

func newEnvironments(cfg Config) *environments {
	return &environments{
		dir:     environmentsDir(cfg),
		sources: map[string]*sandbox.Registry{"": sandbox.New(domains.FS())},
	}
}

// tau2Source is where `understudy sandbox import tau2` puts what it imports.
const tau2Source = "tau2"

// environmentsDir is where imported environments live, one folder a source.
func environmentsDir(cfg Config) string { return filepath.Join(cfg.DataDir, "environments") }

// Environment implements audit.Opener.
func (e *environments) Environment(ctx context.Context, ref string) (audit.Environment, error) {
	source, name, imported := strings.Cut(ref, ":")
	if !imported {
		source, name = "", ref
	}
	registry, err := e.source(source)
	if err != nil {
		return nil, err
	}
	if source == tau2Source && !strings.Contains(name, "@") {
		name += "@1+" + tau2Source // what was imported from there behaves as there
	}
	return registry.Environment(ctx, name)
}

func (e *environments) source(name string) (*sandbox.Registry, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.sources[name]; r != nil {
		return r, nil
	}
	folder := filepath.Join(e.dir, filepath.Base(name)) // Base: a name is no path
	if _, err := os.Stat(folder); err != nil {
		hint := "mount it first; shipped environments have no prefix"
		if errors.Is(err, fs.ErrNotExist) && name == tau2Source {
			hint = "import it first: understudy sandbox import tau2 --data DIR"
		}
		return nil, &audit.Error{Code: audit.CodeNotFound, Message: "no environments of source " + name + " in " + e.dir, Hint: hint}
	}
	r := sandbox.NewForeign(os.DirFS(folder))
	if name == tau2Source { // our own domains with imported data
		r = sandbox.New(os.DirFS(folder))
	}
	e.sources[name] = r
	return r, nil
}

// Close closes every environment that was opened.
func (e *environments) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, r := range e.sources {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
