package ledger

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

var _ audit.Scheduler = (*Ledger)(nil)

// scheduleCandidates bounds how many episodes one order looks at.
const scheduleCandidates = 1000

// Schedule queues more audits for a run: canaries for the figures that need
// calls which the sandbox refuses, and otherwise the run's own episodes once
// more, with the next sample index, so that the policy is asked again. Episodes
// that brought their rehearsals along have no second answer and are no source.
// See audit.Scheduler.
func (l *Ledger) Schedule(ctx context.Context, run string, orders []audit.Order) (int, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return 0, infrastructure(err)
	}
	queued := 0
	for _, order := range orders {
		n, err := l.schedule(ctx, id, order)
		if err != nil {
			return queued, infrastructure(fmt.Errorf("schedule %d calls of %s: %w", order.Calls, order.Tool, err))
		}
		queued += n
	}
	return queued, nil
}

func (l *Ledger) schedule(ctx context.Context, run int32, order audit.Order) (int, error) {
	queued := 0
	err := l.inTx(ctx, "schedule", func(ctx context.Context, tx pgx.Tx) error {
		queued = 0
		// Two gates that buy at once wait for each other.
		if _, err := tx.Exec(ctx, `SELECT FROM run WHERE id = $1 FOR UPDATE`, run); err != nil {
			return err
		}
		open, err := orderOpen(ctx, tx, run, order)
		if err != nil || open {
			return err
		}
		sources, err := orderSources(ctx, tx, run, order)
		if err != nil {
			return err
		}
		var episodes []audit.Episode
		calls := map[audit.Digest]int{}
		for i := range sources {
			_, id, err := audit.EncodeEpisode(&sources[i])
			if err != nil {
				return err
			}
			n := callsOf(&sources[i], order.Tool)
			if n == 0 || queued >= order.Calls || calls[id] > 0 {
				continue
			}
			calls[id] = n
			queued += n
			episodes = append(episodes, sources[i])
		}
		jobs, err := newJobColumns(episodes)
		if err != nil {
			return err
		}
		if _, err := jobs.insert(ctx, tx, run); err != nil {
			return err
		}
		return noteOrder(ctx, tx, run, order, calls)
	})
	return queued, err
}

func orderOpen(ctx context.Context, tx pgx.Tx, run int32, o audit.Order) (bool, error) {
	var open bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM sample_order s JOIN episode e ON e.run = s.run AND e.id = s.episode
			WHERE s.run = $1 AND s.environment = $2 AND s.version = $3 AND s.tool = $4 AND s.mode = $5 AND s.figure = $6 AND e.state = 'open')`,
		run, label(o.Environment), label(o.Version), label(o.Tool), string(o.Mode), label(string(o.Figure))).Scan(&open)
	return open, err
}

func noteOrder(ctx context.Context, tx pgx.Tx, run int32, o audit.Order, calls map[audit.Digest]int) error {
	batch := &pgx.Batch{}
	for id, n := range calls {
		batch.Queue(`
			INSERT INTO sample_order (run, environment, version, tool, mode, figure, episode, calls) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT DO NOTHING`,
			run, label(o.Environment), label(o.Version), label(o.Tool), string(o.Mode), label(string(o.Figure)), id[:], n)
	}
	return tx.SendBatch(ctx, batch).Close()
}

// orderSources finds episodes that hold calls of the order's tool and are not
// in the run yet.
func orderSources(ctx context.Context, tx pgx.Tx, run int32, o audit.Order) ([]audit.Episode, error) {
	if o.Mode == audit.Canary || o.Figure == audit.FigureFSR || o.Figure == audit.FigureErrorFamily {
		return storedEpisodes(ctx, tx, `
			SELECT c.episode FROM canary c
			WHERE c.environment = $2 AND ($3 = '' OR c.version = $3) AND c.tool = $4
				AND NOT EXISTS (SELECT FROM episode e WHERE e.run = $1 AND e.id = c.id)
			ORDER BY c.id LIMIT $5`, run, label(o.Environment), label(o.Version), label(o.Tool), scheduleCandidates)
	}
	sources, err := storedEpisodes(ctx, tx, `
		SELECT e.body FROM episode e
		WHERE e.run = $1 AND e.body IS NOT NULL AND e.state = 'done' AND e.mode = $5 AND EXISTS (
			SELECT FROM action a JOIN pair p ON p.key = a.key AND p.result = a.result
			WHERE a.run = e.run AND a.episode = e.id AND p.environment = $2 AND ($3 = '' OR p.version = $3) AND p.tool = $4)
		ORDER BY e.id LIMIT $6`, run, label(o.Environment), label(o.Version), label(o.Tool), string(o.Mode), scheduleCandidates)
	if err != nil {
		return nil, err
	}
	again := make([]audit.Episode, 0, len(sources))
	for _, e := range sources {
		if next, ok := nextSample(e); ok {
			again = append(again, next)
		}
	}
	return unknownEpisodes(ctx, tx, run, again)
}

func storedEpisodes(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]audit.Episode, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Episode, error) {
		var body []byte
		if err := row.Scan(&body); err != nil {
			return audit.Episode{}, err
		}
		e, err := audit.DecodeEpisode(body)
		if err != nil {
			return audit.Episode{}, err
		}
		return *e, nil
	})
}

// nextSample is the episode with the next sample index on every action; false
// when an action brought its rehearsal along.
func nextSample(e audit.Episode) (audit.Episode, bool) {
	actions := make([]audit.Action, len(e.Actions))
	for i, a := range e.Actions {
		if a.Rehearsal != nil {
			return e, false
		}
		a.Sample++
		actions[i] = a
	}
	e.Actions = actions
	return e, true
}

// unknownEpisodes leaves out what the run already has.
func unknownEpisodes(ctx context.Context, tx pgx.Tx, run int32, episodes []audit.Episode) ([]audit.Episode, error) {
	fresh := make([]audit.Episode, 0, len(episodes))
	for i := range episodes {
		_, id, err := audit.EncodeEpisode(&episodes[i])
		if err != nil {
			return nil, err
		}
		var known bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM episode WHERE run = $1 AND id = $2)`, run, id[:]).Scan(&known); err != nil {
			return nil, err
		}
		if !known {
			fresh = append(fresh, episodes[i])
		}
	}
	return fresh, nil
}

// callsOf counts the calls of a tool that an audit of the episode would judge.
func callsOf(e *audit.Episode, tool string) int {
	n := 0
	for i := range e.Actions {
		if a := &e.Actions[i]; a.Call.Tool == tool && !a.Replay {
			n++
		}
	}
	return n
}
