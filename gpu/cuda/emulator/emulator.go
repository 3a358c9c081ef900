// Package emulator makes a stand-in for the CUDA driver, for tests on machines without a
// GPU: g++ compiles the kernels' own sources over standin/shim.h, together with standin/*.cpp, into a
// library that exports the driver's entry points. Only tests import it.
//
//	kernels/*.cu ──► g++ + shim.h ──► libcuda.so.1 ◄── the same Go launch code
//	             └─► clang-19 ──► *.ptx ── embedded, read by the stand-in for the kernels' names
//
// What it shows and what it cannot is said in standin/shim.h.
package emulator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Supported says whether this system can have a stand-in.
func Supported() bool { return runtime.GOOS == "linux" }

// Library is a kind of stand-in.
type Library int

const (
	// Ascending gives the blocks of a grid, and the threads of a block, their turns from the first to the last.
	Ascending Library = iota
	// Descending gives them from the last to the first: a missing barrier, or a block that reads what another
	// writes, which one order hides, the other shows.
	Descending
	// Checked watches each access for races, bounds and alignment; some ten times slower.
	Checked
)

func (l Library) String() string { return [...]string{"ascending", "descending", "checked"}[l] }

// flags are g++'s: as clang does for the GPU, no product and sum are contracted; variables that are
// not initialised hold 0xfe bytes; a misaligned vector is told of.
func (l Library) flags() []string {
	list := []string{
		"-std=c++17", "-O2", "-march=native", "-ffp-contract=off", "-fPIC", "-fno-gnu-unique", "-fvisibility-inlines-hidden",
		"-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-ignored-attributes",
	}
	if l == Checked {
		list = append(list, "-DEMULATOR_CHECKED")
	}
	return list
}

func (l Library) kernelFlags() []string {
	list := append(l.flags(), "-DUNDERSTUDY_EMULATOR", "-ftrivial-auto-var-init=pattern", "-fsanitize=alignment")
	if l == Checked {
		list = append(list, "-fsanitize=thread,bounds,shift", "--param=tsan-instrument-func-entry-exit=0")
	}
	return list
}

// Build compiles the stand-in with the kernels of this repository, unless that was done before, and gives a
// folder with libcuda.so.1, libcublasLt.so.13 and libnvrtc.so.13. Outcomes are kept in the user's cache folder, by
// content.
func Build(ctx context.Context, l Library) (folder string, err error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	kernels, err := filepath.Glob(filepath.Join(root, "kernels", "*.cu"))
	if err != nil {
		return "", fmt.Errorf("find the kernels: %w", err)
	}
	return BuildKernels(ctx, l, kernels)
}

// BuildKernels is Build with other kernels, such as ones with planted faults.
func BuildKernels(ctx context.Context, l Library, kernels []string) (folder string, err error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	b := builder{root: root, cache: filepath.Join(cache, "understudy", "emulator"), library: l}
	return b.build(ctx, kernels)
}

// sourceRoot is this repository's gpu/cuda, from a folder within the repository.
func sourceRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the kernels: %w", err)
	}
	for {
		at := filepath.Join(dir, "gpu", "cuda")
		if _, err := os.Stat(filepath.Join(at, "emulator", "standin", "shim.h")); err == nil {
			return at, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the kernels: the working directory is outside of the repository")
		}
		dir = parent
	}
}

type builder struct {
	root, cache string
	library     Library
	headers     []byte // what each object depends on besides its source
}

var compiling sync.Mutex //nolint:gochecknoglobals // tests of a process share the machine

func (b *builder) build(ctx context.Context, kernels []string) (string, error) {
	compiling.Lock()
	defer compiling.Unlock()
	if err := b.readHeaders(ctx); err != nil {
		return "", err
	}
	own, err := filepath.Glob(filepath.Join(b.root, "emulator", "standin", "*.cpp"))
	if err != nil {
		return "", fmt.Errorf("find the emulator: %w", err)
	}
	type unit struct {
		path   string
		flags  []string
		object string
	}
	var units []unit
	for _, path := range slices.Concat(kernels, own) {
		flags := b.library.flags()
		if filepath.Ext(path) == ".cu" {
			flags = b.library.kernelFlags()
		}
		units = append(units, unit{path: path, flags: flags})
	}
	var group sync.WaitGroup
	failed := make([]error, len(units))
	for i := range units {
		group.Go(func() { units[i].object, failed[i] = b.compile(ctx, units[i].path, units[i].flags) })
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return "", err
	}
	var objects []string
	for _, u := range units {
		objects = append(objects, u.object)
	}
	return b.link(ctx, objects)
}

