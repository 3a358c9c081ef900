package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/ledger/cluster"
	"understudy/audit/queue/embedded"
	"understudy/migrations"
)

// resources are the ledger's database and the transport, each a server of ours
// or one that was named. Whoever opened them closes them, last of all.
type resources struct {
	pool *pgxpool.Pool
	nats *nats.Conn

	schema  migrations.Report
	cluster *cluster.Cluster // nil: a database was named
	streams *embedded.Server // nil: a NATS server was named
}

// openResources starts what was not named and connects to all of it, with the
// schema up to date. On an error nothing is left open.
func openResources(ctx context.Context, cfg Config, log *slog.Logger) (*resources, error) {
	started := time.Now()
	r := &resources{}
	// One after the other: a database that cannot be reached leaves no trace of a
	// transport that was not needed. JetStream opens in milliseconds.
	err := r.openLedger(ctx, cfg, log)
	if err == nil {
		err = r.openTransport(ctx, cfg, log)
	}
	if err != nil {
		return nil, errors.Join(err, r.close(ctx))
	}
	log.InfoContext(ctx, "ledger and transport are open",
		slog.String("postgres", r.postgresName()), slog.String("nats", r.natsName()),
		slog.Int64("schema_version", r.schema.To), slog.Int64("took_ms", time.Since(started).Milliseconds()))
	return r, nil
}

// besideConnections leave room for the program whose private PostgreSQL is used.
const besideConnections = 3

// openLedger opens only the database, for commands that audit nothing. They work
// beside a program that runs the private PostgreSQL already, too.
func openLedger(ctx context.Context, cfg Config, log *slog.Logger) (*resources, error) {
	r := &resources{}
	err := r.openLedger(ctx, cfg, log)
	if errors.Is(err, cluster.ErrInUse) {
		var running string
		if running, _ = cluster.URLOfRunning(ctx, cfg.DataDir); running != "" {
			r.pool, r.schema, err = openDatabase(ctx, running, min(cfg.DatabaseConnections, besideConnections))
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.close(ctx))
	}
	return r, nil
}

// withLedger works on the ledger alone, and closes it.
func withLedger(ctx context.Context, inv *invocation, work func(l *ledger.Ledger) error) (err error) {
	r, err := openLedger(ctx, inv.config, inv.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	l, err := ledger.New(r.pool, ledger.Config{})
	if err != nil {
		return err
	}
	return work(l)
}

func (r *resources) openLedger(ctx context.Context, cfg Config, log *slog.Logger) (err error) {
	dsn := string(cfg.DatabaseURL)
	if dsn == "" {
		// More than the pool's: migrations, commands beside this one, and somebody
		// who looks with psql.
		connections := strconv.Itoa(cfg.DatabaseConnections + 5 + 3*besideConnections)
		r.cluster, err = cluster.Start(ctx, cluster.Config{
			Dir: cfg.DataDir, Logger: log, Settings: map[string]string{"max_connections": connections},
		})
		if err != nil {
			return err
		}
		dsn = r.cluster.URL()
	}
	r.pool, r.schema, err = openDatabase(ctx, dsn, cfg.DatabaseConnections)
	return err
}

func (r *resources) openTransport(ctx context.Context, cfg Config, log *slog.Logger) (err error) {
	if cfg.NATSURL == "" {
		if err := makeDataDir(cfg.DataDir); err != nil {
			return err
		}
		r.streams, err = embedded.Start(ctx, embedded.Config{Dir: filepath.Join(cfg.DataDir, "jetstream"), Logger: log})
		if err != nil {
			return err
		}
		r.nats, err = r.streams.Connect(nats.MaxReconnects(-1))
		return err
	}
	r.nats, err = nats.Connect(string(cfg.NATSURL), nats.Name("understudy"), nats.MaxReconnects(-1))
	if err != nil {
		return natsError(err, cfg.NATSURL)
	}
	return nil
}

// makeDataDir makes the data folder where the private PostgreSQL did not. Root's
// can be passed through, in case that one comes to live there later.
func makeDataDir(dir string) error {
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return &audit.Error{
			Code: audit.CodeInfrastructure, Err: err,
			Message: "the data folder " + dir + " cannot be made", Hint: "choose another with --data-dir",
		}
	}
	return nil
}

func natsError(err error, at secret) error {
	out := &audit.Error{
		Code: audit.CodeInfrastructure, Err: err,
		Message: "the NATS server " + at.String() + " cannot be reached",
		Hint:    "start it, correct --nats-url, or leave it out to run JetStream in process",
	}
	if errors.Is(err, nats.ErrAuthorization) || strings.Contains(strings.ToLower(err.Error()), "authorization") {
		out.Message, out.Hint = "the NATS server "+at.String()+" refuses us", "correct the user and the password of --nats-url"
	}
	return out
}

// ready returns nil while the ledger answers and the transport is connected.
func (r *resources) ready(ctx context.Context) error {
	if err := r.pool.Ping(ctx); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if !r.nats.IsConnected() {
		return errors.New("transport: not connected")
	}
	return nil
}

// failed is closed when the private PostgreSQL is gone; nil, which blocks for
// ever, when the database is somebody else's to watch.
func (r *resources) failed() <-chan struct{} {
	if r.cluster == nil {
		return nil
	}
	return r.cluster.Done()
}

// close ends everything in the reverse order; it outlives ctx's cancellation.
func (r *resources) close(ctx context.Context) error {
	if r.nats != nil {
		r.nats.Close()
	}
	if r.pool != nil {
		r.pool.Close()
	}
	var errs []error
	if r.streams != nil {
		errs = append(errs, r.streams.Stop(ctx))
	}
	if r.cluster != nil {
		errs = append(errs, r.cluster.Stop(ctx))
	}
	return errors.Join(errs...)
}

func (r *resources) postgresName() string {
	if r.cluster == nil {
		return address(r.pool.Config().ConnConfig.Config)
	}
	return "private " + r.cluster.Version() + " in " + r.cluster.Dir()
}

func (r *resources) natsName() string {
	if r.streams == nil {
		return secret(r.nats.ConnectedUrl()).String()
	}
	return "in process"
}
