// Package ledgertest gives a test package real PostgreSQL: one private cluster
// for the whole run, started when the first test asks for it, and one database
// for each test, copied from a template that has every migration.
//
//	var postgres ledgertest.Server
//
//	func TestMain(m *testing.M) { os.Exit(postgres.Main(m)) }
//
//	func TestStore(t *testing.T) {
//		pool := postgres.Pool(t)
//		...
//	}
//
// A machine without PostgreSQL fails the test with the line that installs it.
package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"understudy/audit"
	"understudy/audit/leaktest"
	"understudy/audit/ledger/cluster"
	"understudy/audit/lockfile"
	"understudy/migrations"
)

const (
	template = "template_ledger"
	prefix   = "understudy-test-"
	// abandoned is the age from which a test folder that nobody locks is
	// removed: longer than a start takes.
	abandoned = 10 * time.Minute
	// patience is for the slowest machine: what is waited for does come.
	patience = time.Minute
)

// Server is a private cluster for one test package. Its zero value is ready; it
// is safe for parallel tests.
type Server struct {
	// Durable keeps fsync and synchronous_commit on, as in production: for
	// benchmarks. Tests need it not: a killed process loses nothing without it,
	// only a killed machine does.
	Durable bool

	once    sync.Once
	cluster *cluster.Cluster
	admin   *pgxpool.Pool
	err     error
	serial  atomic.Int64
}

// Main runs the package's tests, stops the cluster, looks for goroutines that
// the tests left behind, and returns the exit status.
func (s *Server) Main(m *testing.M) int {
	status := m.Run()
	if err := s.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the test cluster:", err)
		status = max(status, 1)
	}
	if err := leaktest.Find(natsClock()); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	return status
}

// Pool opens a migrated database of the test's own; both end with the test.
func (s *Server) Pool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return open(tb, s.URL(tb))
}

// URL names a migrated database of the test's own.
func (s *Server) URL(tb testing.TB) string {
	tb.Helper()
	return s.database(tb, template)
}

// EmptyURL names an empty database of the test's own: no migration has run.
func (s *Server) EmptyURL(tb testing.TB) string {
	tb.Helper()
	return s.database(tb, "template0")
}

func open(tb testing.TB, dsn string) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

func (s *Server) database(tb testing.TB, from string) string {
	tb.Helper()
	s.once.Do(func() { s.err = s.start(context.WithoutCancel(tb.Context())) })
	if s.err != nil {
		tb.Fatalf("test cluster: %v (%s)", s.err, audit.ErrorHint(s.err))
	}
	name := "test_" + strconv.FormatInt(s.serial.Add(1), 10)
	if err := s.alone(tb.Context(), `CREATE DATABASE `+name+` TEMPLATE `+from); err != nil {
		tb.Fatalf("make a test database: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.alone(context.WithoutCancel(tb.Context()), `DROP DATABASE `+name+` WITH (FORCE)`); err != nil {
			tb.Errorf("drop the test database: %v", err)
		}
	})
	return databaseURL(s.cluster.URL(), name)
}

// alone runs a statement that wants nobody else in a database. Who has left it, or was
// told to, may need longer for it on a busy machine than the five seconds that
// PostgreSQL waits.
func (s *Server) alone(ctx context.Context, statement string) error {
	for deadline := time.Now().Add(patience); ; {
		_, err := s.admin.Exec(ctx, statement)
		failure, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || failure.Code != objectInUse || time.Now().After(deadline) {
			return err
		}
	}
}

// objectInUse is PostgreSQL's code for a database that somebody is in.
const objectInUse = "55006"

func (s *Server) start(ctx context.Context) (err error) {
	dir, err := folder()
	if err != nil {
		return err
	}
	s.cluster, err = cluster.Start(ctx, cluster.Config{
		Dir: dir, Database: template, Ephemeral: !s.Durable,
		Settings: map[string]string{"max_connections": "200"},
	})
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := migrate(ctx, s.cluster.URL()); err != nil {
		return err
	}
	s.admin, err = pgxpool.New(ctx, databaseURL(s.cluster.URL(), "postgres"))
	return err
}

// migrate fills the template, and leaves no session on it: PostgreSQL does not
// copy a database that somebody is connected to.
func migrate(ctx context.Context, dsn string) error {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = migrations.Up(ctx, pool)
	return err
}

// Close stops the cluster of a server that Main does not run, such as a
// benchmark's durable one.
func (s *Server) Close() error { return s.stop() }

func (s *Server) stop() error {
	if s.cluster == nil {
		return nil
	}
	if s.admin != nil {
		s.admin.Close()
	}
	err := s.cluster.Stop(context.Background())
	return errors.Join(err, os.RemoveAll(s.cluster.Dir()))
}

// folder makes a folder that the server's user can reach with a socket path
// that is short enough; a test's TempDir is neither for root. Folders of runs
// that were killed are removed on the way.
func folder() (string, error) {
	root := os.TempDir()
	if cluster.Reachable(root) != nil {
		root = "/tmp"
	}
	sweep(root)
	dir, err := os.MkdirTemp(root, prefix)
	if err != nil {
		return "", err
	}
	if os.Geteuid() == 0 {
		err = os.Chmod(dir, 0o711)
	}
	return dir, err
}

func sweep(root string) {
	folders, err := filepath.Glob(filepath.Join(root, prefix+"*"))
	if err != nil {
		return // a TMPDIR that is no pattern: nothing to sweep
	}
	for _, dir := range folders {
		info, err := os.Stat(dir)
		if err != nil || time.Since(info.ModTime()) < abandoned {
			continue
		}
		lock, err := lockfile.Acquire(filepath.Join(dir, "postgres.lock"))
		if err != nil {
			continue // in use, or of another user
		}
		_ = os.RemoveAll(dir)
		_ = lock.Release()
	}
}

func databaseURL(dsn, name string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic(err) // the cluster's own URL
	}
	u.Path = "/" + name
	return u.String()
}

// natsClock excuses nats-server's one clock goroutine, which ends some time after
// its last store.
func natsClock() goleak.Option {
	return goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1")
}
