package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// figureSeed is the bootstrap's: the same counts always give the same bounds.
const figureSeed = 1

// Summary reads a slice of a run's figures as they were last computed; a run
// that has none yet has no Tools.
func (l *Ledger) Summary(ctx context.Context, run string, slice audit.Slice) (audit.Summary, error) {
	summaries, err := l.summaries(ctx, []string{run}, slice, false)
	if err != nil {
		return audit.Summary{}, err
	}
	if len(summaries) == 0 {
		_, err := l.RunHead(ctx, run)
		return audit.Summary{}, err
	}
	s := &summaries[0]
	rows, err := l.pool.Query(ctx, `SELECT DISTINCT version::text, mode FROM summary_cell WHERE run = $1 AND split = 'all' ORDER BY 1, 2`, s.Run.Number)
	if err != nil {
		return *s, infrastructure(err)
	}
	var version, mode string
	_, err = pgx.ForEachRow(rows, []any{&version, &mode}, func() error {
		if version != "" && !slices.Contains(s.Versions, version) {
			s.Versions = append(s.Versions, version)
		}
		if mode != "" && !slices.Contains(s.Modes, audit.Mode(mode)) {
			s.Modes = append(s.Modes, audit.Mode(mode))
		}
		return nil
	})
	slices.Sort(s.Modes)
	return *s, infrastructure(err)
}

// Pooled reads the figures over all tools of several runs, in the order of names.
func (l *Ledger) Pooled(ctx context.Context, runs []string, slice audit.Slice) ([]audit.Summary, error) {
	return l.summaries(ctx, runs, slice, true)
}

// Trend reads the tools' figures of several runs, in the order of names.
func (l *Ledger) Trend(ctx context.Context, runs []string, slice audit.Slice) ([]audit.Summary, error) {
	return l.summaries(ctx, runs, slice, false)
}

// ToolFigures reads one tool's figures in every slice that the run has.
func (l *Ledger) ToolFigures(ctx context.Context, run, environment, tool string) ([]audit.Figures, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, infrastructure(err)
	}
	rows, err := l.pool.Query(ctx, `
		SELECT figures FROM summary_cell WHERE run = $1 AND tool = $2 AND ($3 = '' OR environment = $3)
		ORDER BY environment, version, mode, split`, id, label(tool), label(environment))
	if err != nil {
		return nil, infrastructure(err)
	}
	figures, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f audit.Figures, err error) {
		var text []byte
		if err := row.Scan(&text); err != nil {
			return f, err
		}
		return f, json.Unmarshal(text, &f)
	})
	return figures, infrastructure(err)
}

// Computed says when a run's figures were computed; zero = never.
func (l *Ledger) Computed(ctx context.Context, run string) (time.Time, error) {
	var at time.Time
	err := l.pool.QueryRow(ctx, `SELECT s.computed_at FROM summary s JOIN run r ON r.id = s.run WHERE r.name = $1`, label(run)).Scan(&at)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return at, infrastructure(err)
}

func (l *Ledger) summaries(ctx context.Context, runs []string, slice audit.Slice, pooled bool) ([]audit.Summary, error) {
	names := make([]string, len(runs))
	for i, run := range runs {
		names[i] = label(run)
	}
	rows, err := l.pool.Query(ctx, selectHeads+` AND r.name = ANY($1)`, names)
	if err != nil {
		return nil, infrastructure(err)
	}
	heads, err := pgx.CollectRows(rows, scanHead)
	if err != nil {
		return nil, infrastructure(err)
	}
	slices.SortFunc(heads, func(a, b audit.RunHead) int { return slices.Index(names, a.Name) - slices.Index(names, b.Name) })
	out := make([]audit.Summary, len(heads))
	index := make(map[int32]*audit.Summary, len(heads))
	var ids []int32
	for i := range heads {
		out[i] = audit.Summary{Run: heads[i], Slice: slice}
		index[heads[i].Number], ids = &out[i], append(ids, heads[i].Number)
	}
	return out, infrastructure(l.readCells(ctx, ids, slice, pooled, index))
}

