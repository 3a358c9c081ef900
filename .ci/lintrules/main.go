// Command lintrules shows that .golangci.yml denies each import that the map
// (CONTRIBUTING.md) forbids: it plants one violation of each arrow in a throw-away
// module, lints that module once, and fails when one of them went unnoticed. A
// rule whose globs or package names have gone stale says nothing; this is how it
// is found out.
//
//	go run ./.ci/lintrules <golangci-lint>
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// rooms says what each package of the map may import of ours, itself and the
// small leaves apart, and of the four libraries that belong in one place.
func rooms() map[string][]string {
	return map[string][]string{
		"audit":        {diff, stat},
		diff:           {},
		stat:           {},
		atomicfile:     {},
		lockfile:       {},
		"audit/ledger": {"audit", diff, stat, "migrations", pgx},
		"audit/queue":  {"audit", diff, stat, nats},
		"audit/gate":   {"audit", diff, stat},
		"audit/trace":  {"audit", diff, stat},
		"sandbox":      {"audit", diff, stat},
		"envace":       {"audit", diff, stat, "gpu"},
		"gpu":          {},
		"gpu/cuda":     {"gpu", purego},
		"web":          {"audit", diff, stat, "audit/gate", gin},
		"migrations":   {pgx},
	}
}

const (
	diff       = "audit/diff"
	stat       = "audit/stat"
	atomicfile = "audit/atomicfile" // with lockfile, for everybody: they know the file system alone
	lockfile   = "audit/lockfile"
	pgx        = "github.com/jackc/pgx/v5"
	nats       = "github.com/nats-io/nats.go"
	gin        = "github.com/gin-gonic/gin"
	purego     = "github.com/ebitengine/purego"
)

// violation is one planted file.
type violation struct {
	file, imported string
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./.ci/lintrules <golangci-lint>")
		os.Exit(3)
	}
	planted, err := check(context.Background(), os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "lintrules:", err)
		os.Exit(1)
	}
	fmt.Printf("lintrules: all %d planted violations were found\n", planted)
}

func check(ctx context.Context, linter string) (int, error) {
	linter, err := filepath.Abs(linter)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(".golangci.yml")
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "lintrules-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	violations, err := plant(dir)
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(filepath.Join(dir, ".golangci.yml"), text, 0o600); err != nil {
		return 0, err
	}
	found, err := lint(ctx, linter, dir)
	if err != nil {
		return 0, err
	}
	return len(violations), missed(violations, found)
}

// plant writes one file for each forbidden import, and a stub of each package.
// The files lie under planted/, so that their imports of each other are no cycles.
func plant(dir string) ([]violation, error) {
	var all []violation
	imports := []string{"cmd/understudy", pgx, nats, gin, purego}
	for room := range rooms() {
		if room != atomicfile && room != lockfile {
			imports = append(imports, room)
		}
	}
	for room, allowed := range rooms() {
		for i, imported := range imports {
			if imported == room || slices.Contains(allowed, imported) {
				continue
			}
			if !strings.Contains(imported, ".") {
				imported = "understudy/" + imported
			}
			v := violation{imported: imported, file: fmt.Sprintf("planted/%s/violation%d.go", room, i)}
			source := fmt.Sprintf("package %s\n\nimport _ %q\n", filepath.Base(room), imported)
			if err := write(filepath.Join(dir, v.file), source); err != nil {
				return nil, err
			}
			all = append(all, v)
		}
	}
	return all, module(dir, imports)
}

// module writes go.mod and the stubs; the libraries' are modules of their own,
// replaced by folders, so that nothing is downloaded.
func module(dir string, imports []string) error {
	var mod strings.Builder
	mod.WriteString("module understudy\n\ngo 1.26.0\n")
	for _, imported := range imports {
		folder := imported
		if strings.Contains(imported, ".") {
			folder = filepath.Join(".stub", imported)
			version := "v1.0.0"
			if strings.HasSuffix(imported, "/v5") {
				version = "v5.0.0"
			}
			fmt.Fprintf(&mod, "\nrequire %s %s\n\nreplace %s => ./%s\n", imported, version, imported, folder)
			if err := write(filepath.Join(dir, folder, "go.mod"), "module "+imported+"\n"); err != nil {
				return err
			}
		}
		if err := write(filepath.Join(dir, folder, "stub.go"), "package stub\n"); err != nil {
			return err
		}
	}
	return write(filepath.Join(dir, "go.mod"), mod.String())
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// issue is one finding of golangci-lint.
type issue struct {
	Text string
	Pos  struct{ Filename string }
}

func lint(ctx context.Context, linter, dir string) ([]issue, error) {
	cmd := exec.CommandContext(ctx, linter, "run", "--enable-only=depguard", "--show-stats=false", "--allow-parallel-runners",
		"--output.json.path=stdout", "--output.text.path=stderr", "./...")
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		return nil, fmt.Errorf("%s: %w (want exit status 1: issues found)\n%s", linter, err, stderr.String())
	}
	var report struct{ Issues []issue }
	if err := json.NewDecoder(&stdout).Decode(&report); err != nil {
		return nil, fmt.Errorf("read the linter's report: %w", err)
	}
	return report.Issues, nil
}

func missed(violations []violation, found []issue) error {
	var all error
	for _, v := range violations {
		if !reported(v, found) {
			all = errors.Join(all, fmt.Errorf("no rule denies %s in %s", v.imported, filepath.Dir(v.file)))
		}
	}
	return all
}

func reported(v violation, found []issue) bool {
	for _, i := range found {
		if i.Pos.Filename == v.file && strings.Contains(i.Text, "'"+v.imported+"'") {
			return true
		}
	}
	return false
}
