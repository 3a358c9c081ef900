// Package migrations holds the ledger's schema as numbered SQL and brings a
// database up to it. Migrations only go forward; goose runs them under a
// session lock, so that any number of programs may start at once.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Files are the numbered migrations, 00001_name.sql and so on.
//
//go:embed *.sql
var Files embed.FS

// lockID is the advisory lock that migrations run under: "understu" as a number.
const lockID = 0x756e646572737475

// Report says what Up did.
type Report struct {
	From, To int64    // schema version before and after
	Applied  []string // file names, in order
}

// NewerError says that the database was migrated by a newer program.
type NewerError struct {
	Database, Binary int64 // schema versions
}

// Error names both versions.
func (e *NewerError) Error() string {
	return fmt.Sprintf("the database has schema version %d, this program knows versions up to %d", e.Database, e.Binary)
}

// Up brings the database to the newest schema and says what it did. A second
// run does nothing. It returns a *NewerError, and changes nothing, when the
// database is ahead of this program.
func Up(ctx context.Context, pool *pgxpool.Pool) (Report, error) {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close() // the pool stays open
	p, err := goose.NewProvider(goose.DialectPostgres, db, Files,
		goose.WithSessionLocker(sessionLock{}), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return Report{}, fmt.Errorf("read migrations: %w", err)
	}
	from, err := Version(ctx, pool)
	if err != nil {
		return Report{}, err
	}
	sources := p.ListSources()
	to := sources[len(sources)-1].Version
	if from > to {
		return Report{}, &NewerError{Database: from, Binary: to}
	}
	results, err := p.Up(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("migrate from version %d: %w", from, err)
	}
	report := Report{From: from, To: to}
	for _, r := range results {
		report.Applied = append(report.Applied, r.Source.Path)
	}
	return report, nil
}

// Version is the database's schema version, 0 before the first migration. It
// only reads: goose's own question makes the version table outside of the lock,
// where programs that start together collide.
func Version(ctx context.Context, pool *pgxpool.Pool) (int64, error) {
	var migrated bool
	err := pool.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&migrated)
	if err != nil {
		return 0, fmt.Errorf("look for the schema: %w", err)
	}
	if !migrated {
		return 0, nil
	}
	var version int64
	err = pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("read the schema version: %w", err)
	}
	return version, nil
}

// sessionLock waits in the database, where goose's own lock polls once a second
// at best: programs that start together should not wait for a timer.
type sessionLock struct{}

var _ lock.SessionLocker = sessionLock{}

func (sessionLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_lock($1)`, int64(lockID)); err != nil {
		return fmt.Errorf("wait for the migration lock: %w", err)
	}
	return nil
}

func (sessionLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(lockID)); err != nil {
		return fmt.Errorf("release the migration lock: %w", err)
	}
	return nil
}
