package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// Freeze implements audit.TrainingWatch.
func (l *Ledger) Freeze(ctx context.Context, run, policy string, step int64, decay float64) (*audit.Baselines, bool, error) {
	id, err := l.ensureRun(ctx, run, policy)
	if err != nil {
		return nil, false, err
	}
	f := freezing{run: id, policy: label(policy), step: step, decay: decay}
	err = l.inTx(ctx, "freeze baselines", f.freeze)
	return f.baselines, f.first, err
}

// freezing makes the baselines of one training step.
type freezing struct {
	run       int32
	policy    string
	step      int64
	decay     float64
	baselines *audit.Baselines
	first     bool
}

func (f *freezing) freeze(ctx context.Context, tx pgx.Tx) error {
	// One at a time: the second one reads what the first has frozen.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($2, $1))`, int64(f.run), "baseline "+f.policy); err != nil {
		return fmt.Errorf("wait for others: %w", err)
	}
	rows, err := tx.Query(ctx, `
		SELECT version, means FROM baseline WHERE run = $1 AND policy = $2 AND version <= $3 ORDER BY version DESC LIMIT 1`, f.run, f.policy, f.step)
	if err != nil {
		return err
	}
	from, text := int64(math.MinInt64), []byte(nil)
	if _, err := pgx.ForEachRow(rows, []any{&from, &text}, func() error { return nil }); err != nil {
		return err
	}
	var before *audit.Baselines
	if text != nil {
		before = &audit.Baselines{}
		if err := json.Unmarshal(text, before); err != nil {
			return err
		}
	}
	f.baselines, f.first = before, from != f.step || text == nil
	if !f.first {
		return nil
	}
	return f.make(ctx, tx, before, from)
}

// make sums up what was paid since the version before.
func (f *freezing) make(ctx context.Context, tx pgx.Tx, before *audit.Baselines, from int64) error {
	rows, err := tx.Query(ctx, `
		SELECT tool, replace(actual, $5, ''), sum(weight * phi), sum(weight) FROM score
		WHERE run = $1 AND policy = $2 AND checkpoint >= $3 AND checkpoint < $4 AND status = 'scored'
		GROUP BY 1, 2 ORDER BY 1, 2`, f.run, f.policy, from, f.step, errorPrefix)
	if err != nil {
		return err
	}
	seen, err := pgx.CollectRows(rows, pgx.RowToStructByPos[audit.Baseline])
	if err != nil {
		return err
	}
	f.baselines = before.Next(f.step, f.decay, seen)
	steps, err := f.sumUp(ctx, tx, from)
	if err != nil {
		return err
	}
	means, err := json.Marshal(f.baselines)
	if err != nil {
		return err
	}
	summed, err := json.Marshal(steps)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO baseline (run, policy, version, means, steps) VALUES ($1, $2, $3, $4, $5)`, f.run, f.policy, f.step, means, summed)
	return err
}

// sumUp is the training steps from the version before to this one.
func (f *freezing) sumUp(ctx context.Context, tx pgx.Tx, from int64) ([]audit.TrainingStep, error) {
	rows, err := tx.Query(ctx, `
		SELECT checkpoint, count(*) FILTER (WHERE actual <> ''), coalesce(sum(weight) FILTER (WHERE actual <> ''), 0),
			coalesce(sum(weight) FILTER (WHERE actual LIKE 'error%'), 0), coalesce(sum(weight) FILTER (WHERE actual <> '' AND rehearsed LIKE 'error%'), 0),
			count(*) FILTER (WHERE executed >= 0 AND reported >= 0), count(*) FILTER (WHERE executed >= 0 AND reported = 1),
			count(*) FILTER (WHERE reported >= 0 AND executed = 1)
		FROM score WHERE run = $1 AND policy = $2 AND checkpoint >= $3 AND checkpoint < $4
		GROUP BY checkpoint ORDER BY checkpoint`, f.run, f.policy, from, f.step)
	if err != nil {
		return nil, err
	}
	steps, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s audit.TrainingStep, err error) {
		return s, row.Scan(&s.Step, &s.N, &s.Weight, &s.RealErrors, &s.Rehearsed, &s.Episodes, &s.SuccessSaid, &s.SuccessDone)
	})
	if err != nil || len(steps) == 0 {
		return steps, err
	}
	at := make(map[int64]*audit.TrainingStep, len(steps))
	for i := range steps {
		at[steps[i].Step] = &steps[i]
	}
	rows, err = tx.Query(ctx, `
		SELECT checkpoint, tool, actual, sum(weight) FROM score
		WHERE run = $1 AND policy = $2 AND checkpoint >= $3 AND checkpoint < $4 AND actual <> ''
		GROUP BY checkpoint, tool, actual ORDER BY checkpoint, tool, actual`, f.run, f.policy, from, f.step)
	if err != nil {
		return nil, err
	}
	var (
		step  int64
		share audit.OutcomeShare
	)
	_, err = pgx.ForEachRow(rows, []any{&step, &share.Tool, &share.Outcome, &share.Weight}, func() error {
		at[step].Outcomes = append(at[step].Outcomes, share)
		return nil
	})
	return steps, err
}

// Steps implements audit.TrainingWatch.
func (l *Ledger) Steps(ctx context.Context, run, policy string, before int64) ([]audit.TrainingStep, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT b.steps FROM baseline b JOIN run r ON r.id = b.run
		WHERE r.name = $1 AND b.policy = $2 AND b.version <= $3 ORDER BY b.version`, label(run), label(policy), before)
	if err != nil {
		return nil, fmt.Errorf("read training steps: %w", err)
	}
	var (
		steps []audit.TrainingStep
		text  []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&text}, func() error {
		var some []audit.TrainingStep
		if err := json.Unmarshal(text, &some); err != nil {
			return err
		}
		steps = append(steps, some...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read training steps: %w", err)
	}
	return steps, nil
}

