package ledger

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// RunJobs lists the runs that have open or dead jobs, newest first.
func (l *Ledger) RunJobs(ctx context.Context, limit int) ([]audit.RunJobs, error) {
	rows, err := l.pool.Query(ctx, `
		WITH open AS (
			SELECT run, count(*) FILTER (WHERE sent_at IS NULL) AS queued, count(sent_at) AS sent, min(sent_at) AS oldest
			FROM episode WHERE state = 'open' GROUP BY run
		), dead AS (
			SELECT run, count(*) FILTER (WHERE fault <> 'undetermined') AS dead, count(*) FILTER (WHERE fault = 'undetermined') AS undetermined
			FROM dead_letter WHERE revived_at IS NULL GROUP BY run
		)
		SELECT r.name, r.state, coalesce(o.queued, 0), coalesce(o.sent, 0), o.oldest, coalesce(d.dead, 0), coalesce(d.undetermined, 0)
		FROM run r LEFT JOIN open o ON o.run = r.id LEFT JOIN dead d ON d.run = r.id
		WHERE r.state <> 'dropping' AND (o.run IS NOT NULL OR d.run IS NOT NULL) ORDER BY r.id DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (j audit.RunJobs, err error) {
		var oldest pgxTime
		err = row.Scan(&j.Run, &j.State, &j.Queued, &j.Sent, &oldest, &j.Dead, &j.Undetermined)
		j.Oldest = since(oldest)
		return j, err
	})
}

// Backlog counts what waits in the whole ledger, by its indices alone.
func (l *Ledger) Backlog(ctx context.Context) (audit.Backlog, error) {
	var (
		b      audit.Backlog
		oldest float64
	)
	err := l.pool.QueryRow(ctx, `
		SELECT o.queued, o.sent, coalesce(greatest(extract(epoch FROM now() - o.oldest), 0), 0)::float8, d.dead, d.undetermined,
			(SELECT count(*) FROM outbox WHERE published_at IS NULL)
		FROM (SELECT count(*) FILTER (WHERE sent_at IS NULL) AS queued, count(sent_at) AS sent, min(sent_at) AS oldest
				FROM episode WHERE state = 'open') o,
			(SELECT count(*) FILTER (WHERE fault <> 'undetermined') AS dead, count(*) FILTER (WHERE fault = 'undetermined') AS undetermined
				FROM dead_letter WHERE revived_at IS NULL) d`).Scan(&b.Queued, &b.Sent, &oldest, &b.Dead, &b.Undetermined, &b.Outbox)
	if err != nil {
		return b, fmt.Errorf("count jobs: %w", err)
	}
	b.Oldest = time.Duration(oldest * float64(time.Second))
	return b, nil
}

// DeadLetters lists jobs that were given up, the last one first, a page at a time.
func (l *Ledger) DeadLetters(ctx context.Context, filter audit.JobFilter, page audit.Page) ([]audit.DeadLetter, string, error) {
	before, err := letterCursor(page.After)
	if err != nil {
		return nil, "", err
	}
	limit := pageLimit(page)
	rows, err := l.pool.Query(ctx, `
		SELECT r.name, d.run, d.episode, e.name, d.attempt, d.fault, substring(d.reason FOR 2000), d.deliveries, d.buried_at, d.revived_at
		FROM dead_letter d JOIN run r ON r.id = d.run JOIN episode e ON e.run = d.run AND e.id = d.episode
		WHERE ($1 = '' OR r.name = $1) AND ($2 OR d.revived_at IS NULL)
			AND (d.buried_at, d.run, d.episode, d.attempt) < (to_timestamp($3::float8 / 1e6), $4::integer, $5::bytea, $6::integer)
		ORDER BY d.buried_at DESC, d.run DESC, d.episode DESC, d.attempt DESC LIMIT $7`,
		label(filter.Run), filter.Revived, before.micros, before.run, before.episode, before.attempt, limit+1)
	if err != nil {
		return nil, "", fmt.Errorf("list dead letters: %w", err)
	}
	var runs []int32
	letters, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d audit.DeadLetter, err error) {
		var (
			run        int32
			id, reason []byte
			revived    pgxTime
		)
		err = row.Scan(&d.Run, &run, &id, &d.Episode, &d.Attempt, &d.Fault, &reason, &d.Deliveries, &d.Buried, &revived)
		d.ID, d.Reason, runs = digestOf(id), readable(reason), append(runs, run)
		d.Revived = since(revived)
		return d, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list dead letters: %w", err)
	}
	if len(letters) <= limit {
		return letters, "", nil
	}
	last := letters[limit-1]
	next := fmt.Sprintf("%d-%d-%s-%d", last.Buried.UnixMicro(), runs[limit-1], last.ID, last.Attempt)
	return letters[:limit], next, nil
}

// letterPlace is where a page of dead letters starts.
type letterPlace struct {
	micros  int64
	run     int32
	episode []byte
	attempt int32
}

func letterCursor(after string) (letterPlace, error) {
	if after == "" {
		return letterPlace{maxMicros, math.MaxInt32, []byte{}, 0}, nil
	}
	parts := strings.Split(after, "-")
	if len(parts) != 4 {
		return letterPlace{}, badCursor(after)
	}
	micros, microsErr := strconv.ParseInt(parts[0], 10, 64)
	run, runErr := strconv.ParseInt(parts[1], 10, 32)
	episode, episodeErr := hex.DecodeString(parts[2])
	attempt, attemptErr := strconv.ParseInt(parts[3], 10, 32)
	if microsErr != nil || runErr != nil || episodeErr != nil || attemptErr != nil || micros > maxMicros {
		return letterPlace{}, badCursor(after)
	}
	return letterPlace{micros, int32(run), episode, int32(attempt)}, nil
}

// ReviveJob sends one dead or undetermined job again. One that is open or done
// by now is CodeConflict.
func (l *Ledger) ReviveJob(ctx context.Context, run string, episode audit.Digest) error {
	id, err := l.runID(ctx, run)
	if err != nil {
		return err
	}
	sent := int64(0)
	err = l.inTx(ctx, "revive job", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			WITH again AS (
				UPDATE episode SET state = 'open', finished_at = NULL, attempt = attempt + 1, sent_at = NULL, message = NULL, seq = NULL
				WHERE run = $1 AND id = $2 AND state IN ('dead', 'undetermined') AND body IS NOT NULL
				RETURNING run, id, attempt
			), marked AS (
				UPDATE dead_letter d SET revived_at = now() FROM again a
				WHERE d.run = a.run AND d.episode = a.id AND d.revived_at IS NULL
			)
			INSERT INTO outbox (run, topic, episode, attempt) SELECT run, 'job', id, attempt FROM again`, id, episode[:])
		sent = tag.RowsAffected()
		return err
	})
	if err != nil || sent > 0 {
		return err
	}
	return &audit.Error{
		Code: audit.CodeConflict, Message: fmt.Sprintf("job %.12s of run %q is not given up", episode.String(), run),
		Hint: "somebody sent it again, or its result came late",
	}
}

