package ledger

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// The back-off between two tries of a transaction: full jitter up to a cap that
// lets a restarted server come back.
const (
	retryBase = 20 * time.Millisecond
	retryCap  = 2 * time.Second
)

// retry calls work until it succeeds, fails for a reason that does not pass, or
// was retried n times.
func retry(ctx context.Context, n int, work func() error) error {
	for try := 0; ; try++ {
		err := work()
		if err == nil || try == n || !passes(err) || ctx.Err() != nil {
			return err
		}
		wait := min(retryBase<<min(try, 16), retryCap)
		timer := time.NewTimer(rand.N(wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(context.Cause(ctx), err)
		case <-timer.C:
		}
	}
}

// Patiently asks the ledger again until it answers or ctx ends: an audit waits for
// a server that is away, as its commit does, instead of saying something about the
// environment or the policy. What does not pass is returned at once.
func (l *Ledger) Patiently(ctx context.Context, ask func() error) error {
	return retry(ctx, math.MaxInt, ask)
}

// passes reports whether an error of Postgres may not meet another try: a
// deadlock, a serialization failure, a server that went away or is starting.
func passes(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case e.Code == "40001", e.Code == "40P01", e.Code == "55P03": // serialization, deadlock, lock not available
			return true
		case strings.HasPrefix(e.Code, "57P"): // terminated, shut down, starting up
			return true
		case strings.HasPrefix(e.Code, "08"), strings.HasPrefix(e.Code, "53"): // connection, resources
			return true
		}
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "conn closed")
}
