package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"understudy/audit"
)

// oldest is the oldest PostgreSQL that the ledger's SQL is tested on.
const oldest = 15

// Binaries is a folder with a PostgreSQL server.
type Binaries struct {
	Dir     string
	Version string // "15.18"
	Major   int    // 15
}

func (b Binaries) path(name string) string { return filepath.Join(b.Dir, name) }

// Find looks for the newest PostgreSQL server of this machine: where pg_config
// says, in the folders of Debian, Red Hat, Homebrew and Postgres.app, and behind
// initdb on PATH. The error, a *audit.Error, has the line that installs one.
func Find(ctx context.Context) (Binaries, error) { return find(ctx, "", 0) }

// InstallLine is the command that installs a PostgreSQL server here.
func InstallLine() string {
	if _, err := exec.LookPath("brew"); err == nil {
		return "brew install postgresql@17"
	}
	if os.Geteuid() == 0 {
		return "apt-get install -y postgresql"
	}
	return "sudo apt-get install -y postgresql"
}

// find looks in dir, or everywhere when dir is "". A major version other than 0
// must be met exactly: a cluster opens only under the version that made it.
func find(ctx context.Context, dir string, major int) (Binaries, error) {
	folders := []string{dir}
	if dir == "" {
		folders = candidates(ctx)
	}
	var found []Binaries
	for _, folder := range folders {
		if b, err := inspect(ctx, folder); err == nil {
			found = append(found, b)
		}
	}
	slices.SortStableFunc(found, func(a, b Binaries) int { return b.Major - a.Major })
	switch {
	case len(found) == 0 && dir != "":
		return Binaries{}, &audit.Error{
			Code:    audit.CodeInfrastructure,
			Message: "no PostgreSQL server in " + dir,
			Hint:    "name the folder that holds initdb and postgres",
		}
	case len(found) == 0:
		return Binaries{}, &audit.Error{
			Code:    audit.CodeInfrastructure,
			Message: "no PostgreSQL server on this machine",
			Hint:    "run: " + InstallLine() + " (or name one with --database-url)",
		}
	case major == 0 && found[0].Major < oldest:
		return Binaries{}, &audit.Error{
			Code:    audit.CodeInfrastructure,
			Message: fmt.Sprintf("PostgreSQL %s in %s is too old: %d is the oldest that works", found[0].Version, found[0].Dir, oldest),
			Hint:    "run: " + InstallLine(),
		}
	case major == 0:
		return found[0], nil
	}
	for _, b := range found {
		if b.Major == major {
			return b, nil
		}
	}
	return Binaries{}, &audit.Error{
		Code:    audit.CodeInfrastructure,
		Message: fmt.Sprintf("the cluster was made by PostgreSQL %d, this machine has %s", major, found[0].Version),
		Hint:    fmt.Sprintf("install PostgreSQL %d, or move the data with pg_upgrade, or use another --data-dir", major),
	}
}

func candidates(ctx context.Context) []string {
	var folders []string
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		folders = append(folders, string(bytes.TrimSpace(out)))
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"/usr/pgsql-*/bin",                  // Red Hat, from postgresql.org
		"/opt/homebrew/opt/postgresql*/bin", // Homebrew on ARM
		"/usr/local/opt/postgresql*/bin",    // Homebrew on Intel
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/usr/local/pgsql/bin", // built from source
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // a malformed pattern of ours
		}
		folders = append(folders, matches...)
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

func inspect(ctx context.Context, folder string) (Binaries, error) {
	b := Binaries{Dir: folder}
	if _, err := exec.LookPath(b.path("initdb")); err != nil {
		return b, fmt.Errorf("initdb: %w", err)
	}
	out, err := exec.CommandContext(ctx, b.path("postgres"), "--version").Output()
	if err != nil {
		return b, fmt.Errorf("ask %s for its version: %w", b.path("postgres"), err)
	}
	match := regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`).FindSubmatch(out)
	if match == nil {
		return b, fmt.Errorf("%s gives no version: %q", b.path("postgres"), out)
	}
	b.Version = string(match[1])
	b.Major, err = strconv.Atoi(string(match[2]))
	return b, err
}

// clusterVersion is the major version that made the cluster in data, or 0 when
// there is no cluster yet.
func clusterVersion(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		entries, err := os.ReadDir(data)
		if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
			return 0, nil
		}
		return 0, corrupt(data, errors.New("it has no PG_VERSION file"))
	}
	if err != nil {
		return 0, corrupt(data, err)
	}
	major, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return 0, corrupt(data, fmt.Errorf("PG_VERSION says %q", text))
	}
	return major, nil
}
