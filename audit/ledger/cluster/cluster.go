// Package cluster runs a private PostgreSQL server for one program: found on
// this machine, made in the program's data folder, reachable only through a
// Unix socket that nobody else may open, durable, and stopped with the program.
//
// It is not for servers that somebody else runs: a program that was given a
// database URL does not need this package. The binaries are looked for by Find,
// Start is the way in.
//
//	<dir>/postgres.lock   held while the program lives: one program, one cluster
//	<dir>/postgres/       the cluster (initdb makes it beside, then it is renamed)
//	<dir>/postgres.log    what the server says
//	<dir>/run/            the socket, or a short folder under /tmp (see socketFolder)
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
	"understudy/audit/lockfile"
)

const (
	// user owns the cluster's databases; the socket's folder is what protects it.
	user = "understudy"
	port = "5432" // names the socket file only: nothing listens on TCP

	// startTimeout guards against a server that hangs: one that ends is seen at once. It
	// leaves room for crash recovery of a large write-ahead log, and for a machine that is
	// so busy that initdb, a second of processor time, takes minutes.
	startTimeout = 10 * time.Minute
	// stopTimeout is for a fast shutdown, which writes a checkpoint, and as long as
	// pg_ctl's; after it the server is stopped like in a crash, which loses nothing either.
	stopTimeout = time.Minute
	pollEvery   = 5 * time.Millisecond
)

// Config says where a cluster lives. Dir is required, the rest may be zero.
type Config struct {
	Dir      string            // the program's data folder; made where missing
	Database string            // made where missing; "understudy" by default
	Binaries string            // folder of initdb and postgres; searched for by default
	Settings map[string]string // more server settings, such as max_connections
	// Ephemeral gives durability up for speed: a crash of the machine may corrupt
	// the cluster. For tests that delete it anyway.
	Ephemeral bool
	Logger    *slog.Logger // nothing is logged by default
}

// Cluster is a running private server.
type Cluster struct {
	cfg     Config
	server  Binaries
	owner   owner
	lock    *lockfile.Lock
	sockets string
	made    bool
	process *process
}

// Start runs the cluster of cfg.Dir, makes it first where there is none, and
// returns when it answers. A server that outlived a killed program is stopped
// first; what it had committed is kept. Errors are *audit.Error with a hint, and
// leave nothing half-made behind; ErrInUse is one of them when another program
// works in the folder.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	cfg.Database = cmp.Or(cfg.Database, user)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	c := &Cluster{cfg: cfg}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, &audit.Error{
		Code:    audit.CodeInfrastructure,
		Message: "the private PostgreSQL in " + c.data() + " is not up after " + startTimeout.String(),
		Hint:    "look into " + c.log() + ", and at what else the machine is busy with",
	})
	defer cancel()

	if c.owner, err = ownerOf(c.data()); err != nil {
		return nil, err
	}
	fresh, err := makeFolder(cfg.Dir, c.owner)
	if err != nil {
		return nil, err
	}
	if c.lock, err = claim(filepath.Join(cfg.Dir, "postgres.lock")); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.abandon(ctx, fresh))
	}
	return c, nil
}

// URLOfRunning names the database of the cluster that another program runs in
// dir, for one that works beside it: Start refuses that folder with ErrInUse. It
// returns "" when no server answers there. What is at the URL ends with the other
// program.
func URLOfRunning(ctx context.Context, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("data folder: %w", err)
	}
	c := &Cluster{cfg: Config{Dir: dir, Database: user}}
	if c.owner, err = ownerOf(c.data()); err != nil {
		return "", err
	}
	if c.sockets, err = socketFolder(dir, c.owner); err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, c.URL())
	if err != nil {
		return "", nil //nolint:nilerr // nobody answers, for whatever reason: Start's own error says who holds the folder
	}
	return c.URL(), conn.Close(ctx)
}

// abandon stops what a failed Start began, and removes the data folder that it
// made, unless there is something in it.
func (c *Cluster) abandon(ctx context.Context, fresh bool) error {
	if !fresh || c.made {
		return c.Stop(ctx)
	}
	err := errors.Join(c.lock.Remove(), os.RemoveAll(c.log()))
	c.lock = nil
	if empty := os.Remove(c.cfg.Dir); empty != nil {
		return err // somebody else uses the folder too
	}
	return err
}

// URL names the cluster's database for pgx.
func (c *Cluster) URL() string { return c.databaseURL(c.cfg.Database) }

// Dir is the data folder that the cluster lives in.
func (c *Cluster) Dir() string { return c.cfg.Dir }

// Version is the server's version, such as "15.18".
func (c *Cluster) Version() string { return c.server.Version }

// Made reports whether Start had to make the cluster.
func (c *Cluster) Made() bool { return c.made }

// Done is closed when the server is gone, stopped or crashed.
func (c *Cluster) Done() <-chan struct{} { return c.process.done }

