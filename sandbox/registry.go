package sandbox

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/sandbox/shared"
	"understudy/sandbox/starlark"
)

// Registry opens environments by reference:
//
//	retail                  version 1 of the built-in domain
//	retail@2                another version
//	retail@1+tau2           with tau2-bench's behaviour
//
// An environment is made once and shared. A Registry is safe for concurrent use.
type Registry struct {
	domains fs.FS
	foreign bool
	open    shared.Environments // by reference
}

var _ audit.Opener = (*Registry)(nil)

// New makes a registry of the domains that are folders of fsys and came with this
// program: they run in its process.
func New(fsys fs.FS) *Registry {
	return &Registry{domains: fsys}
}

// NewForeign is New for domains that somebody else wrote: each runs in a child
// process. The program's main calls starlark.ChildMain first.
func NewForeign(fsys fs.FS) *Registry {
	r := New(fsys)
	r.foreign = true
	return r
}

// Names lists the domains in order.
func (r *Registry) Names() ([]string, error) {
	files, err := fs.Glob(r.domains, "*/domain.yaml")
	if err != nil {
		return nil, fmt.Errorf("list domains: %w", err)
	}
	for i, f := range files {
		files[i] = path.Dir(f)
	}
	slices.Sort(files)
	return files, nil
}

// Environment implements audit.Opener. While one domain loads, others are not waited for.
func (r *Registry) Environment(ctx context.Context, ref string) (audit.Environment, error) {
	return r.open.Environment(ctx, ref, func(ctx context.Context) (audit.Environment, error) { return r.start(ctx, ref) })
}

// start loads the domain of a reference and runs it here or in a child.
func (r *Registry) start(ctx context.Context, ref string) (audit.Environment, error) {
	name, opts, err := ParseRef(ref)
	if err != nil {
		return nil, err
	}
	names, err := r.Names()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, name) {
		return nil, &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("no environment %q", name),
			Hint: "the environments are " + strings.Join(nearestFirst(names, name), ", "),
		}
	}
	if r.foreign {
		return starlark.NewChildEnvironment(ctx, r.domains, name, starlark.ChildOptions{Options: opts})
	}
	d, err := starlark.Load(r.domains, name, opts)
	if err != nil {
		return nil, err
	}
	return starlark.NewEnvironment(d), nil
}

// ParseRef splits "name[@version[+compat]]".
func ParseRef(ref string) (name string, opts starlark.Options, err error) {
	name, label, versioned := strings.Cut(ref, "@")
	if !versioned {
		return name, opts, nil
	}
	version, compat, _ := strings.Cut(label, "+")
	opts.Compat = compat
	if opts.Version, err = strconv.Atoi(version); err != nil || opts.Version < 1 {
		return name, opts, &audit.Error{
			Code: audit.CodeInvalid, Message: fmt.Sprintf("environment %q: version %q", ref, version),
			Hint: "write name@1, name@2 or name@1+tau2",
		}
	}
	return name, opts, nil
}

// nearestFirst orders names by how many of their first letters agree with name.
func nearestFirst(names []string, name string) []string {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return common(b, name) - common(a, name) })
	return names
}

func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// Close closes every environment that was opened.
func (r *Registry) Close() error { return r.open.Close() }
