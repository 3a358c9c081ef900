package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/sandbox"
	"understudy/sandbox/domains"
	"understudy/sandbox/mount"
)

// environments opens every environment that this program knows:
//
//	retail, retail@2, retail@1+tau2   domains that ship with the program
//	tau2:retail                       imported ones: SOURCE:NAME is the folder
//	                                  environments/SOURCE/NAME of the data folder
//	shop                              what the file of --environments declares
//
// It is safe for concurrent use.
type environments struct {
	dir    string                                      // environments of the data folder
	mounts func() (*mount.Set, error)                  // read when first needed; nil = no file
	tested func(context.Context, audit.Contract) error // keeps the contract of what is mounted; nil = not tested on connect
	known  func(context.Context, string) (audit.Contract, error)
	marked *ledger.MarkedRules // what people marked as noise; nil = nobody could
	// patiently asks the ledger until it answers: that it is away says nothing of an environment.
	patiently func(ctx context.Context, ask func() error) error

	mu      sync.Mutex
	sources map[string]*sandbox.Registry // "" = shipped
	trying  map[string]*sync.Mutex       // one contract test at a time for each name
}

var _ audit.Opener = (*environments)(nil)

func newEnvironments(cfg Config) *environments {
	return &environments{
		dir:     environmentsDir(cfg),
		mounts:  sync.OnceValues(func() (*mount.Set, error) { return loadMounts(cfg.Environments) }),
		sources: map[string]*sandbox.Registry{"": sandbox.New(domains.FS())},
		trying:  map[string]*sync.Mutex{},
	}
}

// defaultMounts is read where there is one and no other file is named.
const defaultMounts = "environments.yaml"

// loadMounts reads the file of environments; nil where there is none.
func loadMounts(path string) (*mount.Set, error) {
	if path == "" {
		if _, err := os.Stat(defaultMounts); err != nil {
			return nil, nil //nolint:nilnil,nilerr // nothing is declared, and nothing need be
		}
		path = defaultMounts
	}
	file, err := mount.Load(path)
	if err != nil {
		return nil, err
	}
	return mount.NewSet(file, os.LookupEnv), nil
}

// tau2Source is where `understudy sandbox import tau2` puts what it imports.
const tau2Source = "tau2"

// environmentsDir is where imported environments live, one folder a source.
func environmentsDir(cfg Config) string { return filepath.Join(cfg.DataDir, "environments") }

// Environment implements audit.Opener.
func (e *environments) Environment(ctx context.Context, ref string) (audit.Environment, error) {
	if e.marked != nil {
		if err := e.patiently(ctx, func() error { return e.marked.Follow(ctx) }); err != nil {
			return nil, err
		}
	}
	set, err := e.mounts()
	if err != nil {
		return nil, err
	}
	if set != nil && set.Has(ref) {
		return e.mounted(ctx, set, ref)
	}
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
	env, err := registry.Environment(ctx, name)
	if set != nil && !imported && audit.ErrorCode(err) == audit.CodeNotFound {
		return nil, &audit.Error{
			Code: audit.CodeNotFound, Message: err.Error(),
			Hint: audit.ErrorHint(err) + "; " + strings.Join(set.Names(), ", ") + " are declared",
		}
	}
	return env, err
}

// mounted opens what a file declares. Where contracts are kept, one that was not
// tested yet is tested now: it is the first thing that can go wrong.
func (e *environments) mounted(ctx context.Context, set *mount.Set, ref string) (audit.Environment, error) {
	env, err := set.Environment(ctx, ref)
	if err != nil || e.tested == nil {
		return env, err
	}
	name, _, _ := strings.Cut(ref, "@")
	e.mu.Lock()
	one := e.trying[name]
	if one == nil {
		one = &sync.Mutex{}
		e.trying[name] = one
	}
	e.mu.Unlock()
	one.Lock()
	defer one.Unlock()
	if last, err := e.known(ctx, name); err == nil && last.Environment.Digest == env.Info().Digest {
		return env, nil
	} else if err != nil && audit.ErrorCode(err) != audit.CodeNotFound {
		return nil, err
	}
	report, err := sandbox.Contract(ctx, env)
	if err != nil {
		return nil, err
	}
	report.Ref = name
	return env, e.tested(ctx, audit.Contract(report))
}

// follow returns the rules that answers are judged by: those that were written, base,
// without what people marked as noise.
func (e *environments) follow(l *ledger.Ledger, base *audit.Rules) func(environment string) *audit.Rules {
	e.marked, e.patiently = l.MarkedRules(base), l.Patiently
	return e.marked.Of
}

// keepContracts has contracts tested on connect, and kept.
func (e *environments) keepContracts(l *ledger.Ledger, log *slog.Logger) {
	e.known = func(ctx context.Context, name string) (c audit.Contract, err error) {
		err = l.Patiently(ctx, func() error {
			c, err = l.Contract(ctx, name)
			return err
		})
		return c, err
	}
	e.tested = func(ctx context.Context, c audit.Contract) error {
		if err := l.Patiently(ctx, func() error { return l.SaveContract(ctx, c) }); err != nil {
			return err
		}
		if c.OK() {
			log.InfoContext(ctx, "environment keeps its contract", slog.String("environment", c.Ref), slog.Int("clauses", len(c.Findings)))
			return nil
		}
		for _, f := range c.Findings {
			if f.Verdict == audit.ClauseFail {
				log.WarnContext(ctx, "environment breaks its contract", slog.String("environment", c.Ref), slog.String("clause", f.Name), slog.String("seen", f.Seen))
			}
		}
		return nil
	}
}

func (e *environments) source(name string) (*sandbox.Registry, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.sources[name]; r != nil {
		return r, nil
	}
	folder := filepath.Join(e.dir, name)
	_, err := os.Stat(folder)
	if filepath.Base(name) != name || name == "." || name == ".." { // a name is no path
		err = fs.ErrInvalid
	}
	if err != nil {
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
	if set, err := e.mounts(); err == nil && set != nil {
		errs = append(errs, set.Close())
	}
	for _, r := range e.sources {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}
