package cluster_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"understudy/audit"
	"understudy/audit/ledger/cluster"
)

// model is a stopped cluster that tests copy: initdb costs a second of processor
// time, a copy a twentieth. TestMain removes it.
var model struct {
	sync.Once

	dir string
	err error
}

// made is a folder with a stopped cluster.
func made(t *testing.T) string {
	t.Helper()
	dir := folder(t)
	fill(t, dir)
	return dir
}

// fill copies the stopped cluster into a data folder that exists, owners included.
func fill(t *testing.T, dir string) {
	t.Helper()
	model.Do(func() { model.dir, model.err = makeModel(t.Context()) })
	if model.err != nil {
		t.Fatalf("make a cluster to copy: %v (%s)", model.err, audit.ErrorHint(model.err))
	}
	if out, err := exec.CommandContext(t.Context(), "cp", "-pR", filepath.Join(model.dir, "postgres"), dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the cluster: %v: %s", err, out)
	}
}

func makeModel(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("/tmp", "understudy-cluster-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return dir, err
	}
	c, err := cluster.Start(ctx, cluster.Config{Dir: dir, Ephemeral: true})
	if err != nil {
		return dir, err
	}
	return dir, c.Stop(ctx)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		config func(t *testing.T) cluster.Config
		want   string
		reason string
	}{
		{"used", func(t *testing.T) cluster.Config {
			t.Helper()
			return cluster.Config{Dir: start(t, cluster.Config{Dir: made(t), Ephemeral: true}).Dir()}
		}, "in use by process", "two programs on one cluster would destroy it"},
		{"file", func(t *testing.T) cluster.Config {
			t.Helper()
			path := filepath.Join(folder(t), "file")
			write(t, path, "")
			return cluster.Config{Dir: path}
		}, "cannot be written", "a file stands where the folder should"},
		{"strange", func(t *testing.T) cluster.Config {
			t.Helper()
			dir := folder(t)
			write(t, filepath.Join(dir, "postgres", "holiday.jpg"), "")
			return cluster.Config{Dir: dir}
		}, "no PG_VERSION", "a folder that holds something else is not ours to fill"},
		{"garbled", func(t *testing.T) cluster.Config {
			t.Helper()
			dir := folder(t)
			write(t, filepath.Join(dir, "postgres", "PG_VERSION"), "fifteen")
			return cluster.Config{Dir: dir}
		}, "damaged", "PG_VERSION is no number"},
		{"old", func(t *testing.T) cluster.Config {
			t.Helper()
			dir := folder(t)
			write(t, filepath.Join(dir, "postgres", "PG_VERSION"), "9\n")
			return cluster.Config{Dir: dir}
		}, "made by PostgreSQL 9", "a cluster opens only under the version that made it"},
		{"torn", func(t *testing.T) cluster.Config {
			t.Helper()
			dir := made(t)
			if err := os.Truncate(filepath.Join(dir, "postgres", "global", "pg_control"), 100); err != nil {
				t.Fatal(err)
			}
			return cluster.Config{Dir: dir}
		}, "damaged", "a disk lost part of the control file"},
		{"no binaries", func(t *testing.T) cluster.Config {
			t.Helper()
			return cluster.Config{Dir: folder(t), Binaries: t.TempDir()}
		}, "no PostgreSQL server in", "the named folder has no server"},
		{"initdb fails", func(t *testing.T) cluster.Config {
			t.Helper()
			bin := folder(t)
			write(t, filepath.Join(bin, "postgres"), "#!/bin/sh\necho 'postgres (PostgreSQL) 15.1'\n")
			write(t, filepath.Join(bin, "initdb"), "#!/bin/sh\ntouch \"$2/half\"\necho 'initdb: error: no space left' >&2\nexit 1\n")
			return cluster.Config{Dir: filepath.Join(folder(t), "data"), Binaries: bin}
		}, "no space left", "a disk fills up while the cluster is made"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := test.config(t)
			before := listing(t, cfg.Dir)
			c, err := cluster.Start(t.Context(), cfg)
			if err == nil {
				t.Fatalf("%s: it started: %v", test.reason, c.Stop(t.Context()))
			}
			e, ok := errors.AsType[*audit.Error](err)
			if !ok || e.Code != audit.CodeInfrastructure || e.Hint == "" {
				t.Errorf("%s: got %#v, want an infrastructure error with a hint", test.reason, err)
			}
			if text := err.Error(); !strings.Contains(text, test.want) || strings.Contains(text, "\n") {
				t.Errorf("%s: got %q, want one line that says %q", test.reason, text, test.want)
			}
			for _, path := range listing(t, cfg.Dir) {
				if !strings.Contains(path, "postgres.lo") && !strings.Contains(strings.Join(before, "\n"), path) {
					t.Errorf("%s: it left %s behind", test.reason, path)
				}
			}
		})
	}
}

// Who gives a start up is told why, not that the server is slow, and finds it stopped.
func TestStartIsGivenUp(t *testing.T) {
	t.Parallel()
	bin, dir := folder(t), folder(t)
	write(t, filepath.Join(bin, "initdb"), "#!/bin/sh\necho 15 > \"$2/PG_VERSION\"\n")
	write(t, filepath.Join(bin, "postgres"), "#!/bin/sh\n[ \"$1\" = --version ] && echo 'postgres (PostgreSQL) 15.1' && exit\necho $$ > \"$2/started\"\nexec sleep 3600\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("that is enough")
	ended := make(chan error, 1)
	go func() {
		_, err := cluster.Start(ctx, cluster.Config{Dir: dir, Binaries: bin})
		ended <- err
	}()
	var pid int
	for pid == 0 {
		<-time.After(5 * time.Millisecond)
		if text, err := os.ReadFile(filepath.Join(dir, "postgres", "started")); err == nil && strings.HasSuffix(string(text), "\n") {
			pid = number(t, strings.TrimSpace(string(text)))
		}
	}
	cancel(enough)
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("got %v, want the caller's reason", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the server that was begun is still there: %v", err)
	}
}

// listing is every file of a folder but the sockets' folder, which is empty.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestRootNeedsFolderThatOthersCanEnter(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root hands the server to another user")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := cluster.Start(t.Context(), cluster.Config{Dir: filepath.Join(closed, "data")})
	if err == nil || !strings.Contains(err.Error(), "cannot enter "+closed) {
		t.Errorf("got %v, want it to name the folder %s", err, closed)
	}
	if _, err := os.Stat(filepath.Join(closed, "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want no folder to be made", err)
	}
}

func TestHalfMadeClusterIsMadeAgain(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	write(t, filepath.Join(dir, "postgres.new", "half"), "left by a killed program")
	c := start(t, cluster.Config{Dir: dir, Ephemeral: true})
	if !c.Made() {
		t.Error("got an old cluster, want a new one")
	}
	if _, err := os.Stat(filepath.Join(dir, "postgres.new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want the half-made one gone", err)
	}
}

func TestSocketOfDeepFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(folder(t), strings.Repeat("deep/", 25))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fill(t, dir)
	c := start(t, cluster.Config{Dir: dir, Ephemeral: true})
	socket := connect(t, c).Config().Host
	if strings.HasPrefix(socket, dir) {
		t.Errorf("got the socket in %s, want it in a short folder", socket)
	}
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("got mode %v of the socket's folder, want 0700: it alone keeps others out", info.Mode())
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want the short folder gone", err)
	}
}
