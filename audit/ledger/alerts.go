package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// Alerts lists what a person should look at, the newest first, at most limit of
// each kind. Events of one kind that are about one thing are one alert.
func (l *Ledger) Alerts(ctx context.Context, limit int) ([]audit.Alert, error) {
	var all []audit.Alert
	for _, read := range []func(context.Context, int) ([]audit.Alert, error){
		l.conflictAlerts, l.gateAlerts, l.alarmAlerts, l.deadAlerts, l.trainingAlerts,
	} {
		alerts, err := read(ctx, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, alerts...)
	}
	slices.SortStableFunc(all, func(a, b audit.Alert) int { return cmp.Compare(b.At.UnixMicro(), a.At.UnixMicro()) })
	return all, nil
}

func (l *Ledger) conflictAlerts(ctx context.Context, limit int) ([]audit.Alert, error) {
	rows, err := l.pool.Query(ctx, `
		WITH latest AS (SELECT * FROM audit_conflict ORDER BY seen_at DESC LIMIT 20000)
		SELECT r.name, coalesce(p.tool::text, ''), c.kind, count(*), max(c.seen_at), (array_agg(c.key::bytea ORDER BY c.seen_at DESC))[1]
		FROM latest c JOIN run r ON r.id = c.run LEFT JOIN pair p ON p.key = c.key AND p.result = c.stored
		WHERE r.state <> 'dropping' GROUP BY 1, 2, 3 ORDER BY 5 DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("read conflicts: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Alert, error) {
		a := audit.Alert{Kind: audit.AlertConflict}
		var (
			kind string
			key  []byte
		)
		err := row.Scan(&a.Run, &a.Subject, &kind, &a.N, &a.At, &key)
		a.Key = digestOf(key)
		a.Text = "the same call was audited twice with different results: the environment, the policy or a rule is not deterministic; the first result stands"
		if kind == "place" {
			a.Text = "a place of an episode that had a result got another call: an episode was changed under its name; the first result stands"
		}
		return a, err
	})
}

// gateAlerts finds decisions that did not pass after one of the same policy that did.
func (l *Ledger) gateAlerts(ctx context.Context, limit int) ([]audit.Alert, error) {
	rows, err := l.pool.Query(ctx, `
		WITH latest AS (SELECT run, decided_at, verdict, policy_digest FROM gate_verdict ORDER BY decided_at DESC LIMIT 5000), history AS (
			SELECT *, lag(verdict) OVER (PARTITION BY policy_digest ORDER BY decided_at) AS before FROM latest
		)
		SELECT r.name, h.policy_digest, h.verdict, h.decided_at FROM history h JOIN run r ON r.id = h.run
		WHERE h.before = 'PASS' AND h.verdict <> 'PASS' AND r.state <> 'dropping' ORDER BY h.decided_at DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("read gates that turned: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Alert, error) {
		a := audit.Alert{Kind: audit.AlertGate, N: 1}
		var digest, verdict string
		err := row.Scan(&a.Run, &digest, &verdict, &a.At)
		a.Subject, a.Decided = "policy "+cut(digest, 12), a.At
		a.Text = "the gate passed before and is " + verdict + " now"
		return a, err
	})
}

// alarmAlerts are what watching training runs raised.
func (l *Ledger) alarmAlerts(ctx context.Context, limit int) ([]audit.Alert, error) {
	alarms, _, err := l.Alarms(ctx, "", audit.Page{Limit: limit})
	if err != nil {
		return nil, err
	}
	alerts := make([]audit.Alert, 0, len(alarms))
	for _, a := range alarms {
		alerts = append(alerts, audit.Alert{
			Kind: audit.AlertAlarm, Run: a.Run, Subject: fmt.Sprintf("%s, step %d", a.Policy, a.Step), Text: a.Message, N: 1, At: a.Raised,
		})
	}
	return alerts, nil
}

func (l *Ledger) deadAlerts(ctx context.Context, limit int) ([]audit.Alert, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT r.name, d.fault, count(*), max(d.buried_at), substring((array_agg(d.reason ORDER BY d.buried_at DESC))[1] FOR 300)
		FROM dead_letter d JOIN run r ON r.id = d.run
		WHERE d.revived_at IS NULL AND r.state <> 'dropping' GROUP BY 1, 2 ORDER BY 4 DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Alert, error) {
		a := audit.Alert{Kind: audit.AlertDead}
		var reason []byte
		err := row.Scan(&a.Run, &a.Subject, &a.N, &a.At, &reason)
		a.Text = "episodes were given up; the last one because: " + readable(reason)
		return a, err
	})
}

func (l *Ledger) trainingAlerts(ctx context.Context, limit int) ([]audit.Alert, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT experiment, arm, seed, coalesce(finished_at, created_at), substring(reason FOR 300) FROM training
		WHERE state = 'failed' ORDER BY finished_at DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("read failed trainings: %w", err)
	}
	alerts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Alert, error) {
		a := audit.Alert{Kind: audit.AlertTraining, N: 1}
		var (
			arm    string
			reason []byte
			seed   int64
		)
		err := row.Scan(&a.Run, &arm, &seed, &a.At, &reason)
		a.Subject, a.Text = fmt.Sprintf("%s, seed %d", arm, seed), "the training failed: "+readable(reason)
		return a, err
	})
	if err != nil {
		return nil, fmt.Errorf("read failed trainings: %w", err)
	}
	broken, err := l.notFiniteAlerts(ctx, limit)
	return append(alerts, broken...), err
}

// notFiniteAlerts finds metrics that were no number.
func (l *Ledger) notFiniteAlerts(ctx context.Context, limit int) ([]audit.Alert, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT t.experiment, t.arm, t.seed, m.name, min(m.step), count(*), max(m.at)
		FROM training_metric m JOIN training t ON t.id = m.training
		WHERE m.value IS NULL GROUP BY 1, 2, 3, 4 ORDER BY 7 DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("read broken metrics: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Alert, error) {
		a := audit.Alert{Kind: audit.AlertTraining}
		var (
			arm, name  string
			seed, step int64
			at         time.Time
		)
		err := row.Scan(&a.Run, &arm, &seed, &name, &step, &a.N, &at)
		a.Subject, a.At = fmt.Sprintf("%s, seed %d", arm, seed), at
		a.Text = fmt.Sprintf("%s is not a finite number from step %d on", name, step)
		return a, err
	})
}
