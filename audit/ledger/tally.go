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
	tally := audit.NewTally()
	if err := l.tallyFigures(ctx, id, tally); err != nil {
		return nil, err
	}
	return tally, l.tallyOutcomes(ctx, id, tally)
}

// tallyKey is what a line of rollup or cell belongs to.
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

func (l *Ledger) tallyFigures(ctx context.Context, run int32, tally *audit.Tally) error {
	rows, err := l.pool.Query(ctx, `SELECT environment, version, tool, mode, success, prompt_group, `+l.rollup.sums+` FROM rollup WHERE run = $1`, run)
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
func (l *Ledger) tallyOutcomes(ctx context.Context, run int32, tally *audit.Tally) error {
	rows, err := l.pool.Query(ctx, `
		SELECT environment, version, tool, mode, success, prompt_group,
			actual, rehearsed, masked, severity, cascaded, n, weight, repeats
		FROM cell WHERE run = $1`, run)
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
		// Repeats stand for calls that were never weighed one by one.
		calls := stat.Cluster{N: n, Weight: weight, Sum: float64(n + repeats), SumSq: float64(n + repeats)}
		counters := audit.Counters{audit.CountPairs: ones, audit.CountCalls: calls}
		switch {
		case masked != "":
			counters[audit.MaskedCounter(audit.MaskReason(masked))] = calls
		case cascaded:
			counters[audit.CountCascaded] = ones
		default:
			counters[audit.CountScored] = ones
			counters[audit.ConfusionCounter(strings.TrimPrefix(actual, errorPrefix), strings.TrimPrefix(rehearsed, errorPrefix))] = ones
			counters[audit.SeverityCounter(audit.Severity(severity))] = ones
		}
		tally.Count(k.cell(), k.group, counters)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read cells: %w", err)
	}
	return nil
}
