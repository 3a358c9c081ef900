package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"understudy/audit"
)

// StartTraining opens a training, or finds the one that the same experiment,
// arm and seed opened before: a trainer that resumes goes on writing into it.
func (l *Ledger) StartTraining(ctx context.Context, t audit.NewTraining) (int32, error) {
	for _, part := range []struct{ name, text string }{{"experiment", t.Experiment}, {"arm", t.Arm}} {
		if part.text == "" || label(part.text) != part.text {
			return 0, &audit.Error{
				Code: audit.CodeInvalid, Message: fmt.Sprintf("%s %q of a training cannot be used", part.name, cut(label(part.text), 60)),
				Hint: fmt.Sprintf("use 1 to %d bytes of UTF-8 without NUL", maxLabel),
			}
		}
	}
	var id int32
	err := l.pool.QueryRow(ctx, `
		INSERT INTO training (experiment, arm, seed, policy, settings) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (experiment, arm, seed) DO UPDATE SET state = 'running', finished_at = NULL, reason = '',
			policy = excluded.policy, settings = excluded.settings
		RETURNING id`, t.Experiment, t.Arm, t.Seed, label(t.Policy), append([]byte{}, quoted(t.Settings)...)).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("start training %s/%s/%d: %w", t.Experiment, t.Arm, t.Seed, err)
	}
	return id, nil
}

// WriteMetrics keeps numbers of a training's steps. A step that is written again,
// by a trainer that resumed from a checkpoint, is overwritten. A training that
// does not exist is CodeNotFound, a metric that cannot be kept CodeInvalid; then
// nothing is written.
func (l *Ledger) WriteMetrics(ctx context.Context, training int32, metrics []audit.Metric) error {
	names, roles := make([]string, 0, len(metrics)), make([]string, 0, len(metrics))
	steps, values := make([]int64, 0, len(metrics)), make([]*float64, 0, len(metrics))
	type place struct {
		name, role string
		step       int64
	}
	seen := make(map[place]int, len(metrics))
	for i := range metrics {
		m := &metrics[i]
		if err := validMetric(m); err != nil {
			return err
		}
		var value *float64
		if !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
			value = &m.Value
		}
		at := place{m.Name, string(m.Role), m.Step}
		if j, twice := seen[at]; twice {
			values[j] = value
			continue
		}
		seen[at] = len(names)
		names, roles, steps, values = append(names, m.Name), append(roles, string(m.Role)), append(steps, m.Step), append(values, value)
	}
	_, err := l.pool.Exec(ctx, `
		INSERT INTO training_metric AS t (training, name, role, step, value)
		SELECT $1::integer, name, role, step, value FROM unnest($2::text[], $3::text[], $4::bigint[], $5::float8[]) AS m (name, role, step, value)
		ON CONFLICT (training, name, role, step) DO UPDATE SET value = excluded.value, at = excluded.at`, training, names, roles, steps, values)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "23503" {
		return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("training %d does not exist", training), Hint: "start it first", Err: err}
	}
	if err != nil {
		return fmt.Errorf("write metrics of training %d: %w", training, err)
	}
	return nil
}

func validMetric(m *audit.Metric) error {
	role := m.Role == audit.WholePolicy || m.Role == audit.ActRole || m.Role == audit.RehearseRole
	if m.Name != "" && label(m.Name) == m.Name && role && m.Step >= 0 {
		return nil
	}
	return &audit.Error{
		Code: audit.CodeInvalid, Message: fmt.Sprintf("metric %q of role %q at step %d cannot be kept", cut(label(m.Name), 60), cut(label(string(m.Role)), 60), m.Step),
		Hint: "give a name of at most 200 bytes, a role of act, rehearse or none, and a step from 0",
	}
}

// FinishTraining says how a training ended; reason "" = it is complete.
func (l *Ledger) FinishTraining(ctx context.Context, training int32, reason string) error {
	state := audit.TrainingComplete
	if reason != "" {
		state = audit.TrainingFailed
	}
	tag, err := l.pool.Exec(ctx, `UPDATE training SET state = $2, reason = $3, finished_at = now() WHERE id = $1`, training, string(state), []byte(reason))
	if err != nil {
		return fmt.Errorf("finish training %d: %w", training, err)
	}
	if tag.RowsAffected() == 0 {
		return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("training %d does not exist", training), Hint: "start it first"}
	}
	return nil
}

