package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// scheduleCandidates bounds how many of the run's own episodes one order looks at.
const scheduleCandidates = 1000

// Fulfil queues the calls that an order asks for, and notes what it queued: the
// same order queues nothing while one of its episodes is open. It takes the
// candidates that the run does not have yet, and then the run's own episodes
// once more with the next sample index, so that the policy is asked again.
// Episodes that brought their rehearsals along have no second answer. It returns
// how many calls were queued: fewer than ordered when the sources run out, more
// when the last episode calls the tool more than once.
func (l *Ledger) Fulfil(ctx context.Context, run string, order audit.Order, candidates []audit.Episode) (int, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return 0, infrastructure(err)
	}
	queued := 0
	err = l.inTx(ctx, fmt.Sprintf("order %d calls of %s", order.Calls, order.Tool), func(ctx context.Context, tx pgx.Tx) error {
		queued, err = fulfil(ctx, tx, id, order, candidates)
		return err
	})
	return queued, infrastructure(err)
}

func fulfil(ctx context.Context, tx pgx.Tx, run int32, order audit.Order, candidates []audit.Episode) (int, error) {
	// Two gates that buy at once wait for each other.
	if _, err := tx.Exec(ctx, `SELECT FROM run WHERE id = $1 FOR UPDATE`, run); err != nil {
		return 0, err
	}
	open, err := orderOpen(ctx, tx, run, order)
	if err != nil || open {
		return 0, err
	}
	again, err := askedAgain(ctx, tx, run, order)
	if err != nil {
		return 0, err
	}
	sources, err := unknownEpisodes(ctx, tx, run, slices.Concat(candidates, again))
	if err != nil {
		return 0, err
	}
	queued, calls, episodes := 0, map[audit.Digest]int{}, []audit.Episode{}
	for _, s := range sources {
		n := callsOf(s.episode, order.Tool)
		if n == 0 || queued >= order.Calls || calls[s.id] > 0 {
			continue
		}
		calls[s.id] = n
		queued += n
		episodes = append(episodes, *s.episode)
	}
	jobs, err := newJobColumns(episodes)
	if err != nil {
		return 0, err
	}
	if _, err := jobs.insert(ctx, tx, run); err != nil {
		return 0, err
	}
	return queued, noteOrder(ctx, tx, run, order, calls)
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

// askedAgain are the run's own episodes that hold calls of the order's tool, with
// the next sample index.
func askedAgain(ctx context.Context, tx pgx.Tx, run int32, o audit.Order) ([]audit.Episode, error) {
	rows, err := tx.Query(ctx, `
		SELECT e.body FROM episode e
		WHERE e.run = $1 AND e.body IS NOT NULL AND e.state = 'done' AND e.mode = $5 AND EXISTS (
			SELECT FROM action a JOIN pair p ON p.key = a.key AND p.result = a.result
			WHERE a.run = e.run AND a.episode = e.id AND p.environment = $2 AND ($3 = '' OR p.version = $3) AND p.tool = $4)
		ORDER BY e.id LIMIT $6`, run, label(o.Environment), label(o.Version), label(o.Tool), string(o.Mode), scheduleCandidates)
	if err != nil {
		return nil, err
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, err
	}
	again := make([]audit.Episode, 0, len(bodies))
	for _, body := range bodies {
		e, err := audit.DecodeEpisode(body)
		if err != nil {
			return nil, err
		}
		if next, ok := nextSample(*e); ok {
			again = append(again, next)
		}
	}
	return again, nil
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

// source is an episode that an order can be fulfilled with.
type source struct {
	id      audit.Digest
	episode *audit.Episode
}

// unknownEpisodes leaves out what the run already has.
func unknownEpisodes(ctx context.Context, tx pgx.Tx, run int32, episodes []audit.Episode) ([]source, error) {
	sources, ids := make([]source, len(episodes)), make([][]byte, len(episodes))
	for i := range episodes {
		_, id, err := audit.EncodeEpisode(&episodes[i])
		if err != nil {
			return nil, err
		}
		sources[i], ids[i] = source{id, &episodes[i]}, id[:]
	}
	rows, err := tx.Query(ctx, `SELECT id FROM episode WHERE run = $1 AND id = ANY($2::bytea[])`, run, ids)
	if err != nil {
		return nil, err
	}
	known := map[audit.Digest]bool{}
	var id []byte
	if _, err := pgx.ForEachRow(rows, []any{&id}, func() error { known[audit.Digest(id)] = true; return nil }); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(sources, func(s source) bool { return known[s.id] }), nil
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
