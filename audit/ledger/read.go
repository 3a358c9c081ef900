package ledger

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

const selectPair = `
	SELECT p.doc, p.extra, p.arguments, p.prompt, p.rehearsal, p.state_block, p.recorded, p.observation, p.twin,
		a.step, a.probe, a.sample, a.attempt, a.call_id, a.message, m.repeats,
		e.name, m.prompt_group, m.executed, m.reported, m.inclusion
	FROM run_pair m
	JOIN pair p ON p.key = m.key AND p.result = m.result
	JOIN episode e ON e.run = m.run AND e.id = m.episode
	JOIN LATERAL (
		SELECT * FROM action a
		WHERE a.run = m.run AND a.episode = m.episode AND a.key = m.key AND a.result = m.result AND a.step = m.step LIMIT 1
	) a ON true`

// scanPair reads a pair without its bodies; their digests are in the document.
func scanPair(row pgx.CollectableRow) (document, func(*audit.Pair), error) {
	var (
		d                                             document
		digests                                       [7][]byte
		step, probe, sample, attempt, message, repeat int
		callID, episode, group                        string
		executed, reported                            int16
		inclusion                                     float64
	)
	err := row.Scan(&d.doc, &d.extra, &digests[0], &digests[1], &digests[2], &digests[3], &digests[4], &digests[5], &digests[6],
		&step, &probe, &sample, &attempt, &callID, &message, &repeat, &episode, &group, &executed, &reported, &inclusion)
	if err != nil {
		return d, nil, err
	}
	for i, b := range d.all() {
		if digests[i] != nil {
			b.digest = audit.Digest(digests[i])
		}
	}
	return d, func(p *audit.Pair) {
		p.Episode, p.PromptGroup, p.Repeats = episode, group, repeat
		p.Success, p.Executed = untruth(reported), untruth(executed)
		p.Action.Step, p.Action.Probe, p.Action.Sample, p.Action.Attempt = step, probe, sample, attempt
		p.Action.CallID, p.Action.Message, p.Action.Inclusion = callID, message, inclusion
	}, nil
}

// loadBodies reads the raw contents of documents, wherever a run holds them.
func (l *Ledger) loadBodies(ctx context.Context, documents []document) error {
	want := map[audit.Digest][]byte{}
	var digests [][]byte
	for i := range documents {
		for _, b := range documents[i].all() {
			if _, known := want[b.digest]; !known && !b.digest.IsZero() {
				want[b.digest] = nil
				digests = append(digests, b.digest[:])
			}
		}
	}
	rows, err := l.pool.Query(ctx, `SELECT DISTINCT ON (digest) digest, content FROM body WHERE digest = ANY($1::bytea[]) ORDER BY digest, truncated`, digests)
	if err != nil {
		return fmt.Errorf("read bodies: %w", err)
	}
	var digest, content []byte
	_, err = pgx.ForEachRow(rows, []any{&digest, &content}, func() error {
		want[audit.Digest(digest)] = append([]byte{}, content...)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read bodies: %w", err)
	}
	for i := range documents {
		for _, b := range documents[i].all() {
			b.content = want[b.digest]
		}
	}
	return nil
}

func (l *Ledger) pairs(ctx context.Context, where string, args ...any) ([]audit.Pair, error) {
	rows, err := l.pool.Query(ctx, selectPair+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read pairs: %w", err)
	}
	var overlays []func(*audit.Pair)
	documents, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (document, error) {
		d, overlay, err := scanPair(row)
		overlays = append(overlays, overlay)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read pairs: %w", err)
	}
	if err := l.loadBodies(ctx, documents); err != nil {
		return nil, err
	}
	pairs := make([]audit.Pair, len(documents))
	for i := range documents {
		if pairs[i], err = documents[i].pair(); err != nil {
			return nil, err
		}
		overlays[i](&pairs[i])
	}
	return pairs, nil
}

// Pair reads one pair of a run with its raw bodies. Bodies beyond Config.MaxBody
// come back cut; Truncated tells which.
func (l *Ledger) Pair(ctx context.Context, run string, key audit.Digest) (audit.Pair, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return audit.Pair{}, err
	}
	pairs, err := l.pairs(ctx, ` WHERE m.run = $1 AND m.key = $2`, id, key[:])
	if err != nil {
		return audit.Pair{}, err
	}
	if len(pairs) == 0 {
		return audit.Pair{}, &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("pair %s is not in run %q", key, run), Hint: "keys are 64 hexadecimal digits; list the run's pairs"}
	}
	return pairs[0], nil
}

