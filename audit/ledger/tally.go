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
	return l.tally(ctx, l.pool, id, audit.NewTally())
}

// querier is the pool, or one transaction's snapshot.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Beyond manyGroups prompt groups a summary is computed over fewGroups random
// ones: a tally holds some kilobytes a group and tool.
const manyGroups, fewGroups = 2048, 1024

// summaryTally reads the counters that a run's summary is computed from.
func (l *Ledger) summaryTally(ctx context.Context, tx pgx.Tx, run int32) (*audit.Tally, error) {
	groups := 0
	err := tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT DISTINCT prompt_group FROM rollup WHERE run = $1 LIMIT $2) g`, run, manyGroups+1).Scan(&groups)
	if err != nil {
		return nil, fmt.Errorf("count prompt groups: %w", err)
	}
	if groups > manyGroups {
		return l.tally(ctx, tx, run, audit.NewCoarseTally(fewGroups))
	}
	return l.tally(ctx, tx, run, audit.NewTally())
}

func (l *Ledger) tally(ctx context.Context, from querier, id int32, tally *audit.Tally) (*audit.Tally, error) {
	for _, read := range []func(context.Context, querier, int32, *audit.Tally) error{
		l.tallyFigures, tallyOutcomes, tallyCounters, tallyEpisodes,
	} {
		if err := read(ctx, from, id, tally); err != nil {
			return nil, err
		}
	}
	return tally, nil
}

// tallyKey is what a line of rollup, counter or cell belongs to.
type tallyKey struct {
	environment, version, tool, mode, group string
	success                                 int16
}

func (k *tallyKey) dest() []any {
	return []any{&k.environment, &k.version, &k.tool, &k.mode, &k.success, &k.group}
}

func (k *tallyKey) cell() audit.Cell {
	split := audit.NoSuccessOf
	switch k.success {
	case 1:
		split = audit.Succeeded
	case 0:
		split = audit.NotReached
	}
	return audit.Cell{Environment: k.environment, Version: k.version, Tool: k.tool, Mode: audit.Mode(k.mode), Split: split}
}

func (l *Ledger) tallyFigures(ctx context.Context, from querier, run int32, tally *audit.Tally) error {
	rows, err := from.Query(ctx, `SELECT environment, version, tool, mode, success, prompt_group, `+l.rollup.sums+` FROM rollup WHERE run = $1`, run)
	if err != nil {
		return fmt.Errorf("read rollups: %w", err)
	}
	var k tallyKey
	n := make([]int64, len(l.rollup.figures))
	v := make([][3]float64, len(l.rollup.figures))
	dest := k.dest()
	for i := range n {
		dest = append(dest, &n[i], &v[i][0], &v[i][1], &v[i][2])
	}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		counters := make(audit.Counters, len(n))
		for i, f := range l.rollup.figures {
			if n[i] > 0 {
				counters[audit.Counter(f)] = stat.Cluster{N: int(n[i]), Weight: v[i][0], Sum: v[i][1], SumSq: v[i][2]}
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
func tallyOutcomes(ctx context.Context, from querier, run int32, tally *audit.Tally) error {
	rows, err := from.Query(ctx, `
		SELECT environment, version, tool, mode, success, prompt_group,
			actual, rehearsed, masked, severity, cascaded, n, weight, repeats
		FROM cell WHERE run = $1 AND n > 0`, run)
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
func tallyCounters(ctx context.Context, from querier, run int32, tally *audit.Tally) error {
	rows, err := from.Query(ctx, `SELECT environment, version, tool, mode, success, prompt_group, name, n, w, x, xx FROM counter WHERE run = $1`, run)
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
func tallyEpisodes(ctx context.Context, from querier, run int32, tally *audit.Tally) error {
	rows, err := from.Query(ctx, `
		SELECT a.episode, p.environment, p.version, p.mode, e.prompt_group, e.executed, e.reported, a.probe, a.sample, p.severity, coalesce(m.masked, p.masked)
		FROM action a
		JOIN pair p ON p.key = a.key AND p.result = a.result
		JOIN episode e ON e.run = a.run AND e.id = a.episode
		LEFT JOIN run_pair m ON m.run = a.run AND m.key = a.key
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
