package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// worldRuns is how many of the newest runs are asked for their environments.
const worldRuns = 100

// Worlds lists the environment versions of the newest runs and those of which
// something else is known, by name and version. It looks a run's versions up in
// its rollups, one row each.
func (l *Ledger) Worlds(ctx context.Context) ([]audit.World, error) {
	rows, err := l.pool.Query(ctx, `
		WITH RECURSIVE newest AS MATERIALIZED (SELECT id, name FROM run WHERE state <> 'dropping' ORDER BY id DESC LIMIT $1), seen AS (
			SELECT n.id, n.name, r.* FROM newest n CROSS JOIN LATERAL (
				SELECT environment, version, env_digest FROM rollup WHERE run = n.id ORDER BY environment, version, env_digest LIMIT 1) r
			UNION ALL
			SELECT s.id, s.name, r.* FROM seen s CROSS JOIN LATERAL (
				SELECT environment, version, env_digest FROM rollup
				WHERE run = s.id AND (environment, version, env_digest) > (s.environment, s.version, s.env_digest)
				ORDER BY environment, version, env_digest LIMIT 1) r
		), worlds AS (
			SELECT environment, version, env_digest, array_agg(name::text ORDER BY id DESC) AS runs FROM seen GROUP BY 1, 2, 3
			UNION ALL
			SELECT environment, version, ''::bytea, '{}' FROM (
				SELECT environment, version FROM noise UNION SELECT environment, version FROM canary UNION
				SELECT environment, version FROM known_defect WHERE version <> '') k
			WHERE NOT EXISTS (SELECT FROM seen s WHERE s.environment = k.environment AND s.version = k.version)
		)
		SELECT w.environment, w.version, w.env_digest, w.runs,
			(SELECT count(*) FROM noise n WHERE n.environment = w.environment AND n.version = w.version AND n.disagreed > 0),
			(SELECT count(*) FROM known_defect d WHERE d.environment = w.environment AND d.version IN ('', w.version) AND (d.expires_at IS NULL OR d.expires_at > now())),
			(SELECT count(*) FROM canary c WHERE c.environment = w.environment AND c.version = w.version)
		FROM worlds w ORDER BY w.environment, w.version, w.env_digest`, worldRuns)
	if err != nil {
		return nil, fmt.Errorf("list environments: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (w audit.World, err error) {
		var digest []byte
		err = row.Scan(&w.Name, &w.Version, &digest, &w.Runs, &w.Noisy, &w.Defects, &w.Canary)
		w.Digest = digestOf(digest)
		w.Runs = w.Runs[:min(len(w.Runs), 5)]
		return w, err
	})
}

// worldDetails bounds each list of a World.
const worldDetails = 500

// World reads what is known about one environment version apart from any run.
func (l *Ledger) World(ctx context.Context, environment, version string) (audit.WorldDetail, error) {
	var d audit.WorldDetail
	noise, err := l.Noise(ctx, environment, version)
	if err != nil {
		return d, err
	}
	for _, n := range noise {
		d.Noise = append(d.Noise, audit.NoisyPath{Tool: n.Tool, Pattern: n.Pattern, Twins: n.Twins, Disagreed: n.Disagreed})
	}
	slices.SortStableFunc(d.Noise, func(a, b audit.NoisyPath) int { return int(b.Disagreed*max(1, a.Twins) - a.Disagreed*max(1, b.Twins)) })
	d.Noise = d.Noise[:min(len(d.Noise), worldDetails)]
	if d.Marked, err = l.noiseMarks(ctx, environment); err != nil {
		return d, err
	}
	defects, err := l.Defects(ctx, environment, version)
	if err != nil {
		return d, err
	}
	for _, f := range defects {
		d.Defects = append(d.Defects, audit.KnownDefect{Version: f.Version, Tool: f.Tool, Pattern: f.Pattern, Reason: f.Reason, Expires: since(f.Expires)})
	}
	rows, err := l.pool.Query(ctx, `
		SELECT tool::text, count(*) FILTER (WHERE level = 'schema'), count(*) FILTER (WHERE level = 'domain')
		FROM canary WHERE environment = $1 AND version = $2 GROUP BY tool ORDER BY tool LIMIT $3`, label(environment), label(version), worldDetails)
	if err != nil {
		return d, fmt.Errorf("count canaries: %w", err)
	}
	d.Canaries, err = pgx.CollectRows(rows, pgx.RowToStructByPos[audit.CanaryCount])
	return d, err
}

// SaveVersionFigures keeps how one policy fared on a version beside the one that
// it knows; run holds the pairs.
func (l *Ledger) SaveVersionFigures(ctx context.Context, run, base string, f audit.VersionFigures) error {
	id, err := l.runID(ctx, run)
	if err != nil {
		return err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("save figures of %s: %w", f.Environment, err)
	}
	_, err = l.pool.Exec(ctx, `
		INSERT INTO version_figures (run, base, environment, version, figures) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (run, environment, version) DO UPDATE SET base = excluded.base, figures = excluded.figures, created_at = now()`,
		id, label(base), label(f.Environment), label(f.Version), text)
	if err != nil {
		return fmt.Errorf("save figures of %s: %w", f.Environment, err)
	}
	return nil
}

// VersionAudits lists policies on versions of environments, newest first.
func (l *Ledger) VersionAudits(ctx context.Context, limit int) ([]audit.VersionAudit, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT r.name, r.policy, v.base, v.figures, v.created_at FROM version_figures v JOIN run r ON r.id = v.run
		WHERE r.state <> 'dropping' ORDER BY v.created_at DESC, v.base, v.environment LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list version audits: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (a audit.VersionAudit, err error) {
		var figures []byte
		if err = row.Scan(&a.Run, &a.Policy, &a.Base, &figures, &a.Created); err != nil {
			return a, err
		}
		return a, json.Unmarshal(figures, &a.VersionFigures)
	})
}
