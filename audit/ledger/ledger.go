package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"understudy/audit"
)

// Config tunes a Ledger. The zero value means the defaults.
type Config struct {
	// MaxBody is the most bytes of one raw body that are kept; a longer one is
	// cut and flagged. Default 1 MiB, the program's limit for one answer.
	MaxBody int
	// MaxMessage is the largest episode, in bytes, that travels inside its
	// message; a larger one travels as a reference. Default 900 KiB, which
	// leaves room for headers under the usual 1 MiB of a NATS message.
	MaxMessage int
	// Retries is how often a transaction is tried again after a deadlock or a
	// lost connection. Default 8: about ten seconds with the back-off.
	Retries int
	// Interrupt is a seam for kill tests, called at named points inside a
	// transaction; an error abandons it. Nil in production.
	Interrupt func(ctx context.Context, point string) error
}

func (c Config) withDefaults() Config {
	if c.MaxBody == 0 {
		c.MaxBody = 1 << 20
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = 900 << 10
	}
	if c.Retries == 0 {
		c.Retries = 8
	}
	return c
}

// Validate lists every setting that cannot work.
func (c Config) Validate() error {
	var faults []error
	for name, v := range map[string]int{"max_body": c.MaxBody, "max_message": c.MaxMessage, "retries": c.Retries} {
		if v < 0 {
			faults = append(faults, &audit.Error{
				Code: audit.CodeInvalid, Message: fmt.Sprintf("ledger: %s is %d", name, v), Hint: "leave it out for the default, or give a positive number",
			})
		}
	}
	return errors.Join(faults...)
}

// Ledger stores and reads what was audited. It is safe for concurrent use, also
// from several processes on one database.
type Ledger struct {
	pool    *pgxpool.Pool
	config  Config
	rollup  rollupStatements
	summary summaryCache

	mu   sync.RWMutex
	runs map[string]knownRun // by name
}

// knownRun is a run's number as it was looked up. A name means another run when
// another process drops the run and somebody makes one anew: it is looked up again
// every lookupsHold.
type knownRun struct {
	id    int32
	until time.Time
}

const lookupsHold = 2 * time.Second

var (
	_ audit.Ledger       = (*Ledger)(nil)
	_ audit.FigureSource = (*Ledger)(nil)
)

// New returns a Ledger on a migrated database. The pool stays the caller's.
func New(pool *pgxpool.Pool, config Config) (*Ledger, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Ledger{
		pool: pool, config: config.withDefaults(), rollup: newRollupStatements(), runs: map[string]knownRun{},
	}, nil
}

// runID finds a run's number by its name.
func (l *Ledger) runID(ctx context.Context, name string) (int32, error) {
	l.mu.RLock()
	known, ok := l.runs[name]
	l.mu.RUnlock()
	if ok && time.Now().Before(known.until) {
		return known.id, nil
	}
	var id int32
	err := l.pool.QueryRow(ctx, `SELECT id FROM run WHERE name = $1 AND state <> 'dropping'`, label(name)).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		l.forgetRun(name)
		return 0, &audit.Error{
			Code: audit.CodeNotFound, Message: fmt.Sprintf("run %q does not exist", name), Hint: "understudy report lists the runs there are; or create it first",
		}
	}
	if err != nil {
		return 0, fmt.Errorf("find run %q: %w", name, err)
	}
	l.mu.Lock()
	l.runs[name] = knownRun{id: id, until: time.Now().Add(lookupsHold)}
	l.mu.Unlock()
	return id, nil
}

func (l *Ledger) forgetRun(name string) {
	l.mu.Lock()
	delete(l.runs, name)
	l.mu.Unlock()
}

func (l *Ledger) interrupt(ctx context.Context, point string) error {
	if l.config.Interrupt == nil {
		return nil
	}
	return l.config.Interrupt(ctx, point)
}

// cleanUpTimeout bounds what must still happen after the caller has given up.
const cleanUpTimeout = 5 * time.Second

// begin opens a transaction whose plans look rows up by index. A statement that
// was prepared while a table was empty would otherwise go on scanning it until
// autovacuum comes by: measured at 120 ms instead of 2 ms for a claim.
const begin = `begin; set local enable_seqscan = off`

// beginLookups is begin for statements that join a list of keys with a table:
// they look each key up instead of reading the table into a hash.
const beginLookups = begin + `; set local enable_hashjoin = off; set local enable_mergejoin = off; set local jit = off`

// beginRead is begin for reading a few rows of one run by index. Each statement
// is planned with the run's number, which leaves the run's own partitions: a
// plan for any run holds those of all, at half a second for a page over a
// thousand runs. One worker reads a page sooner than two can be started.
const beginRead = beginLookups + `; set local transaction_read_only = on; set local plan_cache_mode = force_custom_plan;
	set local max_parallel_workers_per_gather = 0`

// beginCommit is begin for the statements of a commit, which are the same each
// time but for the lengths of their arrays: PostgreSQL would plan them anew for
// every length, which took a twentieth of its time.
const beginCommit = begin + `; set local plan_cache_mode = force_generic_plan`

// inTx runs work in one transaction and commits it. The work may run several
// times, so it must be idempotent: a commit that returned an error may have
// happened.
func (l *Ledger) inTx(ctx context.Context, what string, work func(ctx context.Context, tx pgx.Tx) error) error {
	return l.transact(ctx, begin, what, work)
}

func (l *Ledger) transact(ctx context.Context, begin, what string, work func(ctx context.Context, tx pgx.Tx) error) error {
	return retry(ctx, l.config.Retries, func() error {
		tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
		if err != nil {
			return fmt.Errorf("%s: begin: %w", what, err)
		}
		defer rollback(ctx, tx)
		if err := work(ctx, tx); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if err := l.interrupt(ctx, "before commit"); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return fmt.Errorf("%s: commit: %w", what, err)
		}
		return l.interrupt(ctx, "after commit")
	})
}

// look reads in one transaction begun by beginRead.
func (l *Ledger) look(ctx context.Context, work func(ctx context.Context, tx pgx.Tx) error) error {
	tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginRead})
	if err != nil {
		return fmt.Errorf("begin to read: %w", err)
	}
	defer rollback(ctx, tx)
	return work(ctx, tx)
}

// rollback ends a transaction that was not committed, also after cancellation.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // after a commit it says so; after a lost connection there is nothing to end
}
