package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// What the ledger knows about worlds and policies apart from any run: learned
// noise, known defects, canaries, checkpoints and gate verdicts.

// Noise is how often an environment's own twins disagree at a path.
type Noise struct {
	Environment, Version, Tool, Pattern string
	Twins, Disagreed                    int64
}

// AddNoise adds observations to the learned noise. It is not idempotent: add
// what a committed episode showed once.
func (l *Ledger) AddNoise(ctx context.Context, seen []Noise) error {
	batch := &pgx.Batch{}
	for _, n := range seen {
		batch.Queue(`
			INSERT INTO noise AS n (environment, version, tool, pattern, twins, disagreed) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (environment, version, tool, pattern)
			DO UPDATE SET twins = n.twins + excluded.twins, disagreed = n.disagreed + excluded.disagreed`,
			label(n.Environment), label(n.Version), label(n.Tool), label(n.Pattern), n.Twins, n.Disagreed)
	}
	if err := l.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("add noise: %w", err)
	}
	return nil
}

// Noise reads what was learned about one environment version.
func (l *Ledger) Noise(ctx context.Context, environment, version string) ([]Noise, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT environment, version, tool, pattern, twins, disagreed FROM noise
		WHERE environment = $1 AND version = $2 ORDER BY tool, pattern`, label(environment), label(version))
	if err != nil {
		return nil, fmt.Errorf("read noise: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Noise])
}

// Defect is a known fault of a sandbox: pairs that meet it are masked.
type Defect struct {
	Environment string
	Version     string // "" = every version
	Tool        string
	Pattern     string
	Reason      string
	Expires     *time.Time // nil = never
}

// AddDefect lists a known defect, or changes its reason and expiry.
func (l *Ledger) AddDefect(ctx context.Context, d Defect) error {
	if d.Reason == "" {
		return &audit.Error{Code: audit.CodeInvalid, Message: "a known defect of " + d.Tool + " has no reason", Hint: "say what is wrong and where it is tracked"}
	}
	_, err := l.pool.Exec(ctx, `
		INSERT INTO known_defect (environment, version, tool, pattern, reason, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (environment, version, tool, pattern) DO UPDATE SET reason = excluded.reason, expires_at = excluded.expires_at`,
		label(d.Environment), label(d.Version), label(d.Tool), label(d.Pattern), label(d.Reason), d.Expires)
	if err != nil {
		return fmt.Errorf("add known defect: %w", err)
	}
	return nil
}

// Defects reads the defects of one environment version that have not expired.
func (l *Ledger) Defects(ctx context.Context, environment, version string) ([]Defect, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT environment, version, tool, pattern, reason, expires_at FROM known_defect
		WHERE environment = $1 AND version IN ('', $2) AND (expires_at IS NULL OR expires_at > now())
		ORDER BY tool, pattern, version`, label(environment), label(version))
	if err != nil {
		return nil, fmt.Errorf("read known defects: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Defect])
}

// AddCanaries keeps canary episodes: each last action is the canary itself, the
// ones before it bring the world into place. It returns how many were new.
func (l *Ledger) AddCanaries(ctx context.Context, version string, episodes []audit.Episode) (int, error) {
	added := 0
	err := l.inTx(ctx, "add canaries", func(ctx context.Context, tx pgx.Tx) error {
		added = 0
		for i := range episodes {
			e := &episodes[i]
			if len(e.Actions) == 0 || e.Actions[len(e.Actions)-1].Canary == nil {
				return &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("episode %q does not end in a canary", e.ID), Hint: "store what the canary battery made"}
			}
			last := e.Actions[len(e.Actions)-1]
			body, id, err := audit.EncodeEpisode(e)
			if err != nil {
				return err
			}
			environment, _, _ := strings.Cut(e.Environment, "@")
			tag, err := tx.Exec(ctx, `
				INSERT INTO canary (id, environment, version, tool, mutation, level, family, episode) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
				ON CONFLICT DO NOTHING`, id[:], label(environment), label(version), label(last.Call.Tool), label(last.Canary.Mutation),
				string(last.Canary.Level), label(string(last.Canary.Family)), body)
			if err != nil {
				return err
			}
			added += int(tag.RowsAffected())
		}
		return nil
	})
	return added, err
}

// Canaries reads up to limit canary episodes of a tool; "" means every tool.
func (l *Ledger) Canaries(ctx context.Context, environment, version, tool string, limit int) ([]audit.Episode, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT episode FROM canary WHERE environment = $1 AND version = $2 AND ($3 = '' OR tool = $3) ORDER BY id LIMIT $4`,
		label(environment), label(version), label(tool), limit)
	if err != nil {
		return nil, fmt.Errorf("read canaries: %w", err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("read canaries: %w", err)
	}
	episodes := make([]audit.Episode, 0, len(bodies))
	for _, body := range bodies {
		e, err := audit.DecodeEpisode(body)
		if err != nil {
			return nil, err
		}
		episodes = append(episodes, *e)
	}
	return episodes, nil
}

// Checkpoint notes a checkpoint of a policy; complete says that it is whole on
// disk. A complete checkpoint does not become incomplete again.
func (l *Ledger) Checkpoint(ctx context.Context, policy string, step int64, digest audit.Digest, complete bool) error {
	_, err := l.pool.Exec(ctx, `
		INSERT INTO checkpoint AS c (policy, step, digest, complete) VALUES ($1, $2, $3, $4)
		ON CONFLICT (policy, step) DO UPDATE SET digest = coalesce(excluded.digest, c.digest), complete = true
		WHERE NOT c.complete AND excluded.complete`, label(policy), step, digestBytes(digest), complete)
	if err != nil {
		return fmt.Errorf("note checkpoint %d of %q: %w", step, policy, err)
	}
	return nil
}
