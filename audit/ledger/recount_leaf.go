package ledger

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// unsplit is the success of leaves that were counted before the ledger split
// them by it.
const unsplit = -2

// sourceless reports whether a leaf is of an effect that was counted operation by
// operation, before the ledger counted cells and said where the claim was read.
func (k leafKey) sourceless() bool { return k.part == "effect" && k.class == "" }

// withoutEffects leaves out what was counted in another way.
func withoutEffects(leaves map[leafKey]*leafSums) map[leafKey]*leafSums {
	left := maps.Clone(leaves)
	maps.DeleteFunc(left, func(k leafKey, _ *leafSums) bool { return k.part == "effect" })
	return left
}

// compareLeaves compares a run's stored leaves with recounted ones; both without
// their split where the run has leaves from before it, and without effects where it
// has some that were counted in another way.
func compareLeaves(ctx context.Context, tx pgx.Tx, run int32, fresh *counts, report *Report) error {
	stored, err := readLeaves(ctx, tx, run)
	if err != nil {
		return err
	}
	want := fresh.leaves
	for k := range stored {
		if k.success == unsplit {
			stored, want = withoutSplit(stored), withoutSplit(want)
			break
		}
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(stored)), leafKey.sourceless) {
		stored, want = withoutEffects(stored), withoutEffects(want)
	}
	for k, s := range stored {
		w, ok := want[k]
		if !ok {
			w = &leafSums{}
		}
		if w.pairs != s.pairs || w.leaves != s.leaves || (s.pairs > 0 && w.severity > s.severity) || !near(w.weight, s.weight) {
			report.find("run %d: leaf %s %s %s: %d pairs, %d leaves, weight %g, S%d; recounted %d, %d, %g, S%d",
				run, k.tool, k.pattern, k.kind, s.pairs, s.leaves, s.weight, s.severity, w.pairs, w.leaves, w.weight, w.severity)
		}
	}
	for k, w := range want {
		if stored[k] == nil {
			report.find("run %d: no leaf %s %s %s for %d pairs", run, k.tool, k.pattern, k.kind, w.pairs)
		}
	}
	return nil
}

func readLeaves(ctx context.Context, tx pgx.Tx, run int32) (map[leafKey]*leafSums, error) {
	rows, err := tx.Query(ctx, `
		SELECT environment, version, tool, mode, part, pattern, kind, class, success, pairs, leaves, weight, severity FROM leaf WHERE run = $1`, run)
	if err != nil {
		return nil, fmt.Errorf("read leaves of run %d: %w", run, err)
	}
	leaves := make(map[leafKey]*leafSums)
	var (
		k leafKey
		s leafSums
	)
	dest := []any{
		&k.environment, &k.version, &k.tool, &k.mode, &k.part, &k.pattern, &k.kind, &k.class, &k.success,
		&s.pairs, &s.leaves, &s.weight, &s.severity,
	}
	_, err = pgx.ForEachRow(rows, dest, func() error {
		leaves[k] = new(s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read leaves of run %d: %w", run, err)
	}
	return leaves, nil
}

// withoutSplit adds leaves up over the success of their tasks.
func withoutSplit(leaves map[leafKey]*leafSums) map[leafKey]*leafSums {
	sum := make(map[leafKey]*leafSums, len(leaves))
	for k, s := range leaves {
		k.success = unsplit
		to := sum[k]
		if to == nil {
			to = &leafSums{}
			sum[k] = to
		}
		to.pairs, to.leaves, to.weight = to.pairs+s.pairs, to.leaves+s.leaves, to.weight+s.weight
		to.severity = max(to.severity, s.severity)
	}
	return sum
}
