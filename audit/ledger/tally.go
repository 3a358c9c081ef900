package ledger

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
	"understudy/audit/stat"
)

// Tally reads a run's counters by cell and prompt group: what its figures are
// computed from.
func (l *Ledger) Tally(ctx context.Context, run string) (*audit.Tally, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, err
	}
	return l.tally(ctx, l.pool, id, `prompt_group`)
}

// querier is the pool, or one transaction's snapshot.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Beyond manyGroups prompt groups a summary is computed over randomGroup, of
// which there are 1024: prompt groups merged at random are as independent as
// they were (random groups; Wolter 2007, chapter 2), intervals stay right, and
// neither the wire nor memory grows with the run.
const (
	manyGroups  = 2048
	randomGroup = `(('x' || left(md5(prompt_group), 4))::bit(16)::integer % 1024)::text`
)

// summaryTally reads the counters that a run's summary is computed from.
func (l *Ledger) summaryTally(ctx context.Context, tx pgx.Tx, run int32) (*audit.Tally, error) {
	groups := 0
	err := tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT DISTINCT prompt_group FROM rollup WHERE run = $1 LIMIT $2) g`, run, manyGroups+1).Scan(&groups)
	if err != nil {
		return nil, fmt.Errorf("count prompt groups: %w", err)
	}
	if groups > manyGroups {
		return l.tally(ctx, tx, run, randomGroup)
	}
	return l.tally(ctx, tx, run, `prompt_group`)
}

// tally adds a run's counters up by cell and by group, an SQL expression.
func (l *Ledger) tally(ctx context.Context, from querier, id int32, group string) (*audit.Tally, error) {
	tally := audit.NewTally()
	for _, read := range []func(context.Context, querier, int32, string, *audit.Tally) error{
		l.tallyFigures, tallyOutcomes, tallyCounters, tallyEpisodes,
	} {
		if err := read(ctx, from, id, group, tally); err != nil {
			return nil, err
		}
	}
	return tally, nil
}

// tallyColumns are the columns of a tallyKey, in its order.
func tallyColumns(group string) string { return `environment, version, tool, mode, success, ` + group }

// tallyKey is what a line of rollup, counter or cell belongs to.
type tallyKey struct {
	environment, version, tool, mode, group string
	success                                 int16
}

func (k *tallyKey) dest() []any {
	return []any{&k.environment, &k.version, &k.tool, &k.mode, &k.success, &k.group}
}

func (k *tallyKey) cell() audit.Cell {
	return audit.Cell{Environment: k.environment, Version: k.version, Tool: k.tool, Mode: audit.Mode(k.mode), Split: splitOf(k.success)}
}

func (l *Ledger) tallyFigures(ctx context.Context, from querier, run int32, group string, tally *audit.Tally) error {
	rows, err := from.Query(ctx, `SELECT `+tallyColumns(group)+`, `+l.rollup.totals+` FROM rollup WHERE run = $1 GROUP BY 1, 2, 3, 4, 5, 6`, run)
	if err != nil {
		return fmt.Errorf("read rollups: %w", err)
	}
	var k tallyKey
	v := make([][4]float64, len(l.rollup.figures))
	dest := k.dest()
	for i := range v {
		dest = append(dest, &v[i][0], &v[i][1], &v[i][2], &v[i][3])
	}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		counters := make(audit.Counters, len(v))
		for i, f := range l.rollup.figures {
			if n := v[i][0]; n > 0 {
				counters[audit.Counter(f)] = stat.Cluster{N: int(n), Weight: v[i][1], Sum: v[i][2], SumSq: v[i][3]}
			}
		}
		fillBased(counters, k.success == 1)
		tally.Count(k.cell(), k.group, counters)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read rollups: %w", err)
	}
	return nil
}

// tallyOutcomes reads what is counted and not averaged: outcomes, severities,
// masks and the shares of what could not be judged well.
func tallyOutcomes(ctx context.Context, from querier, run int32, group string, tally *audit.Tally) error {
	rows, err := from.Query(ctx, `
		SELECT `+tallyColumns(group)+`, actual, rehearsed, masked, severity, cascaded, sum(n)::bigint, sum(weight), sum(repeats)::bigint
		FROM cell WHERE run = $1 AND n > 0 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11`, run)
	if err != nil {
		return fmt.Errorf("read cells: %w", err)
	}
	var (
		k                         tallyKey
		actual, rehearsed, masked string
		severity                  int16
		cascaded                  bool
		n, repeats                int
		weight                    float64
	)
	dest := append(k.dest(), &actual, &rehearsed, &masked, &severity, &cascaded, &n, &weight, &repeats)
	_, err = pgx.ForEachRow(rows, dest, func() error {
		ones := stat.Cluster{N: n, Weight: weight, Sum: weight, SumSq: weight}
		// Calls weigh 1 each; their squares are nobody's figure.
		calls := stat.Cluster{N: n, Weight: float64(n), Sum: float64(n + repeats), SumSq: float64(n + repeats)}
		counters := audit.Counters{audit.CountPairs: ones, audit.CountCalls: calls}
		switch {
		case masked != "":
			counters[audit.MaskedCounter(audit.MaskReason(masked))] = calls
		case cascaded:
			counters[audit.CountCascaded] = ones
			if audit.Severity(severity) < audit.S3 {
				counters[audit.CountCascaded] = stat.Cluster{N: n, Weight: weight}
			}
		default:
			counters[audit.CountScored] = ones
			counters[audit.ConfusionCounter(strings.TrimPrefix(actual, errorPrefix), strings.TrimPrefix(rehearsed, errorPrefix))] = ones
			counters[audit.SeverityCounter(audit.Severity(severity))] = ones
			fillBased(counters, k.success == 1)
		}
		tally.Count(k.cell(), k.group, counters)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read cells: %w", err)
	}
	return nil
}

// tallyCounters reads what neither figures nor cells hold.
func tallyCounters(ctx context.Context, from querier, run int32, group string, tally *audit.Tally) error {
	rows, err := from.Query(ctx, `
		SELECT `+tallyColumns(group)+`, name, sum(n)::bigint, sum(w), sum(x), sum(xx) FROM counter WHERE run = $1 GROUP BY 1, 2, 3, 4, 5, 6, 7`, run)
	if err != nil {
		return fmt.Errorf("read counters: %w", err)
	}
	var (
		k    tallyKey
		name audit.Counter
		s    stat.Cluster
	)
	_, err = pgx.ForEachRow(rows, append(k.dest(), &name, &s.N, &s.Weight, &s.Sum, &s.SumSq), func() error {
		tally.Count(k.cell(), k.group, audit.Counters{name: s})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read counters: %w", err)
	}
	return nil
}

// tallyEpisodes follows each episode through its verdicts: survival and
// imagined success belong to no pair. It reads a line a result, and keeps one
// episode at a time.
func tallyEpisodes(ctx context.Context, from querier, run int32, group string, tally *audit.Tally) error {
	rows, err := from.Query(ctx, `
		SELECT a.episode, p.environment, p.version, p.mode, e.grouped, e.executed, e.reported, a.probe, a.sample, p.severity, coalesce(m.masked, p.masked)
		FROM action a
		JOIN pair p ON p.key = a.key AND p.result = a.result
		JOIN (SELECT id, executed, reported, `+group+` AS grouped FROM episode WHERE run = $1) e ON e.id = a.episode
		LEFT JOIN run_pair m ON m.run = $1 AND m.key = a.key
		WHERE a.run = $1
		ORDER BY a.episode, a.step, a.probe, a.sample, a.attempt, a.ordinal`, run)
	if err != nil {
		return fmt.Errorf("read episodes: %w", err)
	}
	var (
		id                 []byte
		last               audit.Digest
		p                  audit.Pair
		executed, reported int16
		severity           int16
		pairs              []audit.Pair
	)
	count := func() {
		if len(pairs) > 0 {
			cell := audit.CellOf(&pairs[0])
			cell.Tool = ""
			tally.Count(cell, pairs[0].PromptGroup, audit.EpisodeCounters(pairs))
		}
		pairs = pairs[:0]
	}
	dest := []any{&id, &p.Environment, &p.Version, &p.Mode, &p.PromptGroup, &executed, &reported, &p.Action.Probe, &p.Action.Sample, &severity, &p.Verdict.Masked}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		if next := audit.Digest(id); next != last {
			count()
			last = next
		}
		p.Executed, p.Success, p.Verdict.Severity = untruth(executed), untruth(reported), audit.Severity(severity)
		pairs = append(pairs, p)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read episodes: %w", err)
	}
	count()
	return nil
}