func (l *Ledger) readCells(ctx context.Context, ids []int32, slice audit.Slice, pooled bool, index map[int32]*audit.Summary) error {
	rows, err := l.pool.Query(ctx, `
		SELECT s.run, s.moves, s.computed_at, coalesce(c.tool, ''), c.figures
		FROM summary s LEFT JOIN summary_cell c ON c.run = s.run AND c.version = $2 AND c.mode = $3 AND c.split = $4 AND (c.tool IN ('*', '') OR NOT $5)
		WHERE s.run = ANY($1) ORDER BY s.run, c.environment, c.tool`,
		ids, label(slice.Version), string(slice.Mode), string(slice.Split), pooled)
	if err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	var (
		run   int32
		moves int64
		at    time.Time
		tool  string
		text  []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&run, &moves, &at, &tool, &text}, func() error {
		s := index[run]
		s.Moves, s.Computed = moves, at
		if text == nil {
			return nil
		}
		var f audit.Figures
		if err := json.Unmarshal(text, &f); err != nil {
			return fmt.Errorf("read figures of run %d: %w", run, err)
		}
		switch tool {
		case audit.AllTools:
			s.Pooled = &f
		case "":
			s.Episodes = &f
		default:
			s.Tools = append(s.Tools, f)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	return nil
}

// Stale lists runs whose counters moved since their figures were computed,
// newest first.
func (l *Ledger) Stale(ctx context.Context) ([]string, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT r.name::text FROM run r
		JOIN (SELECT run, sum(moves) AS moves FROM progress GROUP BY run) p ON p.run = r.id
		LEFT JOIN summary s ON s.run = r.id
		WHERE r.state <> 'dropping' AND s.moves IS DISTINCT FROM p.moves ORDER BY r.id DESC`)
	if err != nil {
		return nil, infrastructure(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return names, infrastructure(err)
}

// Summarize computes a run's figures from its counters, in one snapshot, and
// keeps them. Whoever computed a later state first wins.
func (l *Ledger) Summarize(ctx context.Context, run string) error {
	began := time.Now()
	head, cells, err := l.computeSummary(ctx, run)
	if err != nil {
		return err
	}
	return l.inTx(ctx, "summarize run", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO summary AS s (run, moves, took) SELECT id, $2, $3 FROM run WHERE id = $1 AND state <> 'dropping'
			ON CONFLICT (run) DO UPDATE SET moves = excluded.moves, computed_at = clock_timestamp(), took = excluded.took WHERE s.moves <= excluded.moves`,
			head.Number, head.Moves, time.Since(began))
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM summary_cell WHERE run = $1`, head.Number); err != nil {
			return err
		}
		_, err = tx.CopyFrom(ctx, pgx.Identifier{"summary_cell"},
			[]string{"run", "version", "mode", "split", "environment", "tool", "figures"},
			pgx.CopyFromSlice(len(cells), func(i int) ([]any, error) {
				c := &cells[i]
				text, err := json.Marshal(c)
				return []any{head.Number, c.Version, string(c.Mode), string(c.Split), c.Environment, c.Tool, text}, err
			}))
		return err
	})
}

// computeSummary reads a run's counters as they are at one moment and computes
// every slice's figures.
func (l *Ledger) computeSummary(ctx context.Context, run string) (audit.RunHead, []audit.Figures, error) {
	head, err := l.RunHead(ctx, run)
	if err != nil {
		return head, nil, err
	}
	tx, err := l.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return head, nil, infrastructure(err)
	}
	defer rollback(ctx, tx)
	if err := tx.QueryRow(ctx, `SELECT coalesce(sum(moves), 0)::bigint FROM progress WHERE run = $1`, head.Number).Scan(&head.Moves); err != nil {
		return head, nil, infrastructure(err)
	}
	tally, err := l.tally(ctx, tx, head.Number)
	if err != nil {
		return head, nil, infrastructure(err)
	}
	return head, tally.Slices(figureSeed), nil
}
