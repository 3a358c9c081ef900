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
	JOIN episode e ON e.run = $1 AND e.id = m.episode
	JOIN LATERAL (
		SELECT * FROM action a
		WHERE a.run = $1 AND a.episode = m.episode AND a.key = m.key AND a.result = m.result AND a.step = m.step LIMIT 1
	) a ON true
	WHERE m.run = $1`

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

// readBodies reads the raw contents of documents from their run, and what that
// lacks from wherever a run holds it: a result may have come with another.
func readBodies(ctx context.Context, tx pgx.Tx, run int32, documents []document) error {
	want := map[audit.Digest][]byte{}
	for i := range documents {
		for _, b := range documents[i].all() {
			if !b.digest.IsZero() {
				want[b.digest] = nil
			}
		}
	}
	if err := findBodies(ctx, tx, want, `b.run = $2`, run); err != nil {
		return err
	}
	if err := findBodies(ctx, tx, want, `true`); err != nil {
		return err
	}
	for i := range documents {
		for _, b := range documents[i].all() {
			b.content = want[b.digest]
		}
	}
	return nil
}

// findBodies reads those of the bodies that are not there yet, among those where
// a condition on b holds.
func findBodies(ctx context.Context, tx pgx.Tx, want map[audit.Digest][]byte, where string, args ...any) error {
	var missing [][]byte
	for digest, content := range want {
		if content == nil {
			missing = append(missing, digest[:])
		}
	}
	if len(missing) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `
		SELECT DISTINCT ON (digest) digest, content FROM body b WHERE digest = ANY($1::bytea[]) AND `+where+` ORDER BY digest, truncated`, append([]any{missing}, args...)...)
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
	return nil
}

// readPairs reads the pairs of a run for which more conditions hold.
func readPairs(ctx context.Context, tx pgx.Tx, run int32, and string, args ...any) ([]audit.Pair, error) {
	rows, err := tx.Query(ctx, selectPair+and, append([]any{run}, args...)...)
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
	if err := readBodies(ctx, tx, run, documents); err != nil {
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

func (l *Ledger) pairs(ctx context.Context, run int32, and string, args ...any) ([]audit.Pair, error) {
	var pairs []audit.Pair
	err := l.look(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		pairs, err = readPairs(ctx, tx, run, and, args...)
		return err
	})
	return pairs, err
}

// Pair reads one pair of a run with its raw bodies. Bodies beyond Config.MaxBody
// come back cut; Truncated tells which.
func (l *Ledger) Pair(ctx context.Context, run string, key audit.Digest) (audit.Pair, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return audit.Pair{}, err
	}
	pairs, err := l.pairs(ctx, id, ` AND m.key = $2`, key[:])
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
	var sizes map[audit.Digest]int64
	err = l.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
		sizes, err = readTruncated(ctx, tx, id, key)
		return err
	})
	return sizes, err
}

func readTruncated(ctx context.Context, tx pgx.Tx, run int32, key audit.Digest) (map[audit.Digest]int64, error) {
	rows, err := tx.Query(ctx, `
		SELECT b.digest, b.size FROM run_pair m
		JOIN pair p ON p.key = m.key AND p.result = m.result
		JOIN body b ON b.run = $1 AND b.truncated
			AND b.digest IN (p.arguments, p.prompt, p.rehearsal, p.state_block, p.recorded, p.observation, p.twin)
		WHERE m.run = $1 AND m.key = $2`, run, key[:])
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
	return l.pairs(ctx, id, ` AND e.name = $2 ORDER BY p.mode, p.environment, p.version, m.step, a.probe, a.sample, a.attempt, m.key LIMIT 5000`, label(name))
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
	var lines []audit.PairLine
	err = l.look(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT m.key, e.name, m.step, m.tool, p.mode, m.prompt_group, p.actual, p.rehearsed, m.severity, p.false_success, m.masked, m.committed_at
			FROM run_pair m
			JOIN pair p ON p.key = m.key AND p.result = m.result
			JOIN episode e ON e.run = $1 AND e.id = m.episode
			WHERE m.run = $1 AND (m.severity < $2 OR (m.severity = $2 AND m.key > $3))
				AND ($4 = '' OR m.tool = $4) AND ($5 = '' OR p.mode = $5) AND m.severity >= $6
				AND ($7::boolean IS NULL OR (m.masked <> '') = $7)
			ORDER BY m.severity DESC, m.key LIMIT $8`,
			id, severity, key, label(filter.Tool), string(filter.Mode), int16(filter.MinSeverity), filter.Masked, limit+1)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, scanPairLine)
		return err
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

func scanPairLine(row pgx.CollectableRow) (audit.PairLine, error) {
	var (
		p        audit.PairLine
		k        []byte
		severity int16
	)
	err := row.Scan(&k, &p.Episode, &p.Step, &p.Tool, &p.Mode, &p.PromptGroup, &p.Real, &p.Rehearsed, &severity, &p.FalseSuccess, &p.Masked, &p.Committed)
	if err == nil {
		p.Key, p.Severity = audit.Digest(k), audit.Severity(severity)
	}
	return p, err
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
