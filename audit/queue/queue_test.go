package queue_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"understudy/audit"
	"understudy/audit/diff"
	"understudy/audit/ledger"
	"understudy/audit/ledger/ledgertest"
	"understudy/audit/queue"
)

var postgres ledgertest.Server

func TestMain(m *testing.M) { os.Exit(postgres.Main(m)) }

// broker is a JetStream server that can go away and come back, also with an
// empty store, under connections that live on.
type broker struct {
	dir string

	mu     sync.Mutex
	server *server.Server
}

func newBroker(tb testing.TB) *broker {
	tb.Helper()
	b := &broker{dir: filepath.Join(tb.TempDir(), "streams")}
	if err := b.start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.stop)
	return b
}

func (b *broker) start() error {
	s, err := server.NewServer(&server.Options{
		ServerName: "test", DontListen: true, JetStream: true, StoreDir: b.dir, SyncAlways: true, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		return errors.New("the test's JetStream did not start")
	}
	b.mu.Lock()
	b.server = s
	b.mu.Unlock()
	return nil
}

func (b *broker) stop() {
	b.mu.Lock()
	s := b.server
	b.server = nil
	b.mu.Unlock()
	if s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// restart stops the server and starts it again, with an empty store when wiped.
func (b *broker) restart(wiped bool) error {
	b.stop()
	if wiped {
		if err := os.RemoveAll(b.dir); err != nil {
			return err
		}
	}
	return b.start()
}

// InProcessConn connects to whichever server runs now.
func (b *broker) InProcessConn() (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server == nil {
		return nil, errors.New("no server just now")
	}
	return b.server.InProcessConn()
}

func (b *broker) connect(tb testing.TB) jetstream.JetStream {
	tb.Helper()
	conn, err := nats.Connect("", append(reconnecting(), nats.InProcessServer(b))...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	return withPatience(tb, conn)
}

// reconnecting are the options of a connection that outlives its servers.
func reconnecting() []nats.Option {
	return []nats.Option{nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(5 * time.Millisecond), nats.ReconnectJitter(0, 0)}
}

// withPatience asks JetStream what tests ask without a deadline: its own is five seconds.
func withPatience(tb testing.TB, conn *nats.Conn) jetstream.JetStream {
	tb.Helper()
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		tb.Fatal(err)
	}
	return js
}

// bundle is a ledger with one run, a broker, and a configuration for fast tests: pauses
// are short, and no message is taken from a worker because the machine is slow. One that
// comes when its worker has just given up waiting is lost to it until AckWait is over.
type bundle struct {
	*ledger.Ledger
	pool   *pgxpool.Pool
	broker *broker
	js     jetstream.JetStream
	config queue.Config
	run    string
}

func setup(tb testing.TB) *bundle {
	tb.Helper()
	return setupOn(tb, postgres.Pool(tb))
}

func setupOn(tb testing.TB, pool *pgxpool.Pool) *bundle {
	tb.Helper()
	l, err := ledger.New(pool, ledger.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := l.CreateRun(tb.Context(), audit.NewRun{Name: "run", Policy: "policy"}); err != nil {
		tb.Fatal(err)
	}
	b := &bundle{Ledger: l, pool: pool, broker: newBroker(tb), run: "run", config: queue.Config{
		AckWait: time.Minute, Grace: patience, Backoff: 5 * time.Millisecond, BackoffCap: 20 * time.Millisecond,
		Poll: 2 * time.Millisecond, Sweep: 20 * time.Millisecond, Lost: time.Millisecond,
	}}
	b.js = b.broker.connect(tb)
	return b
}

func (b *bundle) enqueue(tb testing.TB, episodes ...audit.Episode) {
	tb.Helper()
	if n, err := b.Enqueue(tb.Context(), b.run, episodes); err != nil || n != len(episodes) {
		tb.Fatalf("enqueued %d of %d: %v", n, len(episodes), err)
	}
}

// service is one of relay, worker and sweeper.
type service interface {
	Run(ctx context.Context) error
}

// start runs services until the returned function stops them; it reports what they returned.
func start(tb testing.TB, services ...service) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	var wait sync.WaitGroup
	for _, s := range services {
		wait.Go(func() {
			if err := s.Run(ctx); err != nil {
				tb.Errorf("service: %v", err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		wait.Wait()
	})
	tb.Cleanup(stop)
	return stop
}

func (b *bundle) relay(tb testing.TB) *queue.Relay {
	tb.Helper()
	r, err := queue.NewRelay(b.js, b.Ledger, b.config)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// flush relays what waits, again where a call was cut off: all that a service does at
// such an error is to try again.
func (b *bundle) flush(tb testing.TB) {
	tb.Helper()
	relay := b.relay(tb)
	settle(tb, "the outbox is empty", func() error { return relay.Flush(tb.Context()) })
}

// sweep looks for lost jobs once, and says how many were sent again.
func (b *bundle) sweep(tb testing.TB) int {
	tb.Helper()
	sweeper, all := b.sweeper(tb), 0
	settle(tb, "the sweep is whole", func() error {
		n, err := sweeper.SweepOnce(tb.Context())
		all += n
		return err
	})
	return all
}

// settle does what a service does at a server that does not answer: it tries again.
func settle(tb testing.TB, what string, try func() error) {
	tb.Helper()
	var last error
	defer func() {
		if last != nil {
			tb.Logf("%s: %v", what, last)
		}
	}()
	await(tb, what, func() bool {
		if last = try(); audit.FaultOf(last) == audit.FaultPermanent {
			tb.Fatal(last)
		}
		return last == nil
	})
}

// answer is what the server says to a call, when it says something.
func answer(tb testing.TB, try func() error) (err error) {
	tb.Helper()
	await(tb, "the server answers", func() bool {
		err = try()
		return err == nil || audit.FaultOf(err) == audit.FaultPermanent
	})
	return err
}

func (b *bundle) sweeper(tb testing.TB) *queue.Sweeper {
	tb.Helper()
	s, err := queue.NewSweeper(b.js, b.Ledger, b.config)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func (b *bundle) worker(tb testing.TB, handler queue.Handler) *queue.Worker {
	tb.Helper()
	w, err := queue.NewWorker(b.js, b.Ledger, handler, b.config)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

const (
	// patience is for the slowest machine: what is waited for does come.
	patience = 5 * time.Minute
	// many attempts are never used up by a machine that lets messages expire.
	many = 10_000
)

// await polls until the claim holds.
func await(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			tb.Fatalf("waited %s until %s", patience, what)
		case <-tick.C:
		}
	}
}

func (b *bundle) progress(tb testing.TB) audit.Run {
	tb.Helper()
	r, err := b.RunByName(tb.Context(), b.run)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func (b *bundle) number(tb testing.TB, sql string) int {
	tb.Helper()
	var n int
	if err := b.pool.QueryRow(tb.Context(), sql).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func (b *bundle) verify(tb testing.TB) ledger.Report {
	tb.Helper()
	report, err := b.Verify(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range report.Findings {
		tb.Errorf("verify: %s", f)
	}
	return report
}

// streamed counts the messages of a stream.
func (b *bundle) streamed(tb testing.TB, name string) int {
	tb.Helper()
	s, err := b.js.Stream(tb.Context(), name)
	if err != nil {
		tb.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

// newEpisodes are n small episodes with two actions each.
func newEpisodes(prefix string, n int) []audit.Episode {
	episodes := make([]audit.Episode, n)
	for i := range episodes {
		e := audit.Episode{
			ID: fmt.Sprintf("%s-%d", prefix, i), PromptGroup: fmt.Sprintf("%s-group-%d", prefix, i/4), Policy: "policy", WireAPI: "recorded",
			Environment: "shop", Mode: audit.Forced,
		}
		for step := range 2 {
			e.Actions = append(e.Actions, audit.Action{
				Step: step, Call: audit.Call{Tool: "get_order", Arguments: fmt.Appendf(nil, `{"order_id":"#%d"}`, i)},
				Rehearsal: &audit.Rehearsal{Raw: []byte(`{"status":"delivered"}`)},
			})
		}
		episodes[i] = e
	}
	return episodes
}

// rehearsed is a cheap handler: a pure function of the episode.
func rehearsed(_ context.Context, e audit.Episode) ([]audit.Pair, error) {
	pairs := make([]audit.Pair, len(e.Actions))
	ok := audit.Outcome{Class: audit.OK}
	for i, a := range e.Actions {
		pairs[i] = audit.Pair{
			Key: sha256.Sum256(fmt.Append(nil, e.ID, e.Mode, a.Step)), Episode: e.ID, PromptGroup: e.PromptGroup, Policy: e.Policy,
			Environment: "shop", Version: "1", EnvDigest: sha256.Sum256([]byte("shop")), Mode: e.Mode, Action: a, Effect: audit.Read,
			Observation: &audit.Observation{Status: audit.StatusOK, Raw: []byte(`{"status":"delivered"}`), Evidence: audit.EvidenceExact, Delta: diff.Patch{}},
			Verdict:     audit.Verdict{Real: ok, Rehearsed: ok, Evidence: audit.EvidenceExact, Scores: audit.Scores{Valid: true, LeafF1: new(1.0)}},
		}
	}
	return pairs, nil
}

// What no stream takes is given up where it is a hint only, and holds up nothing
// behind it.
func TestAMessageTooLargeHoldsUpNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enqueue(t, newEpisodes("first", 1)...)
	if _, err := b.pool.Exec(t.Context(), `
		INSERT INTO outbox (id, run, topic, episode, attempt, payload) OVERRIDING SYSTEM VALUE
		SELECT id - 1000, run, 'result', episode, 1, convert_to(repeat('x', 2 << 20), 'UTF8') FROM outbox`); err != nil {
		t.Fatal(err)
	}
	b.flush(t)
	if n := b.streamed(t, "AUDIT_JOBS"); n != 1 {
		t.Errorf("%d jobs in the stream, want the one behind the large message", n)
	}
	if n := b.number(t, `SELECT count(*) FROM outbox WHERE published_at IS NULL`); n != 0 {
		t.Errorf("%d messages wait, want none", n)
	}
}
