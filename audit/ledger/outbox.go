package ledger

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// Relay claims unpublished jobs and announcements (results, scores) up to a limit of
// each, has them published, and marks those that the publisher gave a sequence or
// that no stream will ever take. It returns how many it claimed and how many were
// published. Other relays pass over the claimed rows; a relay that dies, or whose
// publisher returns an error, leaves them unpublished. Neither kind waits behind the
// other: a stream of jobs that is full holds no announcement up, and a day of
// announcements that nobody relayed no job.
func (l *Ledger) Relay(ctx context.Context, limit audit.ClaimLimit, publish func(ctx context.Context, messages []audit.Outgoing) error) (claimed, published int, err error) {
	err = l.transact(ctx, beginLookups, "relay outbox", func(ctx context.Context, tx pgx.Tx) error {
		messages, jobs, err := l.claim(ctx, tx, limit)
		claimed, published = len(messages), 0
		if err != nil || len(messages) == 0 {
			return err
		}
		if err := publish(ctx, messages); err != nil {
			return err
		}
		published, err = markPublished(ctx, tx, messages, jobs)
		return err
	})
	return claimed, published, err
}

// jobRef is the episode behind a claimed message.
type jobRef struct {
	run     int32
	episode []byte
	attempt int32
}

// claim locks the first messages of each kind and reads those of them that fit into
// the bytes, at least one. What is locked and not read is free again when the
// transaction ends.
func (l *Ledger) claim(ctx context.Context, tx pgx.Tx, limit audit.ClaimLimit) ([]audit.Outgoing, []jobRef, error) {
	rows, err := tx.Query(ctx, `
		WITH job AS MATERIALIZED (
			SELECT * FROM outbox WHERE published_at IS NULL AND topic = 'job' ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
		), announcement AS MATERIALIZED (
			SELECT * FROM outbox WHERE published_at IS NULL AND topic <> 'job' ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED
		), claimed AS (
			SELECT o.id, o.topic, o.run, o.episode, o.attempt, o.payload, coalesce(o.trace, '') AS trace, e.body,
				coalesce(octet_length(o.payload), octet_length(e.body), 0) AS size
			FROM (TABLE job UNION ALL TABLE announcement) AS o
			LEFT JOIN LATERAL (
				SELECT body FROM episode WHERE o.topic = 'job' AND run = o.run AND id = o.episode AND octet_length(body) <= $3 LIMIT 1
			) AS e ON true
		), summed AS (
			SELECT *, sum(size) OVER (PARTITION BY topic = 'job' ORDER BY id) - size AS before FROM claimed
		)
		SELECT id, topic, run, episode, attempt, payload, trace, body,
			coalesce((SELECT name FROM run r WHERE r.id = s.run), '') -- a run that is gone holds up nobody
		FROM summed s WHERE before < $4 ORDER BY id`, limit.Jobs, limit.Announcements, l.config.MaxMessage, limit.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("claim: %w", err)
	}
	var jobs []jobRef
	messages, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Outgoing, error) {
		var (
			m             audit.Outgoing
			j             jobRef
			payload, body []byte
			name          string
		)
		if err := row.Scan(&m.Row, &m.Topic, &j.run, &j.episode, &j.attempt, &payload, &m.Trace, &body, &name); err != nil {
			return m, err
		}
		m.ID = messageID(j, &m)
		m.Subject = strconv.Itoa(int(j.run))
		m.Payload = payload
		if m.Topic == audit.TopicJob {
			var err error
			m.Payload, err = audit.EncodeJob(audit.Job{Run: name, ID: audit.Digest(j.episode), Attempt: int(j.attempt)}, body)
			if err != nil {
				return m, err
			}
		}
		jobs = append(jobs, j)
		return m, nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("claim: %w", err)
	}
	return messages, jobs, nil
}

// messageID names a message: a stream that has seen the id drops the message. A job
// that is sent again needs another, so it has its attempt's. An announcement is told
// once and has its row's, which is short because the stream keeps it in memory; a few
// bytes of the episode tell the rows of a ledger that was made anew apart.
func messageID(j jobRef, m *audit.Outgoing) string {
	if m.Topic == audit.TopicJob {
		return fmt.Sprintf("%s-%d-%x-%d", m.Topic, j.run, j.episode, j.attempt)
	}
	return fmt.Sprintf("%s-%d-%x", m.Topic, m.Row, j.episode[:4])
}