// readHeaders reads what all objects depend on: the headers, the compiler and what
// -march=native means to it.
func (b *builder) readHeaders(ctx context.Context) error {
	for _, pattern := range []string{"kernels/*.h", "emulator/standin/*.h"} {
		paths, err := filepath.Glob(filepath.Join(b.root, filepath.FromSlash(pattern)))
		if err != nil {
			return fmt.Errorf("find the headers: %w", err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(filepath.Clean(path))
			if err != nil {
				return fmt.Errorf("read a header: %w", err)
			}
			b.headers = append(b.headers, text...)
		}
	}
	compiler := exec.CommandContext(ctx, "g++", "-march=native", "-E", "-v", "-x", "c++", os.DevNull)
	said, err := compiler.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("the CUDA emulator needs g++: install it (make deps): %w", err)
	}
	if err != nil {
		return fmt.Errorf("ask g++ for its version: %w: %s", err, said)
	}
	b.headers = append(b.headers, said...)
	return nil
}

// compile gives the object of a source.
func (b *builder) compile(ctx context.Context, path string, flags []string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("read a kernel: %w", err)
	}
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return "", fmt.Errorf("read a kernel: %w", err)
	}
	object := filepath.Join(b.cache, key(b.headers, text, []byte(strings.Join(flags, " ")))+".o")
	return object, once(object, func(to string) error {
		source := path
		if filepath.Ext(path) == ".cu" { // within a namespace all names are the file's own
			source = to + ".cpp"
			wrapped := fmt.Sprintf("#include %q\n#include %q\nnamespace {\n#include %q\n}\n",
				filepath.Join(b.root, "emulator", "standin", "shim.h"), filepath.Join(b.root, "kernels", "dev.h"), path)
			if err := os.WriteFile(source, []byte(wrapped), 0o600); err != nil {
				return fmt.Errorf("write %s: %w", source, err)
			}
			defer func() { _ = os.Remove(source) }()
			flags = append(flags, "-I", filepath.Join(b.root, "kernels"))
		}
		return run(ctx, "g++", append(flags, "-c", source, "-o", to)...)
	})
}

// link gives the folder of the library of these objects.
func (b *builder) link(ctx context.Context, objects []string) (string, error) {
	order := []byte("0")
	if b.library == Descending {
		order = []byte("1")
	}
	folder := filepath.Join(b.cache, key([]byte(strings.Join(objects, " ")), order, b.headers))
	return folder, once(folder, func(to string) error {
		if err := os.MkdirAll(to, 0o700); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		turn := filepath.Join(to, "order.cpp")
		if err := os.WriteFile(turn, fmt.Appendf(nil, "namespace emulator { extern const int first_order = %s; }\n", order), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", turn, err)
		}
		library := filepath.Join(to, "libcuda.so.1")
		args := append([]string{"-shared", "-fPIC", "-Wl,-Bsymbolic", "-o", library, turn}, objects...)
		if err := run(ctx, "g++", args...); err != nil {
			return err
		}
		return errors.Join(os.Symlink("libcuda.so.1", filepath.Join(to, "libcublasLt.so.13")), os.Symlink("libcuda.so.1", filepath.Join(to, "libnvrtc.so.13")))
	})
}

// once makes path by way of another name beside it, unless path is there: two processes may
// both make it, and each finds a whole one.
func once(path string, create func(to string) error) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make the cache of the emulator: %w", err)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(path), "making-")
	if err != nil {
		return fmt.Errorf("make the cache of the emulator: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	to := filepath.Join(scratch, filepath.Base(path))
	if err := create(to); err != nil {
		return err
	}
	if err := os.Rename(to, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keep what was made: %w", err)
	}
	return nil
}

func key(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:", len(p))
		_, _ = h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:24]
}

func run(ctx context.Context, name string, args ...string) error {
	var said bytes.Buffer
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // the compiler on our own sources
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, said.Bytes())
	}
	return nil
}