// RunSizes lists what the newest runs occupy.
func (l *Ledger) RunSizes(ctx context.Context, limit int) ([]audit.RunSize, error) {
	rows, err := l.pool.Query(ctx, `
		SELECT r.name, r.created_at, (
			SELECT coalesce(sum(pg_total_relation_size(to_regclass(part || '_' || r.id))), 0)::bigint FROM unnest($1::text[]) AS part
		) FROM run r WHERE r.state <> 'dropping' ORDER BY r.id DESC LIMIT $2`, partitioned(), limit)
	if err != nil {
		return nil, fmt.Errorf("read sizes of runs: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s audit.RunSize, err error) {
		return s, row.Scan(&s.Run, &s.Started, &s.Bytes)
	})
}

// SaveEndpoint keeps what a model server was found able to do. answers are a
// feature, yes or no, and what its absence costs.
func (l *Ledger) SaveEndpoint(ctx context.Context, e audit.Endpoint) error {
	_, err := l.pool.Exec(ctx, `
		INSERT INTO endpoint (url, model, answers) VALUES ($1, $2, $3)
		ON CONFLICT (url, model) DO UPDATE SET answers = excluded.answers, probed_at = now()`, label(e.URL), label(e.Model), e.Answers)
	if err != nil {
		return fmt.Errorf("save what %s can do: %w", e.URL, err)
	}
	return nil
}

// Endpoints lists the model servers that were probed, the last one first.
func (l *Ledger) Endpoints(ctx context.Context, limit int) ([]audit.Endpoint, error) {
	rows, err := l.pool.Query(ctx, `SELECT url::text, model::text, answers, probed_at FROM endpoint ORDER BY probed_at DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list endpoints: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[audit.Endpoint])
}

// Configurations lists the effective configurations that were used, the last
// one that was new first.
func (l *Ledger) Configurations(ctx context.Context, limit int) ([]audit.Configuration, error) {
	rows, err := l.pool.Query(ctx, `SELECT digest, version, effective, first_used FROM configuration ORDER BY first_used DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list configurations: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c audit.Configuration, err error) {
		var digest []byte
		err = row.Scan(&digest, &c.Version, &c.Effective, &c.FirstUsed)
		c.Digest = digestOf(digest)
		return c, err
	})
}

// readable is text that anybody may have written, fit for a page.
func readable(b []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(string(b), string(unicode.ReplacementChar)))
}

// since is a time that may be missing.
func since(t pgxTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
