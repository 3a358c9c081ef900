package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"understudy/audit"
)

// Config tunes relay, worker and sweeper. The zero value means the defaults.
// All programs on one stream use the same Prefix and AckWait.
type Config struct {
	// Prefix begins the names of streams and subjects, so that several ledgers
	// can share one NATS. Letters, digits and underscores. Default "audit".
	Prefix string
	// AckWait is how long a worker may be silent before its message goes to
	// another. Default 30 s: three heartbeats fit in. The waits below follow it
	// where they are left out, so that one number sets the queue's pace.
	AckWait time.Duration
	// Attempts is how often a job is tried before it becomes a dead letter. Default 5.
	Attempts int
	// InFlight is how many episodes one worker holds and audits side by side.
	// Default four times the processors: most of them wait for a sync.
	InFlight int
	// Timeout bounds one attempt at an episode. Default 10 min.
	Timeout time.Duration
	// Grace is how long a stopped worker may go on with what it holds. Default 30 s.
	Grace time.Duration
	// Backoff and BackoffCap bound the wait before a failed job is tried again:
	// a random time up to Backoff·2ⁿ, at most BackoffCap. Default a sixtieth of
	// AckWait and AckWait: 500 ms and 30 s.
	Backoff, BackoffCap time.Duration
	// MaxMessages and MaxBytes bound the stream of jobs; the relay waits when it
	// is full. Default 200,000 and 1 GiB.
	MaxMessages, MaxBytes int64
	// Duplicates is the window in which the stream of jobs drops a message id that it
	// has seen. Default 2 min: longer than a relay takes from publishing to marking.
	// Feeds have a shorter one, see feedWindow.
	Duplicates time.Duration
	// Replicas of each stream. Default 1; 3 on a cluster.
	Replicas int
	// Poll is how often an idle relay looks into the outbox. Default 25 ms.
	Poll time.Duration
	// Batch is how many jobs a relay claims at once. Default 128: the stream syncs
	// each by itself, and all are to be acknowledged within one call.
	Batch int
	// Announcements is how many announcements a relay claims at once. Default 1024:
	// nothing syncs them, and where commits wait for a connection to the ledger a
	// relay waits as long for each claim, however small.
	Announcements int
	// Sweep is how often the sweeper looks for lost jobs. Default two AckWaits: 1 min.
	Sweep time.Duration
	// Lost is the age from which an unanswered job is looked for in the stream.
	// Default two AckWaits: 1 min.
	Lost time.Duration
	// Keep is how long published messages stay in the outbox. Default 1 h.
	Keep time.Duration
	// Logger gets one line for each commit, and one for each thing that an operator
	// acts on. Default: none.
	Logger *slog.Logger
	// BatchLevel is the level of the line of a commit. Default info.
	BatchLevel slog.Level
	// Trace begins a span for each audit and each answer to a trainer. Nil: no spans.
	Trace audit.TraceFunc
	// Interrupt is a seam for kill tests, called at the numbered arrows of the
	// package comment; an error stops the caller there as a crash would. Nil in
	// production.
	Interrupt func(ctx context.Context, arrow Arrow) error
}

// Arrow numbers the places between two effects (see the package comment).
type Arrow int

// The arrows that the queue passes; the ledger's own are its Interrupt points.
const (
	AfterClaim   Arrow = 1
	AfterPublish Arrow = 2
	AfterMark    Arrow = 3
	AfterFetch   Arrow = 4
	AfterHandle  Arrow = 5
	AfterCommit  Arrow = 7
	AfterAck     Arrow = 8
	AfterBury    Arrow = 9
	AfterResend  Arrow = 10
)

// maxMessageSize is the stream's limit for one message, NATS's own default for a
// payload. A larger episode travels as a reference.
const maxMessageSize = 1 << 20

// claimBytes bounds the memory that a relay's claim takes, of each kind: a claim of
// small messages ends at their number, one of large ones here.
const claimBytes = 32 << 20

func (c Config) withDefaults() Config {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	count := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	or(&c.AckWait, 30*time.Second)
	or(&c.Timeout, 10*time.Minute)
	or(&c.Grace, 30*time.Second)
	or(&c.Backoff, max(c.AckWait/60, 1))
	or(&c.BackoffCap, c.AckWait)
	or(&c.Duplicates, 2*time.Minute)
	or(&c.Poll, 25*time.Millisecond)
	or(&c.Sweep, 2*c.AckWait)
	or(&c.Lost, 2*c.AckWait)
	or(&c.Keep, time.Hour)
	count(&c.Attempts, 5)
	count(&c.InFlight, 4*runtime.GOMAXPROCS(0))
	count(&c.Replicas, 1)
	count(&c.Batch, 128)
	count(&c.Announcements, 1024)
	if c.MaxMessages == 0 {
		c.MaxMessages = 200_000
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 1 << 30
	}
	if c.Prefix == "" {
		c.Prefix = "audit"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate lists every setting that cannot work.
func (c Config) Validate() error {
	c = c.withDefaults()
	var faults []error
	refuse := func(wrong bool, message, hint string) {
		if wrong {
			faults = append(faults, &audit.Error{Code: audit.CodeInvalid, Message: "queue: " + message, Hint: hint})
		}
	}
	for _, r := range c.Prefix {
		ok := r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		refuse(!ok, fmt.Sprintf("prefix %q holds %q", c.Prefix, r), "use letters, digits and underscores")
	}
	refuse(c.AckWait < 3*time.Millisecond, fmt.Sprintf("ack wait is %s", c.AckWait), "give at least three heartbeats' time, such as 30s")
	refuse(c.Attempts < 1, fmt.Sprintf("attempts is %d", c.Attempts), "give at least 1")
	refuse(c.InFlight < 1, fmt.Sprintf("in-flight is %d", c.InFlight), "give at least 1")
	refuse(c.Batch < 1 || c.Announcements < 1, fmt.Sprintf("batch is %d, announcements is %d", c.Batch, c.Announcements), "give at least 1")
	refuse(c.Replicas < 1 || c.Replicas > 5, fmt.Sprintf("replicas is %d", c.Replicas), "give 1, or 3 on a cluster")
	refuse(c.Timeout < 0 || c.Grace < 0 || c.Backoff < 0 || c.BackoffCap < c.Backoff, "a duration is negative, or the back-off's cap is below its start", "leave durations out for the defaults")
	return errors.Join(faults...)
}

func (c Config) interrupt(ctx context.Context, arrow Arrow) error {
	if c.Interrupt == nil {
		return nil
	}
	return c.Interrupt(ctx, arrow)
}

// CrashError is what an Interrupt function, also the ledger's, returns to stop a
// service on the spot: nothing is finished, acknowledged or handed back.
type CrashError struct{ Point string }

// Error names the point.
func (e *CrashError) Error() string { return "crash at " + e.Point }

// crashed finds a crash in err.
func crashed(err error) (*CrashError, bool) { return errors.AsType[*CrashError](err) }