// Truncated reports the whole sizes of a pair's bodies that were too large to
// keep, by digest.
func (l *Ledger) Truncated(ctx context.Context, run string, key audit.Digest) (map[audit.Digest]int64, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, err
	}
	rows, err := l.pool.Query(ctx, `
		SELECT b.digest, b.size FROM run_pair m
		JOIN pair p ON p.key = m.key AND p.result = m.result
		JOIN body b ON b.run = m.run AND b.truncated
			AND b.digest IN (p.arguments, p.prompt, p.rehearsal, p.state_block, p.recorded, p.observation, p.twin)
		WHERE m.run = $1 AND m.key = $2`, id, key[:])
	if err != nil {
		return nil, fmt.Errorf("read truncated bodies: %w", err)
	}
	sizes := map[audit.Digest]int64{}
	var (
		digest []byte
		size   int64
	)
	_, err = pgx.ForEachRow(rows, []any{&digest, &size}, func() error {
		sizes[audit.Digest(digest)] = size
		return nil
	})
	return sizes, err
}

// EpisodePairs reads the pairs of an episode in the order of its steps; name is
// the episode's own id, which several modes and versions may share.
func (l *Ledger) EpisodePairs(ctx context.Context, run, name string) ([]audit.Pair, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, err
	}
	return l.pairs(ctx, ` WHERE m.run = $1 AND e.name = $2 ORDER BY p.mode, p.environment, p.version, m.step, a.probe, a.sample, a.attempt, m.key LIMIT 5000`, id, label(name))
}

// Pairs lists a run's pairs, worst first, a page at a time. The second result
// is the After of the next page, "" when there is none.
func (l *Ledger) Pairs(ctx context.Context, run string, filter audit.PairFilter, page audit.Page) ([]audit.PairLine, string, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, "", err
	}
	severity, key, err := pairCursor(page.After)
	if err != nil {
		return nil, "", err
	}
	limit := pageLimit(page)
	rows, err := l.pool.Query(ctx, `
		SELECT m.key, e.name, m.step, m.tool, p.mode, m.prompt_group, p.actual, p.rehearsed, m.severity, p.false_success, m.masked, m.committed_at
		FROM run_pair m
		JOIN pair p ON p.key = m.key AND p.result = m.result
		JOIN episode e ON e.run = m.run AND e.id = m.episode
		WHERE m.run = $1 AND (m.severity < $2 OR (m.severity = $2 AND m.key > $3))
			AND ($4 = '' OR m.tool = $4) AND ($5 = '' OR p.mode = $5) AND m.severity >= $6
			AND ($7::boolean IS NULL OR (m.masked <> '') = $7)
		ORDER BY m.severity DESC, m.key LIMIT $8`,
		id, severity, key, label(filter.Tool), string(filter.Mode), int16(filter.MinSeverity), filter.Masked, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list pairs: %w", err)
	}
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.PairLine, error) {
		var (
			p        audit.PairLine
			k        []byte
			severity int16
		)
		err := row.Scan(&k, &p.Episode, &p.Step, &p.Tool, &p.Mode, &p.PromptGroup, &p.Real, &p.Rehearsed, &severity, &p.FalseSuccess, &p.Masked, &p.Committed)
		p.Key, p.Severity = audit.Digest(k), audit.Severity(severity)
		return p, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list pairs: %w", err)
	}
	if len(lines) <= limit {
		return lines, "", nil
	}
	last := lines[limit-1]
	return lines[:limit], strconv.Itoa(int(last.Severity)) + "-" + last.Key.String(), nil
}

// pairCursor reads "severity-key".
func pairCursor(after string) (int16, []byte, error) {
	if after == "" {
		return int16(audit.Severities), []byte{}, nil
	}
	text, digits, ok := strings.Cut(after, "-")
	severity, err := strconv.ParseInt(text, 10, 16)
	key, keyErr := hex.DecodeString(digits)
	if !ok || err != nil || keyErr != nil || len(key) != len(audit.Digest{}) {
		return 0, nil, badCursor(after)
	}
	return int16(severity), key, nil
}
