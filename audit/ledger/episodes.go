package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

const selectEpisode = `
	SELECT e.id, e.name, e.prompt_group, e.policy, e.checkpoint, e.environment, e.mode, e.state, e.executed, e.reported, e.results, e.finished_at
	FROM episode e`

func scanEpisode(row pgx.CollectableRow) (audit.EpisodeRecord, error) {
	var (
		e                  audit.EpisodeRecord
		id                 []byte
		executed, reported int16
		finished           pgxTime
	)
	err := row.Scan(&id, &e.Name, &e.PromptGroup, &e.Policy, &e.Checkpoint, &e.Environment, &e.Mode, &e.State, &executed, &reported, &e.Results, &finished)
	if err == nil {
		e.ID, e.Executed, e.Reported = audit.Digest(id), untruth(executed), untruth(reported)
	}
	if finished != nil {
		e.Finished = *finished
	}
	return e, err
}

// EpisodeRecord reads one rollout, without its calls.
func (l *Ledger) EpisodeRecord(ctx context.Context, run string, id audit.Digest) (audit.EpisodeRecord, error) {
	number, err := l.runID(ctx, run)
	if err != nil {
		return audit.EpisodeRecord{}, infrastructure(err)
	}
	rows, err := l.pool.Query(ctx, selectEpisode+` WHERE e.run = $1 AND e.id = $2`, number, id[:])
	if err != nil {
		return audit.EpisodeRecord{}, infrastructure(err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEpisode)
	return e, infrastructure(notFound(err, fmt.Sprintf("episode %s of run %q", id, run), "open it from a call"))
}

// EpisodeCalls lists the calls of a rollout in their order, a page at a time.
func (l *Ledger) EpisodeCalls(ctx context.Context, run string, id audit.Digest, page audit.Page) ([]audit.CallLine, string, error) {
	number, err := l.runID(ctx, run)
	if err != nil {
		return nil, "", infrastructure(err)
	}
	after := [3]int{-1, -1, -1}
	if page.After != "" {
		if _, err := fmt.Sscanf(page.After, "%d-%d-%d", &after[0], &after[1], &after[2]); err != nil {
			return nil, "", badCursor(page.After)
		}
	}
	limit := pageLimit(page)
	var lines []audit.CallLine
	err = l.look(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		lines, err = episodeLines(ctx, tx, number, id, after, limit+1)
		return err
	})
	if err != nil || len(lines) <= limit {
		return lines, "", infrastructure(err)
	}
	last := lines[limit-1]
	return lines[:limit], strings.Join([]string{strconv.Itoa(last.Step), strconv.Itoa(last.Probe), strconv.Itoa(last.Sample)}, "-"), nil
}

func episodeLines(ctx context.Context, tx pgx.Tx, run int32, id audit.Digest, after [3]int, limit int) ([]audit.CallLine, error) {
	rows, err := tx.Query(ctx, `
		SELECT a.key, a.episode, '', a.step, a.probe, a.sample, m.tool, p.mode, p.version, m.prompt_group, p.actual, p.rehearsed, m.severity,
			p.false_success, m.masked, p.cascaded, p.fork, p.cells, m.committed_at,
			(SELECT substring(b.content FOR 160) FROM body b WHERE b.run = $1 AND b.digest = p.arguments)
		FROM action a
		JOIN run_pair m ON m.run = $1 AND m.key = a.key
		JOIN pair p ON p.key = a.key AND p.result = a.result
		WHERE a.run = $1 AND a.episode = $2 AND (a.step, a.probe, a.sample) > ($3, $4, $5)
		ORDER BY a.step, a.probe, a.sample, a.attempt, a.ordinal LIMIT $6`, run, id[:], after[0], after[1], after[2], limit)
	if err != nil {
		return nil, fmt.Errorf("list the calls of an episode: %w", err)
	}
	return pgx.CollectRows(rows, scanLine)
}

const (
	// maxBranches is how many rollouts of a prompt are shown beside each other.
	maxBranches = 16
	// maxStrip is how many calls of each the strip shows.
	maxStrip = 60
)

// Branches lists the rollouts of one prompt, each with its first calls.
func (l *Ledger) Branches(ctx context.Context, run, group string) ([]audit.EpisodeRecord, error) {
	number, err := l.runID(ctx, run)
	if err != nil {
		return nil, infrastructure(err)
	}
	var branches []audit.EpisodeRecord
	err = l.look(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		branches, err = readBranches(ctx, tx, number, label(group))
		return err
	})
	return branches, infrastructure(err)
}

func readBranches(ctx context.Context, tx pgx.Tx, run int32, group string) ([]audit.EpisodeRecord, error) {
	rows, err := tx.Query(ctx, selectEpisode+` WHERE e.run = $1 AND md5(e.prompt_group) = md5($2::text) AND e.prompt_group = $2::text AND e.results > 0 ORDER BY e.id LIMIT $3`, run, group, maxBranches)
	if err != nil {
		return nil, fmt.Errorf("read branches: %w", err)
	}
	branches, err := pgx.CollectRows(rows, scanEpisode)
	if err != nil {
		return nil, fmt.Errorf("read branches: %w", err)
	}
	for i := range branches {
		if branches[i].Lines, err = episodeLines(ctx, tx, run, branches[i].ID, [3]int{-1, -1, -1}, maxStrip); err != nil {
			return nil, err
		}
	}
	return branches, nil
}