// Stop ends the server: open sessions are cut, committed work is kept. It
// outlives ctx's cancellation and may be called twice.
func (c *Cluster) Stop(ctx context.Context) error {
	if c.lock == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	var err error
	if c.process != nil {
		err = c.process.stop(ctx)
	}
	if c.sockets != "" && filepath.Dir(c.sockets) != c.cfg.Dir {
		err = errors.Join(err, os.RemoveAll(c.sockets))
	}
	err = errors.Join(err, c.lock.Release())
	c.lock = nil
	return err
}

func (c *Cluster) data() string { return filepath.Join(c.cfg.Dir, "postgres") }
func (c *Cluster) log() string  { return filepath.Join(c.cfg.Dir, "postgres.log") }

func (c *Cluster) databaseURL(name string) string {
	query := url.Values{"host": {c.sockets}, "port": {port}, "sslmode": {"disable"}}
	u := url.URL{Scheme: "postgres", User: url.User(user), Path: "/" + name, RawQuery: query.Encode()}
	return u.String()
}

func (c *Cluster) start(ctx context.Context) (err error) {
	version, err := clusterVersion(c.data())
	if err != nil {
		return err
	}
	if c.server, err = find(ctx, c.cfg.Binaries, version); err != nil {
		return err
	}
	if version == 0 {
		if err := c.initdb(ctx); err != nil {
			return err
		}
		c.made = true
	}
	if err := c.stopSurvivor(ctx); err != nil {
		return err
	}
	if c.sockets, err = socketFolder(c.cfg.Dir, c.owner); err != nil {
		return err
	}
	if err := c.launch(ctx); err != nil {
		return err
	}
	return c.makeDatabase(ctx)
}

// launch starts the server and waits until it answers. Backends of a killed
// server need a moment to notice; until then a new one refuses to start.
func (c *Cluster) launch(ctx context.Context) error {
	for {
		err := c.launchOnce(ctx)
		if !errors.Is(err, errMemoryInUse) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * pollEvery):
		}
	}
}

func (c *Cluster) launchOnce(ctx context.Context) error {
	logged, err := openLog(c.log())
	if err != nil {
		return err
	}
	defer logged.Close()
	from, err := logged.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("read %s: %w", c.log(), err)
	}
	cmd := c.owner.command(ctx, c.cfg.Dir, c.server.path("postgres"), c.arguments()...)
	cmd.Stdout, cmd.Stderr = logged, logged
	if c.process, err = launch(cmd); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	for {
		conn, err := pgx.Connect(ctx, c.databaseURL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.process.done:
			// A server that panics leaves its postmaster.pid.
			return errors.Join(startError(c.data(), c.log(), from), c.stopSurvivor(ctx))
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// arguments are the server's command line: it wins over the cluster's own
// configuration files, so that durability cannot be edited away by accident.
func (c *Cluster) arguments() []string {
	durable := "on"
	if c.cfg.Ephemeral {
		durable = "off"
	}
	settings := map[string]string{
		"listen_addresses":        "",
		"unix_socket_directories": c.sockets,
		"unix_socket_permissions": "0700",
		"port":                    port,
		"fsync":                   durable,
		"synchronous_commit":      durable,
		"full_page_writes":        durable,
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"lc_messages":             "C", // startError reads them
		"logging_collector":       "off",
		"log_destination":         "stderr",
	}
	args := []string{"-D", c.data()}
	for name, value := range c.cfg.Settings {
		if _, ours := settings[name]; !ours {
			settings[name] = value
		}
	}
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

func (c *Cluster) makeDatabase(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.databaseURL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to the private PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, c.cfg.Database).Scan(&exists)
	if err != nil {
		return fmt.Errorf("look for database %s: %w", c.cfg.Database, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{c.cfg.Database}.Sanitize()); err != nil {
		return fmt.Errorf("make database %s: %w", c.cfg.Database, err)
	}
	return nil
}

// stopSurvivor ends a server that outlived its program (kill -9 on a system
// without a parent-death signal, or one that is still shutting down). It is
// stopped rather than adopted: a server that is not our child could not be
// watched, and a fast stop costs milliseconds and loses nothing. A file left by
// a server that is gone is removed, because its process number may belong to
// somebody else by now, which PostgreSQL itself would refuse to start over.
func (c *Cluster) stopSurvivor(ctx context.Context) error {
	path := filepath.Join(c.data(), "postmaster.pid")
	pid, err := readPID(path)
	if pid == 0 || err != nil {
		return err
	}
	if !runsIn(pid, c.data()) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove stale %s: %w", path, err)
		}
		return nil
	}
	c.cfg.Logger.InfoContext(ctx, "stopping a private PostgreSQL that outlived its program", slog.Int("pid", pid))
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop PostgreSQL %d: %w", pid, err)
		}
		deadline := time.Now().Add(stopTimeout)
		for runsIn(pid, c.data()) && time.Now().Before(deadline) {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(pollEvery):
			}
		}
	}
	return nil
}
