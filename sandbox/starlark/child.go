package starlark

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"time"

	"understudy/audit"
)

// ChildOptions choose how a domain runs in a child process.
type ChildOptions struct {
	Options
	Memory int64         // bytes of the child's data; default 512 MiB
	Grace  time.Duration // beyond Limits.Wall until the child is killed; default 2 s
}

// maxDomain bounds what a domain's folder may hold.
const maxDomain = 64 << 20

// ChildEnvironment runs a domain that was not shipped with the binary in a child
// process: the re-executed binary under a memory limit, killed at the wall clock.
// When the child dies, the call that killed it is a fault without effect, and
// every session is rebuilt in a new child by replaying its calls.
type ChildEnvironment struct {
	opts  ChildOptions
	files map[string][]byte
	dir   string
	about loaded // by the first child; never written again

	mu         sync.Mutex // one request at a time; guards what follows
	child      *process
	generation int
	shares     map[string]*replica
	closed     bool
}

var (
	_ audit.Environment = (*ChildEnvironment)(nil)
	_ audit.Tasker      = (*ChildEnvironment)(nil)
)

// NewChildEnvironment starts a child with the domain in folder dir of fsys.
func NewChildEnvironment(ctx context.Context, fsys fs.FS, dir string, opts ChildOptions) (*ChildEnvironment, error) {
	opts.Limits = opts.Limits.withDefaults()
	if opts.Memory == 0 {
		opts.Memory = 512 << 20
	}
	if opts.Grace == 0 {
		opts.Grace = 2 * time.Second
	}
	files, err := readFolder(fsys, dir)
	if err != nil {
		return nil, err
	}
	e := &ChildEnvironment{opts: opts, files: files, dir: path.Base(dir), shares: map[string]*replica{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.revive(ctx); err != nil {
		return nil, err
	}
	return e, nil
}

// readFolder reads the files of a domain's folder.
func readFolder(fsys fs.FS, dir string) (map[string][]byte, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("read domain %q", dir), Err: err}
	}
	files := map[string][]byte{}
	total := 0
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		text, err := fs.ReadFile(fsys, path.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read domain %q: %w", dir, err)
		}
		if total += len(text); total > maxDomain {
			return nil, &audit.Error{Code: audit.CodeLimit, Message: fmt.Sprintf("domain %q holds more than %d bytes", dir, maxDomain)}
		}
		files[path.Join(path.Base(dir), entry.Name())] = text
	}
	return files, nil
}

// generateGrace is what loading a domain, generating its world and looking through
// all of it may take.
const generateGrace = 2 * generateWall

// revive starts a child if none runs.
func (e *ChildEnvironment) revive(ctx context.Context) error {
	if e.closed {
		return errClosedEnvironment
	}
	if e.child != nil {
		return nil
	}
	child, err := startProcess(e.opts.Memory)
	if err != nil {
		return err
	}
	req := request{Op: opLoad, Name: e.dir, Files: e.files, Options: &e.opts.Options}
	var about loaded
	if err := child.ask(ctx, generateGrace, req, &about); err != nil {
		child.close()
		return err
	}
	if e.generation == 0 { // the same files say the same again, and others read it by now
		e.about = about
	}
	e.child = child
	e.generation++
	return nil
}

var errClosedEnvironment = errors.New("the environment is closed")

// ask sends one request to a running child. A dead child is forgotten, so that the
// next request starts another.
func (e *ChildEnvironment) ask(ctx context.Context, wall time.Duration, req request, body any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sandbox child: %w", err)
	}
	if err := e.revive(ctx); err != nil {
		return err
	}
	err := e.child.ask(ctx, wall, req, body)
	if errors.Is(err, errChildDied) {
		e.child = nil
		if cause := ctx.Err(); cause != nil {
			return fmt.Errorf("sandbox child: %w", cause)
		}
	}
	return err
}

// callWall is how long a call may take before its child is killed.
func (e *ChildEnvironment) callWall() time.Duration { return e.opts.Limits.Wall + e.opts.Grace }

// Info implements audit.Environment.
func (e *ChildEnvironment) Info() audit.EnvironmentInfo { return e.about.Info }

// Tools implements audit.Environment.
func (e *ChildEnvironment) Tools(context.Context) ([]audit.Tool, error) { return e.about.Tools, nil }

// Tasks implements audit.Tasker.
func (e *ChildEnvironment) Tasks(ctx context.Context, seed uint64, n int) ([]audit.Task, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var tasks []audit.Task
	err := e.ask(ctx, generateGrace, request{Op: opTasks, Seed: seed, N: n}, &tasks)
	return tasks, err
}

// Open implements audit.Environment.
func (e *ChildEnvironment) Open(ctx context.Context, start audit.Start) (audit.Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.shares[start.Shared]; r != nil {
		r.users++
		return e.session(r), nil
	}
	r := &replica{start: start, users: 1}
	share := start.Shared
	r.start.Shared = ""
	if err := e.place(ctx, r); err != nil {
		return nil, err
	}
	if share != "" {
		r.share = share
		e.shares[share] = r
	}
	return e.session(r), nil
}

func (e *ChildEnvironment) session(r *replica) *ChildSession {
	return &ChildSession{env: e, replica: r, snapshots: map[audit.SnapshotID]snapshot{}}
}

// Close implements audit.Environment.
func (e *ChildEnvironment) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		if e.child != nil {
			e.child.close()
			e.child = nil
		}
	}
	return nil
}
