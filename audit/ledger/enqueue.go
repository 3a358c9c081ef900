package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// enqueueBatch is how many episodes one transaction takes in.
const enqueueBatch = 500

// Enqueue makes a job of each episode, for a queue to carry, and returns how
// many were new to the run. An episode that the run already has is left alone.
func (l *Ledger) Enqueue(ctx context.Context, run string, episodes []audit.Episode) (int, error) {
	find := func(ctx context.Context) (int32, error) { return l.runID(ctx, run) }
	if _, err := find(ctx); err != nil {
		return 0, err
	}
	queued := 0
	for batch := range slices.Chunk(episodes, enqueueBatch) {
		jobs, err := newJobColumns(batch)
		if err != nil {
			return queued, err
		}
		n := 0
		err = l.intoRun(ctx, "enqueue episodes", run, find, func(ctx context.Context, tx pgx.Tx, id int32) error {
			n, err = jobs.insert(ctx, tx, id)
			return err
		})
		if err != nil {
			return queued, err
		}
		queued += n
	}
	return queued, nil
}

// jobColumns are episodes turned by ninety degrees, sorted by id.
type jobColumns struct {
	id, body                                        [][]byte
	name, group, policy, wireAPI, environment, mode []string
	checkpoint                                      []int64
	samples                                         []int32
}

func newJobColumns(episodes []audit.Episode) (*jobColumns, error) {
	type job struct {
		episode *audit.Episode
		id      audit.Digest
		body    []byte
	}
	jobs := make([]job, len(episodes))
	for i := range episodes {
		e := &episodes[i]
		body, id, err := audit.EncodeEpisode(e)
		if err != nil {
			return nil, err
		}
		jobs[i] = job{e, id, body}
	}
	slices.SortFunc(jobs, func(a, b job) int { return bytes.Compare(a.id[:], b.id[:]) })
	c := &jobColumns{}
	for _, j := range jobs {
		e := j.episode
		c.id, c.body = append(c.id, j.id[:]), append(c.body, j.body)
		c.name, c.group = append(c.name, label(e.ID)), append(c.group, label(e.PromptGroup))
		c.policy, c.checkpoint = append(c.policy, label(e.Policy)), append(c.checkpoint, e.Checkpoint)
		c.wireAPI, c.environment = append(c.wireAPI, label(e.WireAPI)), append(c.environment, label(e.Environment))
		c.mode, c.samples = append(c.mode, string(e.Mode)), append(c.samples, int32(samples(e)))
	}
	return c, nil
}

// samples counts the actions that are to be audited.
func samples(e *audit.Episode) int {
	n := 0
	for i := range e.Actions {
		if !e.Actions[i].Replay {
			n++
		}
	}
	return n
}

// insert sends the episodes in pieces: each may bring a state of megabytes along,
// and a message to PostgreSQL holds 1 GiB.
func (c *jobColumns) insert(ctx context.Context, tx pgx.Tx, run int32) (int, error) {
	inserted := 0
	for from := 0; from < len(c.id); {
		to, size := from, 0
		for ; to < len(c.id); to++ {
			if size += len(c.body[to]); size > pieceBytes && to > from {
				break
			}
		}
		n, err := c.insertPiece(ctx, tx, run, from, to)
		if err != nil {
			return 0, err
		}
		inserted, from = inserted+n, to
	}
	return inserted, nil
}

func (c *jobColumns) insertPiece(ctx context.Context, tx pgx.Tx, run int32, from, to int) (int, error) {
	tag, err := tx.Exec(ctx, `
		WITH new AS (
			INSERT INTO episode (run, id, name, prompt_group, policy, checkpoint, wire_api, environment, mode, samples, body, state)
			SELECT $1, id, name, prompt_group, policy, checkpoint, wire_api, environment, mode, samples, body, 'open'
			FROM unnest($2::bytea[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::integer[], $11::bytea[])
				AS e (id, name, prompt_group, policy, checkpoint, wire_api, environment, mode, samples, body)
			ON CONFLICT DO NOTHING
			RETURNING id
		)
		INSERT INTO outbox (run, topic, episode, attempt, trace) SELECT $1, 'job', id, 1, nullif($12, '') FROM new`,
		run, c.id[from:to], c.name[from:to], c.group[from:to], c.policy[from:to], c.checkpoint[from:to], c.wireAPI[from:to],
		c.environment[from:to], c.mode[from:to], c.samples[from:to], c.body[from:to], audit.TraceOf(ctx))
	if err != nil {
		return 0, fmt.Errorf("insert jobs: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// Load reads the episode of a job whose message was only a reference.
func (l *Ledger) Load(ctx context.Context, job audit.Job) (*audit.Episode, error) {
	var body []byte
	err := retry(ctx, l.config.Retries, func() error {
		return l.pool.QueryRow(ctx, `SELECT e.body FROM episode e JOIN run r ON r.id = e.run WHERE r.name = $1 AND e.id = $2`,
			label(job.Run), job.ID[:]).Scan(&body)
	})
	if err != nil {
		return nil, notFound(err, fmt.Sprintf("job %s of run %q", job.ID, job.Run), "the run was dropped, or the message is of another ledger")
	}
	return audit.DecodeEpisode(body)
}

// Bury gives a job up and keeps why. A job that has a result by now is left
// alone, and so is one that was sent again in the meantime.
func (l *Ledger) Bury(ctx context.Context, job audit.Job, b audit.Burial) error {
	run, err := l.runID(ctx, job.Run)
	if err != nil {
		return err
	}
	state := "dead"
	if b.Fault == audit.FaultUndetermined {
		state = "undetermined"
	}
	return l.inTx(ctx, "bury job", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			WITH given_up AS (
				UPDATE episode SET state = $4, finished_at = now()
				WHERE run = $1 AND id = $2 AND attempt = $3 AND state = 'open'
				RETURNING run, id, attempt
			)
			INSERT INTO dead_letter (run, episode, attempt, fault, reason, deliveries)
			SELECT run, id, attempt, $5, $6, $7 FROM given_up`,
			run, job.ID[:], job.Attempt, state, string(b.Fault), []byte(b.Reason), b.Delivery)
		return err
	})
}
