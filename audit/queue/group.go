package queue

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"understudy/audit"
)

// Bounds of one group: a transaction stays short, and its statements small.
const (
	groupJobs  = 32
	groupPairs = 1000
)

// group commits together what several hands have finished while another commit
// was under way: one transaction and one sync for all of them. Nobody waits for
// company: a job that finds no commit under way is committed at once.
type group struct {
	store Store
	log   *slog.Logger
	level slog.Level // of a commit's line

	mu      sync.Mutex
	busy    bool // somebody commits, or was told to
	waiting []*ticket
}

// ticket is one finished job in the queue for a commit.
type ticket struct {
	audit.Finished
	err  error
	turn chan bool // true: commit what waits; false: somebody did, err is the answer
}

// finish returns after the COMMIT that holds the job. A group that fails costs
// nobody anything but time: each hand then commits its own job alone.
func (g *group) finish(ctx context.Context, f audit.Finished) error {
	t := &ticket{Finished: f, turn: make(chan bool, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, t)
	lead := !g.busy
	g.busy = true
	g.mu.Unlock()
	alone := false
	if lead || <-t.turn {
		alone = g.lead(ctx, t)
	}
	if _, crash := crashed(t.err); t.err == nil || crash || alone || ctx.Err() != nil {
		return t.err
	}
	return g.commit(ctx, []audit.Finished{f})
}

// commit stores jobs of one run in one transaction, and says so in one line.
func (g *group) commit(ctx context.Context, finished []audit.Finished) error {
	began := time.Now()
	receipts, err := g.store.FinishAll(ctx, finished)
	if err == nil {
		logBatch(ctx, g.log, g.level, finished, receipts, time.Since(began))
	}
	return err
}

// lead commits the group of the first ticket, tells the others and passes the
// turn on. It reports whether the ticket was alone.
func (g *group) lead(ctx context.Context, t *ticket) (alone bool) {
	tickets := g.take()
	finished := make([]audit.Finished, len(tickets))
	for i, other := range tickets {
		finished[i] = other.Finished
	}
	err := g.commit(ctx, finished)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, other := range tickets {
		other.err = err
		if other != t {
			other.turn <- false
		}
	}
	if g.busy = len(g.waiting) > 0; g.busy {
		g.waiting[0].turn <- true
	}
	return len(tickets) == 1
}

// take removes the first ticket and those that may join it: other jobs of its run.
func (g *group) take() []*ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	run := g.waiting[0].Job.Run
	var tickets, left []*ticket
	seen, pairs := map[audit.Digest]bool{}, 0
	for _, t := range g.waiting {
		full := len(tickets) == groupJobs || (pairs > 0 && pairs+len(t.Pairs) > groupPairs)
		if full || t.Job.Run != run || seen[t.Job.ID] {
			left = append(left, t)
			continue
		}
		seen[t.Job.ID], pairs = true, pairs+len(t.Pairs)
		tickets = append(tickets, t)
	}
	g.waiting = left
	return tickets
}
