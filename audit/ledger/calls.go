package ledger

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

const lineColumns = `
	m.key, m.episode, e.name, m.step, a.probe, a.sample, m.tool, p.mode, p.version, m.prompt_group, p.actual, p.rehearsed, m.severity,
	p.false_success, m.masked, p.cascaded, p.fork, p.cells, m.committed_at,
	(SELECT substring(b.content FOR 160) FROM body b WHERE b.run = $1 AND b.digest = p.arguments)`

// lineTables join what a line shows beside the membership m in the run $1. The
// run is $1 everywhere: m.run would be known only when the plan is made already.
const lineTables = `
	JOIN pair p ON p.key = m.key AND p.result = m.result
	JOIN episode e ON e.run = $1 AND e.id = m.episode
	JOIN LATERAL (
		SELECT a.probe, a.sample FROM action a
		WHERE a.run = $1 AND a.episode = m.episode AND a.step = m.step AND a.key = m.key LIMIT 1
	) a ON true`

func scanLine(row pgx.CollectableRow) (audit.CallLine, error) {
	var (
		c            audit.CallLine
		key, episode []byte
		severity     int16
	)
	err := row.Scan(&key, &episode, &c.Name, &c.Step, &c.Probe, &c.Sample, &c.Tool, &c.Mode, &c.Version, &c.PromptGroup, &c.Real, &c.Rehearsed,
		&severity, &c.FalseSuccess, &c.Masked, &c.Cascaded, &c.Fork, &c.Cells, &c.Committed, &c.Arguments)
	if err == nil {
		c.Key, c.Episode, c.Severity = audit.Digest(key), audit.Digest(episode), audit.Severity(severity)
	}
	return c, err
}

// Calls lists a run's calls, worst first, a page at a time. The second result
// is the After of the next page, "" when there is none.
func (l *Ledger) Calls(ctx context.Context, run string, f audit.CallFilter, page audit.Page) ([]audit.CallLine, string, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, "", infrastructure(err)
	}
	severity, key, err := pairCursor(page.After)
	if err != nil {
		return nil, "", err
	}
	limit := pageLimit(page)
	where, args := callFilter(f, id, severity, key)
	args = append(args, limit+1)
	lines, err := l.lines(ctx, `SELECT `+lineColumns+` FROM (
			SELECT m.* FROM run_pair m JOIN pair p ON p.key = m.key AND p.result = m.result
			WHERE `+where+` ORDER BY m.severity DESC, m.key LIMIT $`+strconv.Itoa(len(args))+`
		) m `+lineTables+` ORDER BY m.severity DESC, m.key`, args...)
	if err != nil {
		return nil, "", infrastructure(fmt.Errorf("list calls: %w", err))
	}
	if len(lines) <= limit {
		return lines, "", nil
	}
	last := lines[limit-1]
	return lines[:limit], strconv.Itoa(int(last.Severity)) + "-" + last.Key.String(), nil
}