// Experiments lists the names of experiments, the one that started last first.
func (l *Ledger) Experiments(ctx context.Context) ([]string, error) {
	rows, err := l.pool.Query(ctx, `SELECT experiment::text FROM training GROUP BY experiment ORDER BY max(id) DESC LIMIT 200`)
	if err != nil {
		return nil, fmt.Errorf("list experiments: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// ExperimentOf finds the experiment that last trained a policy; "" = none did.
func (l *Ledger) ExperimentOf(ctx context.Context, policy string) (string, error) {
	var experiment string
	err := l.pool.QueryRow(ctx, `SELECT coalesce((SELECT experiment::text FROM training WHERE policy = $1 ORDER BY id DESC LIMIT 1), '')`, label(policy)).Scan(&experiment)
	if err != nil {
		return "", fmt.Errorf("find the training of %s: %w", policy, err)
	}
	return experiment, nil
}

// Trainings lists the trainings of an experiment by arm and seed.
func (l *Ledger) Trainings(ctx context.Context, experiment string) ([]audit.Training, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT t.id, t.experiment, t.arm, t.seed, t.policy, t.settings, t.state, t.reason, t.created_at, t.finished_at,
			coalesce((SELECT max(step) FROM training_metric m WHERE m.training = t.id), -1)
		FROM training t WHERE t.experiment = $1 ORDER BY t.arm, t.seed LIMIT 1000`, label(experiment))
	if err != nil {
		return nil, fmt.Errorf("list trainings: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t audit.Training, err error) {
		var (
			reason   []byte
			finished pgxTime
		)
		err = row.Scan(&t.ID, &t.Experiment, &t.Arm, &t.Seed, &t.Policy, &t.Settings, &t.State, &reason, &t.Started, &finished, &t.Step)
		t.Reason, t.Finished = string(reason), since(finished)
		return t, err
	})
}

// Series reads one metric of every arm, seed and role of an experiment, each
// thinned to at most points points: neighbouring steps are averaged, and keep
// their smallest and largest value.
func (l *Ledger) Series(ctx context.Context, experiment, metric string, points int) ([]audit.MetricSeries, error) {
	rows, err := l.pool.Query(ctx, `
		WITH width AS MATERIALIZED ( -- once, not once a row
			SELECT greatest(1, ceil((max(m.step) + 1)::float8 / $3))::bigint AS steps
			FROM training t JOIN training_metric m ON m.training = t.id WHERE t.experiment = $1 AND m.name = $2
		)
		SELECT t.arm, t.seed, m.role, min(m.step), count(*), coalesce(avg(m.value), 0), coalesce(min(m.value), 0), coalesce(max(m.value), 0),
			count(*) FILTER (WHERE m.value IS NULL)
		FROM training t JOIN training_metric m ON m.training = t.id, width w
		WHERE t.experiment = $1 AND m.name = $2
		GROUP BY t.arm, t.seed, m.role, m.step / w.steps ORDER BY t.arm, t.seed, m.role, m.step / w.steps`, label(experiment), label(metric), max(1, points))
	if err != nil {
		return nil, fmt.Errorf("read metric %s: %w", metric, err)
	}
	var (
		series []audit.MetricSeries
		s      = audit.MetricSeries{Name: metric}
		p      audit.SeriesPoint
	)
	_, err = pgx.ForEachRow(rows, []any{&s.Arm, &s.Seed, &s.Role, &p.Step, &p.N, &p.Value, &p.Min, &p.Max, &p.NotFinite}, func() error {
		last := len(series) - 1
		if last < 0 || series[last].Arm != s.Arm || series[last].Seed != s.Seed || series[last].Role != s.Role {
			series, last = append(series, s), last+1
		}
		series[last].Points = append(series[last].Points, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read metric %s: %w", metric, err)
	}
	return series, nil
}

// MetricNames lists the metrics of an experiment.
func (l *Ledger) MetricNames(ctx context.Context, experiment string) ([]string, error) {
	rows, err := l.pool.Query(ctx, `
		WITH RECURSIVE names AS ( -- one lookup a name, not one a number
			SELECT t.id, (SELECT m.name::text FROM training_metric m WHERE m.training = t.id ORDER BY m.name LIMIT 1) AS name FROM training t WHERE experiment = $1
			UNION ALL
			SELECT id, (SELECT m.name::text FROM training_metric m WHERE m.training = n.id AND m.name > n.name ORDER BY m.name LIMIT 1) FROM names n WHERE name IS NOT NULL
		)
		SELECT DISTINCT name FROM names WHERE name IS NOT NULL ORDER BY name LIMIT 500`, label(experiment))
	if err != nil {
		return nil, fmt.Errorf("list metrics: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
