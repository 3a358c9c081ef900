package starlark

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"sync"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// CompatTau2 is the compat mode that reproduces tau2-bench's behaviour.
const CompatTau2 = "tau2"

// Options choose one behaviour of a domain. The zero value is version 1, native.
type Options struct {
	Version int    // 0 = 1
	Compat  string // "" or CompatTau2
	Limits  Limits
}

// Domain is one version of a domain in one compat mode: compiled, immutable and
// safe for concurrent use.
type Domain struct {
	Manifest Manifest
	Version  int
	Compat   string
	Policy   string
	Digest   audit.Digest // of the files, the version and the compat mode

	limits     Limits
	tools      []*toolDef
	byName     map[string]*toolDef
	checks     map[string]starlark.Callable
	invariants []starlark.Callable
	after      []starlark.Callable
	generate   starlark.Callable // state(rng, size=None)
	makeTasks  starlark.Callable // tasks(db, rng, n)
	// makePossible is possible(rng, seen, n).
	makePossible starlark.Callable
	schema       *schema
	stateFile    []byte // state.json: the state of a domain without a generator
	tasksFile    []byte // tasks.json: its tasks

	runs   sync.Pool // of *run that are idle
	worlds onceMap[uint64, *state.Object]
	tasks  onceMap[taskList, []task]
}

// Load reads and compiles the domain in folder dir of fsys. A mistake in its
// files is an *audit.Error that names file, line and column.
func Load(fsys fs.FS, dir string, opts Options) (*Domain, error) {
	m, manifest, err := readManifest(fsys, dir)
	if err != nil {
		return nil, err
	}
	sources, err := readSources(fsys, dir, m, opts.Compat)
	if err != nil {
		return nil, err
	}
	policy, err := readOptional(fsys, path.Join(dir, "policy.md"))
	if err != nil {
		return nil, fmt.Errorf("read policy of %s: %w", m.Name, err)
	}
	d := &Domain{
		Manifest: m, Version: max(opts.Version, 1), Compat: opts.Compat, Policy: string(policy),
		limits: opts.Limits.withDefaults(), byName: map[string]*toolDef{}, checks: map[string]starlark.Callable{},
	}
	if err := d.accept(opts); err != nil {
		return nil, err
	}
	if d.stateFile, err = readOptional(fsys, path.Join(dir, "state.json")); err != nil {
		return nil, fmt.Errorf("read the state of %s: %w", m.Name, err)
	}
	if d.tasksFile, err = readOptional(fsys, path.Join(dir, "tasks.json")); err != nil {
		return nil, fmt.Errorf("read the tasks of %s: %w", m.Name, err)
	}
	if d.schema, err = readSchema(fsys, dir, m); err != nil {
		return nil, err
	}
	d.Digest = d.digest(manifest, policy, sources)
	if err := d.compile(sources); err != nil {
		return nil, err
	}
	return d, nil
}

// accept refuses a version or compat mode that the domain does not have.
func (d *Domain) accept(opts Options) error {
	if label := strconv.Itoa(d.Version); !slices.Contains(d.Manifest.Labels(), label) {
		return &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("domain %s has no version %s", d.Manifest.Name, label),
			Hint: fmt.Sprintf("its versions are %v", d.Manifest.Labels()),
		}
	}
	if opts.Compat != "" && opts.Compat != CompatTau2 {
		return &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("unknown compat mode %q", opts.Compat),
			Hint: "the one compat mode is " + CompatTau2,
		}
	}
	return nil
}

func (d *Domain) digest(manifest, policy []byte, sources []source) audit.Digest {
	h := sha256.New()
	add := func(name string, text []byte) { fmt.Fprintf(h, "%d:%s%d:%s", len(name), name, len(text), text) }
	add("version", strconv.AppendInt(nil, int64(d.Version), 10))
	add("compat", []byte(d.Compat))
	add("domain.yaml", manifest)
	add("policy.md", policy)
	add("state.json", d.stateFile)
	add("tasks.json", d.tasksFile)
	for _, s := range sources {
		add(s.name, s.text)
	}
	if d.schema != nil {
		add(d.Manifest.StateSchema, d.schema.text)
	}
	return audit.Digest(h.Sum(nil))
}

// Label is the domain's version as people write it: "1" or "1+tau2".
func (d *Domain) Label() string {
	label := strconv.Itoa(d.Version)
	if d.Compat != "" {
		label += "+" + d.Compat
	}
	return label
}

// Tools lists the declared tools in the order of declaration.
func (d *Domain) Tools() []audit.Tool {
	tools := make([]audit.Tool, 0, len(d.tools))
	for _, t := range d.tools {
		if t.Role != roleSetup {
			tools = append(tools, t.Tool)
		}
	}
	return tools
}

// maxRemembered bounds what a onceMap keeps: its keys come from whoever asks.
const maxRemembered = 32

// onceMap computes each key's value once, and again when too many others were
// asked for since; an error is not kept.
type onceMap[K comparable, V any] struct {
	mu   sync.Mutex
	vals map[K]V
}

func (m *onceMap[K, V]) get(key K, compute func() (V, error)) (V, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.vals[key]; ok {
		return v, nil
	}
	v, err := compute()
	if err == nil {
		if m.vals == nil || len(m.vals) >= maxRemembered {
			m.vals = map[K]V{}
		}
		m.vals[key] = v
	}
	return v, err
}