// lines reads lines in the order of an index, one after the other until the page
// is full: to sort a large run costs half a second.
func (l *Ledger) lines(ctx context.Context, sql string, args ...any) ([]audit.CallLine, error) {
	var lines []audit.CallLine
	err := l.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local enable_sort = off`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, scanLine)
		return err
	})
	return lines, err
}

// callFilter writes only the conditions that are asked for, so that each
// combination is planned for itself.
func callFilter(f audit.CallFilter, run int32, severity int16, key []byte) (string, []any) {
	where := `m.run = $1 AND m.severity <= $2 AND (m.severity < $2 OR m.key > $3)`
	args := []any{run, severity, key}
	and := func(holds bool, condition string, arg any) {
		if holds {
			args = append(args, arg)
			where += " AND " + condition + strconv.Itoa(len(args))
		}
	}
	and(f.Tool != "", `m.tool = $`, label(f.Tool))
	and(f.MinSeverity > 0, `m.severity >= $`, int16(f.MinSeverity))
	and(f.Masked != nil, `(m.masked <> '') = $`, f.Masked)
	and(f.Real != "", `p.actual = $`, label(f.Real))
	and(f.Rehearsed != "", `p.rehearsed = $`, label(f.Rehearsed))
	and(f.Slice.Mode != "", `p.mode = $`, string(f.Slice.Mode))
	and(f.Slice.Version != "", `p.version = $`, label(f.Slice.Version))
	if split, ok := successOf(f.Slice.Split); ok {
		and(true, `CASE WHEN m.executed >= 0 THEN m.executed ELSE m.reported END = $`, split)
	}
	return where, args
}

// splitOf is the split that a stored success belongs to.
func splitOf(success int16) audit.Split {
	switch success {
	case 1:
		return audit.Succeeded
	case 0:
		return audit.NotReached
	default:
		return audit.NoSuccessOf
	}
}

// successOf is the stored success that a split means; false for all tasks.
func successOf(s audit.Split) (int16, bool) {
	switch s {
	case audit.Succeeded:
		return 1, true
	case audit.NotReached:
		return 0, true
	case audit.NoSuccessOf:
		return -1, true
	case audit.AllTasks:
	}
	return 0, false
}

// Fields lists how a tool's calls differ, most frequent first: kinds of
// difference with their counts and samples. What was counted before the ledger
// split it by task success is in AllTasks alone.
func (l *Ledger) Fields(ctx context.Context, run, tool string, slice audit.Slice) ([]audit.Field, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, infrastructure(err)
	}
	var success *int16 // nil: of all tasks
	if of, ok := successOf(slice.Split); ok {
		success = &of
	}
	rows, err := l.pool.Query(ctx, `
		SELECT l.part, l.pattern, l.kind, l.class, sum(l.pairs)::bigint, max(l.severity), array_agg(l.id) FROM leaf l
		WHERE l.run = $1 AND l.tool = $2 AND ($3 = '' OR l.mode = $3) AND ($4 = '' OR l.version = $4) AND ($5::smallint IS NULL OR l.success = $5) AND l.pairs > 0
		GROUP BY l.part, l.pattern, l.kind, l.class ORDER BY sum(l.pairs) DESC, l.part, l.pattern, l.kind LIMIT 500`,
		id, label(tool), string(slice.Mode), label(slice.Version), success)
	if err != nil {
		return nil, infrastructure(fmt.Errorf("read fields: %w", err))
	}
	index := map[int64]int{}
	var fields []audit.Field
	var (
		f        audit.Field
		severity int16
		ids      []int64
	)
	_, err = pgx.ForEachRow(rows, []any{&f.Part, &f.Pattern, &f.Kind, &f.Class, &f.Pairs, &severity, &ids}, func() error {
		f.Severity = audit.Severity(severity)
		for _, leaf := range ids {
			index[leaf] = len(fields)
		}
		fields = append(fields, f)
		return nil
	})
	if err != nil {
		return nil, infrastructure(fmt.Errorf("read fields: %w", err))
	}
	return fields, infrastructure(l.fieldSamples(ctx, index, fields))
}

func (l *Ledger) fieldSamples(ctx context.Context, index map[int64]int, fields []audit.Field) error {
	leaves := make([]int64, 0, len(index))
	for leaf := range index {
		leaves = append(leaves, leaf)
	}
	rows, err := l.pool.Query(ctx, `
		SELECT leaf, key, pointer, rehearsed, actual FROM leaf_sample WHERE leaf = ANY($1) ORDER BY severity DESC, slot, key`, leaves)
	if err != nil {
		return fmt.Errorf("read samples: %w", err)
	}
	var (
		leaf                            int64
		key, pointer, rehearsed, actual []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&leaf, &key, &pointer, &rehearsed, &actual}, func() error {
		f := &fields[index[leaf]]
		if len(f.Samples) < keptSamples {
			f.Samples = append(f.Samples, audit.Sample{Pair: audit.Digest(key), Pointer: string(pointer), Rehearsed: string(rehearsed), Real: string(actual)})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read samples: %w", err)
	}
	return nil
}

// Call reads one call of a run with what surrounds it.
func (l *Ledger) Call(ctx context.Context, run string, key audit.Digest) (audit.CallRecord, error) {
	var c audit.CallRecord
	id, err := l.runID(ctx, run)
	if err != nil {
		return c, infrastructure(err)
	}
	err = l.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
		pairs, err := readPairs(ctx, tx, id, ` AND m.key = $2`, key[:])
		if err != nil {
			return err
		}
		if len(pairs) == 0 {
			return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("call %s is not in run %q", key, run), Hint: "the run may have been dropped; the list of calls has those that are there"}
		}
		c.Pair = pairs[0]
		return readSurroundings(ctx, tx, id, key, &c)
	})
	return c, infrastructure(err)
}

// readSurroundings reads what a call's page shows beside its pair.
func readSurroundings(ctx context.Context, tx pgx.Tx, run int32, key audit.Digest, c *audit.CallRecord) error {
	var (
		episode []byte
		err     error
	)
	if err := tx.QueryRow(ctx, `SELECT episode, masked FROM run_pair WHERE run = $1 AND key = $2`, run, key[:]).Scan(&episode, &c.Masked); err != nil {
		return fmt.Errorf("read call %s: %w", key, err)
	}
	c.Episode = audit.Digest(episode)
	if c.Whole, err = readTruncated(ctx, tx, run, key); err != nil {
		return err
	}
	if c.Answers, err = answers(ctx, tx, run, c); err != nil {
		return err
	}
	if err := neighbours(ctx, tx, run, c); err != nil {
		return err
	}
	c.Marks, err = marksOf(ctx, tx, run, &c.Pair)
	return err
}

// answers groups the rehearsals of the call's action.
func answers(ctx context.Context, tx pgx.Tx, run int32, c *audit.CallRecord) ([]audit.AnswerGroup, error) {
	rows, err := tx.Query(ctx, `
		SELECT count(*), (array_agg(p.key ORDER BY a.sample))[1], max(p.severity), max(p.masked),
			coalesce((SELECT substring(b.content FOR 200) FROM body b WHERE b.run = $1 AND b.digest = p.rehearsal), '')
		FROM action a JOIN pair p ON p.key = a.key AND p.result = a.result
		WHERE a.run = $1 AND a.episode = $2 AND a.step = $3 AND a.probe = $4
		GROUP BY p.rehearsal ORDER BY 1 DESC, 2 LIMIT 50`, run, c.Episode[:], c.Pair.Action.Step, c.Pair.Action.Probe)
	if err != nil {
		return nil, fmt.Errorf("read rehearsals: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.AnswerGroup, error) {
		var (
			g        audit.AnswerGroup
			key      []byte
			severity int16
		)
		err := row.Scan(&g.Times, &key, &severity, &g.Masked, &g.Preview)
		if err == nil {
			g.Key, g.Severity = audit.Digest(key), audit.Severity(severity)
		}
		return g, err
	})
}

// neighbours finds the calls before and after one in its episode.
func neighbours(ctx context.Context, tx pgx.Tx, run int32, c *audit.CallRecord) error {
	var before, after []byte
	a := &c.Pair.Action
	err := tx.QueryRow(ctx, `
		SELECT
			(SELECT a.key FROM action a JOIN run_pair m ON m.run = $1 AND m.key = a.key
				WHERE a.run = $1 AND a.episode = $2 AND (a.step, a.probe, a.sample) < ($3, $4, $5) AND a.key <> $6
				ORDER BY a.step DESC, a.probe DESC, a.sample DESC LIMIT 1),
			(SELECT a.key FROM action a JOIN run_pair m ON m.run = $1 AND m.key = a.key
				WHERE a.run = $1 AND a.episode = $2 AND (a.step, a.probe, a.sample) > ($3, $4, $5) AND a.key <> $6
				ORDER BY a.step, a.probe, a.sample LIMIT 1)`,
		run, c.Episode[:], a.Step, a.Probe, a.Sample, c.Pair.Key[:]).Scan(&before, &after)
	if err != nil {
		return fmt.Errorf("read neighbours: %w", err)
	}
	if before != nil {
		c.Previous = audit.Digest(before)
	}
	if after != nil {
		c.Next = audit.Digest(after)
	}
	return nil
}
