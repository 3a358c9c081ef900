package ledger

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
	"understudy/audit/stat"
)

// compareSummary computes a run's figures again and compares them with those
// that pages read, where the run has not moved since.
func (l *Ledger) compareSummary(ctx context.Context, tx pgx.Tx, run int32, report *Report) error {
	rows, err := tx.Query(ctx, `
		SELECT c.figures FROM summary s JOIN summary_cell c ON c.run = s.run
		WHERE s.run = $1 AND s.moves = (SELECT sum(moves) FROM progress p WHERE p.run = s.run)`, run)
	if err != nil {
		return fmt.Errorf("read figures of run %d: %w", run, err)
	}
	kept, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f audit.Figures, err error) {
		var text []byte
		if err := row.Scan(&text); err != nil {
			return f, err
		}
		return f, json.Unmarshal(text, &f)
	})
	if err != nil {
		return fmt.Errorf("read figures of run %d: %w", run, err)
	}
	if len(kept) == 0 {
		return nil
	}
	tally, err := l.summaryTally(ctx, tx, run)
	if err != nil {
		return err
	}
	fresh := make(map[audit.Cell]audit.Figures)
	for _, f := range tally.Slices(figureSeed) {
		fresh[f.Cell] = f
	}
	if len(fresh) != len(kept) {
		report.find("run %d: its summary has %d slices, recomputed %d", run, len(kept), len(fresh))
	}
	for i := range kept {
		want := fresh[kept[i].Cell]
		report.compareFigures(run, &kept[i], &want)
	}
	return nil
}

func (r *Report) compareFigures(run int32, got, want *audit.Figures) {
	if got.Pairs != want.Pairs || got.Scored != want.Scored || got.Cascaded != want.Cascaded || got.Ladder != want.Ladder {
		r.find("run %d: summary of %+v counts %d pairs, %d scored; recomputed %d, %d", run, got.Cell, got.Pairs, got.Scored, want.Pairs, want.Scored)
		return
	}
	for i := range got.Values {
		name := got.Values[i].Name
		if a, b := got.Values[i].Estimate, want.Value(name); !sameEstimate(a, b) {
			r.find("run %d: summary of %+v says %s is %s, recomputed %s", run, got.Cell, name, a, b)
		}
	}
}

// sameEstimate compares value and n: what the bounds are made of adds up in
// another order, which a bootstrap's percentile may feel.
func sameEstimate(a, b stat.Estimate) bool {
	return a.Defined() == b.Defined() && a.N == b.N && (!a.Defined() || near(a.Value, b.Value))
}