func markPublished(ctx context.Context, tx pgx.Tx, messages []audit.Outgoing, jobs []jobRef) (int, error) {
	var (
		done     []int64
		runs     []int32
		episodes [][]byte
		attempts []int32
		ids      []string
		seqs     []int64
	)
	for i, m := range messages {
		if m.Seq == 0 && !m.Refused {
			continue
		}
		done = append(done, m.Row)
		if m.Topic == audit.TopicJob {
			j := jobs[i]
			runs, episodes, attempts = append(runs, j.run), append(episodes, j.episode), append(attempts, j.attempt)
			ids, seqs = append(ids, m.ID), append(seqs, int64(m.Seq))
		}
	}
	if len(done) == 0 {
		return 0, nil
	}
	batch := &pgx.Batch{}
	batch.Queue(`UPDATE outbox SET published_at = now() WHERE id = ANY($1) AND published_at IS NULL`, done)
	batch.Queue(`
		UPDATE episode e SET sent_at = now(), message = s.message, seq = s.seq
		FROM unnest($1::integer[], $2::bytea[], $3::integer[], $4::text[], $5::bigint[]) AS s (run, id, attempt, message, seq)
		WHERE e.run = s.run AND e.id = s.id AND e.attempt = s.attempt`, runs, episodes, attempts, ids, seqs)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return 0, fmt.Errorf("mark published: %w", err)
	}
	return len(done), nil
}

// Waiting lists open jobs that were sent at least age ago, oldest first, from
// after the given one on. Ages are measured by the database's clock alone. A job
// from further in the future than age was sent before the clock was set back:
// nobody knows how long it waits, so it is looked for, too.
func (l *Ledger) Waiting(ctx context.Context, age time.Duration, after *audit.Sent, limit int) ([]audit.Sent, error) {
	var from audit.Sent
	if after != nil {
		from = *after
	}
	rows, err := l.pool.Query(ctx, `
		SELECT r.name, e.id, e.attempt, e.message, e.seq, e.sent_at
		FROM episode e JOIN run r ON r.id = e.run
		WHERE e.state = 'open' AND r.state <> 'dropping'
			AND (e.sent_at <= now() - make_interval(secs => $1) OR e.sent_at > now() + make_interval(secs => $1))
			AND (e.sent_at, e.id) > ($2, $3)
		ORDER BY e.sent_at, e.id LIMIT $4`, age.Seconds(), from.At, from.ID[:], limit)
	if err != nil {
		return nil, fmt.Errorf("list waiting jobs: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (audit.Sent, error) {
		var (
			s   audit.Sent
			id  []byte
			seq int64
		)
		err := row.Scan(&s.Run, &id, &s.Attempt, &s.Message, &seq, &s.At)
		s.ID, s.Seq = audit.Digest(id), uint64(seq)
		return s, err
	})
}

// Resend publishes open jobs once more, each under its next attempt, and returns
// how many: a job that was finished or sent again in the meantime is left alone.
func (l *Ledger) Resend(ctx context.Context, lost []audit.Sent) (int, error) {
	var (
		runs     []string
		ids      [][]byte
		attempts []int32
	)
	for i := range lost {
		runs, ids, attempts = append(runs, label(lost[i].Run)), append(ids, lost[i].ID[:]), append(attempts, int32(lost[i].Attempt))
	}
	sent := 0
	err := l.transact(ctx, beginLookups, "resend jobs", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			WITH again AS (
				UPDATE episode e SET attempt = e.attempt + 1, sent_at = NULL, message = NULL, seq = NULL
				FROM unnest($1::text[], $2::bytea[], $3::integer[]) AS s (run, id, attempt)
				JOIN run r ON r.name = s.run
				WHERE e.run = r.id AND e.id = s.id AND e.attempt = s.attempt AND e.state = 'open'
				RETURNING e.run, e.id, e.attempt
			)
			INSERT INTO outbox (run, topic, episode, attempt) SELECT run, 'job', id, attempt FROM again`,
			runs, ids, attempts)
		sent = int(tag.RowsAffected())
		return err
	})
	return sent, err
}

// Revive sends the dead and undetermined jobs of a run again and returns how many.
func (l *Ledger) Revive(ctx context.Context, run string) (int, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return 0, err
	}
	sent := 0
	err = l.inTx(ctx, "revive jobs", func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			WITH again AS (
				UPDATE episode SET state = 'open', finished_at = NULL, attempt = attempt + 1, sent_at = NULL, message = NULL, seq = NULL
				WHERE run = $1 AND state IN ('dead', 'undetermined')
				RETURNING run, id, attempt
			), marked AS (
				UPDATE dead_letter d SET revived_at = now() FROM again a
				WHERE d.run = a.run AND d.episode = a.id AND d.revived_at IS NULL
			)
			INSERT INTO outbox (run, topic, episode, attempt) SELECT run, 'job', id, attempt FROM again`, id)
		sent = int(tag.RowsAffected())
		return err
	})
	return sent, err
}

// Purge forgets messages that were published at least age ago and returns how
// many. A job's last message stays until the job is closed.
func (l *Ledger) Purge(ctx context.Context, age time.Duration) (int, error) {
	tag, err := l.pool.Exec(ctx, `
		DELETE FROM outbox o WHERE published_at <= now() - make_interval(secs => $1) AND NOT EXISTS (
			SELECT FROM episode e WHERE e.run = o.run AND e.id = o.episode AND e.state = 'open' AND o.topic = 'job' AND e.attempt = o.attempt)`, age.Seconds())
	if err != nil {
		return 0, fmt.Errorf("purge outbox: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
