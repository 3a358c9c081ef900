package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
	"understudy/migrations"
)

// openDatabase connects to the ledger's database and brings its schema up.
func openDatabase(ctx context.Context, dsn string, connections int) (*pgxpool.Pool, migrations.Report, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, migrations.Report{}, usageError("the database URL "+secret(dsn).String()+" cannot be read", "write postgres://user:password@host:5432/database")
	}
	cfg.MaxConns = int32(connections)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, migrations.Report{}, databaseError(err, cfg.ConnConfig.Config)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, migrations.Report{}, databaseError(err, cfg.ConnConfig.Config)
	}
	report, err := migrations.Up(ctx, pool)
	if err != nil {
		pool.Close()
		return nil, migrations.Report{}, databaseError(err, cfg.ConnConfig.Config)
	}
	return pool, report, nil
}

// databaseError says in one line what is wrong between us and the database.
func databaseError(err error, cfg pgconn.Config) error {
	at := fmt.Sprintf("the database %s at %s", cfg.Database, address(cfg))
	out := &audit.Error{Code: audit.CodeInfrastructure, Err: err, Message: at, Hint: "see the server's log"}
	if newer, ok := errors.AsType[*migrations.NewerError](err); ok {
		out.Message, out.Err = at+" was migrated by a newer understudy", newer
		out.Hint = "update this program, or name another database"
		return out
	}
	refused, answered := errors.AsType[*pgconn.PgError](err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	switch {
	case answered && (refused.Code == "28P01" || refused.Code == "28000"):
		out.Message, out.Err = at+" refuses user "+cfg.User, errors.New(refused.Message)
		out.Hint = "correct the user and the password of --database-url"
	case answered && refused.Code == "3D000":
		out.Message, out.Err = at+" does not exist", nil
		out.Hint = "make it (createdb), or correct --database-url"
	case answered && refused.Code == "42501":
		out.Message, out.Err = at+" does not let user "+cfg.User+" make tables", errors.New(refused.Message)
		out.Hint = "GRANT CREATE ON SCHEMA public, or use the database's owner"
	case answered:
		out.Err = errors.New(refused.Message)
	case connecting:
		out.Message, out.Err = at+" cannot be reached", rootCause(err)
		out.Hint = "start it, correct --database-url, or leave it out to use a private PostgreSQL"
	}
	return out
}

func address(cfg pgconn.Config) string {
	if len(cfg.Host) > 0 && cfg.Host[0] == '/' {
		return cfg.Host
	}
	return fmt.Sprintf("%s:%d", cfg.Host, cfg.Port)
}

// rootCause is the innermost error: the system's own word, without the layers
// that repeat the address.
func rootCause(err error) error {
	for {
		switch e := err.(type) { //nolint:errorlint // this is the walk that errors.As does
		case interface{ Unwrap() error }:
			if e.Unwrap() == nil {
				return err
			}
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			all := e.Unwrap()
			if len(all) == 0 {
				return err
			}
			err = all[0]
		default:
			return err
		}
	}
}

// recordConfiguration keeps the effective configuration under its digest, which
// is what results name.
func recordConfiguration(ctx context.Context, pool *pgxpool.Pool, cfg Config) error {
	digest := cfg.Digest()
	_, err := pool.Exec(ctx, `
		INSERT INTO configuration (digest, version, effective) VALUES ($1, $2, $3)
		ON CONFLICT (digest) DO NOTHING`, digest[:], versionText(), string(cfg.Effective()))
	if err != nil {
		return fmt.Errorf("record the configuration: %w", err)
	}
	return nil
}