// Raise implements audit.TrainingWatch.
func (l *Ledger) Raise(ctx context.Context, alarms []audit.Alarm) error {
	for _, a := range alarms {
		id, err := l.ensureRun(ctx, a.Run, a.Policy)
		if err != nil {
			return err
		}
		_, err = l.pool.Exec(ctx, `
			INSERT INTO alarm (run, policy, kind, step, value, reference, height, message) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			ON CONFLICT (run, policy, kind, step) DO NOTHING`,
			id, label(a.Policy), label(string(a.Kind)), a.Step, a.Value, a.Reference, a.Height, a.Message)
		if err != nil {
			return fmt.Errorf("keep alarm %s: %w", a.Kind, err)
		}
	}
	return nil
}

// Alarms lists alarms, newest first, a page at a time; an empty run means every
// run. The second result is the After of the next page.
func (l *Ledger) Alarms(ctx context.Context, run string, page audit.Page) ([]audit.Alarm, string, error) {
	before, err := pageNumber(page.After)
	if err != nil {
		return nil, "", err
	}
	limit := pageLimit(page)
	rows, err := l.pool.Query(ctx, `
		SELECT a.id, a.kind, r.name, a.policy, a.step, a.value, a.reference, a.height, a.message, a.raised_at
		FROM alarm a JOIN run r ON r.id = a.run
		WHERE a.id < $1 AND ($2 = '' OR r.name = $2) ORDER BY a.id DESC LIMIT $3`, before, label(run), limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list alarms: %w", err)
	}
	var ids []int64
	alarms, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a audit.Alarm, err error) {
		var id int64
		err = row.Scan(&id, &a.Kind, &a.Run, &a.Policy, &a.Step, &a.Value, &a.Reference, &a.Height, &a.Message, &a.Raised)
		ids = append(ids, id)
		return a, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list alarms: %w", err)
	}
	if len(alarms) <= limit {
		return alarms, "", nil
	}
	return alarms[:limit], strconv.FormatInt(ids[limit-1], 10), nil
}

// CanaryEpisodes reads every canary that is known of an environment: those that
// were kept, and those that runs were given.
func (l *Ledger) CanaryEpisodes(ctx context.Context, environment string) ([]audit.Episode, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT episode FROM canary WHERE environment = $1
		UNION
		SELECT body FROM episode WHERE mode = 'canary' AND body IS NOT NULL AND split_part(environment, '@', 1) = $1
		LIMIT $2`, label(environment), maxCanaries)
	if err != nil {
		return nil, fmt.Errorf("read canaries of %s: %w", environment, err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("read canaries of %s: %w", environment, err)
	}
	var (
		episodes []audit.Episode
		faults   []error
	)
	for _, body := range bodies {
		e, err := audit.DecodeEpisode(body)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		episodes = append(episodes, *e)
	}
	return episodes, errors.Join(faults...)
}

// maxCanaries is far above any battery.
const maxCanaries = 50_000
