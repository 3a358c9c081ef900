package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	return summaries[0], nil
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

// summaries reads what the runs' summaries say, from memory where it was read
// before: computed figures never change, they are replaced.
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
	var ids []int32
	for i := range heads {
		ids = append(ids, heads[i].Number)
	}
	computed, err := l.computedAt(ctx, ids)
	if err != nil {
		return nil, infrastructure(err)
	}
	out := make([]audit.Summary, len(heads))
	for i := range heads {
		key := summaryKey{heads[i].Number, slice, pooled, computed[heads[i].Number]}
		kept, ok := l.summary.get(key)
		if !ok {
			if kept, err = l.readSummary(ctx, key); err != nil {
				return nil, infrastructure(err)
			}
			l.summary.put(key, kept)
		}
		out[i] = kept
		out[i].Run, out[i].Slice = heads[i], slice
	}
	return out, nil
}

// computedAt says when each run's figures were computed.
func (l *Ledger) computedAt(ctx context.Context, ids []int32) (map[int32]time.Time, error) {
	rows, err := l.pool.Query(ctx, `SELECT run, computed_at FROM summary WHERE run = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read summaries: %w", err)
	}
	at := make(map[int32]time.Time, len(ids))
	var (
		run      int32
		computed time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&run, &computed}, func() error {
		at[run] = computed
		return nil
	})
	return at, err
}

func (l *Ledger) readSummary(ctx context.Context, key summaryKey) (audit.Summary, error) {
	var s audit.Summary
	rows, err := l.pool.Query(ctx, `
		SELECT s.moves, s.computed_at, coalesce(c.tool, ''), c.figures
		FROM summary s LEFT JOIN summary_cell c ON c.run = s.run AND c.version = $2 AND c.mode = $3 AND c.split = $4 AND (c.tool IN ('*', '') OR NOT $5)
		WHERE s.run = $1 ORDER BY c.environment, c.tool`,
		key.run, label(key.slice.Version), string(key.slice.Mode), string(key.slice.Split), key.pooled)
	if err != nil {
		return s, fmt.Errorf("read figures: %w", err)
	}
	var (
		tool string
		text []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&s.Moves, &s.Computed, &tool, &text}, func() error {
		if text == nil {
			return nil
		}
		var f audit.Figures
		if err := json.Unmarshal(text, &f); err != nil {
			return fmt.Errorf("read figures of run %d: %w", key.run, err)
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
		return s, fmt.Errorf("read figures: %w", err)
	}
	return s, l.readSlices(ctx, key.run, &s)
}

// readSlices lists the versions and modes that a run has.
func (l *Ledger) readSlices(ctx context.Context, run int32, s *audit.Summary) error {
	rows, err := l.pool.Query(ctx, `SELECT DISTINCT version::text, mode FROM summary_cell WHERE run = $1 AND tool = '*' AND split = 'all' ORDER BY 1, 2`, run)
	if err != nil {
		return fmt.Errorf("read slices: %w", err)
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
	return err
}

// summaryKey names figures that never change.
type summaryKey struct {
	run      int32
	slice    audit.Slice
	pooled   bool
	computed time.Time
}

// summaryCache keeps the summaries that were read last, decoded. What it holds
// is shared: nobody changes it.
type summaryCache struct {
	mu      sync.Mutex
	kept    map[summaryKey]audit.Summary
	figures int // in all that is kept
}

// maxFigures bounds the cache to about a hundred megabytes, however many tools a
// run has; one summary is always kept.
const maxFigures = 16384

func (c *summaryCache) get(key summaryKey) (audit.Summary, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.kept[key]
	return s, ok
}

func (c *summaryCache) put(key summaryKey, s audit.Summary) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.Computed.Equal(key.computed) {
		return // it was replaced in between
	}
	figures := len(s.Tools) + 2
	if c.figures+figures > maxFigures || c.kept == nil {
		c.kept, c.figures = make(map[summaryKey]audit.Summary), 0
	}
	if _, ok := c.kept[key]; !ok {
		c.figures += figures
	}
	c.kept[key] = s
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
	// A run's groups are added up in memory, not on disk.
	if _, err := tx.Exec(ctx, `set local work_mem = '128MB'; set local plan_cache_mode = force_custom_plan`); err != nil {
		return head, nil, infrastructure(err)
	}
	if err := tx.QueryRow(ctx, `SELECT coalesce(sum(moves), 0)::bigint FROM progress WHERE run = $1`, head.Number).Scan(&head.Moves); err != nil {
		return head, nil, infrastructure(err)
	}
	tally, err := l.summaryTally(ctx, tx, head.Number)
	if err != nil {
		return head, nil, infrastructure(err)
	}
	return head, tally.Slices(figureSeed), nil
}
