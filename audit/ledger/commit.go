package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"understudy/audit"
)

// ledgerLock is the advisory lock that every commit shares and that dropping a
// run takes alone, so that no pair loses its last run while it gains another.
const ledgerLock = 0x6c65646765720001

// Commit stores pairs that were audited without a job, an episode at a time in
// the order in which they come. See audit.Ledger.
func (l *Ledger) Commit(ctx context.Context, run string, pairs []audit.Pair) (int, error) {
	inserted := 0
	for len(pairs) > 0 {
		n := 1
		for n < len(pairs) && sameEpisode(&pairs[n], &pairs[0]) {
			n++
		}
		receipt, err := l.commitEpisode(ctx, run, nil, pairs[:n])
		inserted += receipt.Inserted
		if err != nil {
			return inserted, err
		}
		pairs = pairs[n:]
	}
	return inserted, nil
}

// Finish stores the results of a job and closes it, in one transaction. A job
// that was closed before is compared with what it left: equal results are a
// duplicate, others a conflict, and neither moves a counter.
func (l *Ledger) Finish(ctx context.Context, job audit.Job, pairs []audit.Pair) (audit.Receipt, error) {
	return l.commitEpisode(ctx, job.Run, &job, pairs)
}

// sameEpisode reports whether two pairs belong to one episode of a run.
func sameEpisode(a, b *audit.Pair) bool {
	return a.Episode == b.Episode && a.Mode == b.Mode && a.Policy == b.Policy && a.Checkpoint == b.Checkpoint &&
		a.Environment == b.Environment && a.EnvDigest == b.EnvDigest
}

// episodeID is the identity of an episode that came without a job.
func episodeID(p *audit.Pair) (audit.Digest, error) {
	text, err := json.Marshal([]any{p.Episode, p.Mode, p.Policy, p.Checkpoint, p.Environment, p.EnvDigest})
	if err != nil {
		return audit.Digest{}, fmt.Errorf("digest episode %q: %w", p.Episode, err)
	}
	return take(text).digest, nil
}

// commitment is one episode on its way into the ledger.
type commitment struct {
	run     int32
	episode audit.Digest
	job     *audit.Job
	rows    []row
	columns *columns

	state   string // of the job when the transaction locked it
	attempt int
	taken   []int32         // indices of the rows whose place was free
	counted map[string]bool // keys that were new to the run
	receipt audit.Receipt
}

func (l *Ledger) commitEpisode(ctx context.Context, run string, job *audit.Job, pairs []audit.Pair) (audit.Receipt, error) {
	if job == nil && len(pairs) == 0 {
		return audit.Receipt{}, nil
	}
	id, err := l.runID(ctx, run)
	if err != nil {
		return audit.Receipt{}, err
	}
	rows, err := newRows(pairs)
	if err != nil {
		return audit.Receipt{}, err
	}
	c := &commitment{run: id, job: job, rows: rows, columns: newColumns(rows)}
	if job != nil {
		c.episode = job.ID
	} else if c.episode, err = episodeID(&pairs[0]); err != nil {
		return audit.Receipt{}, err
	}
	bodies := newBodyColumns(rows, l.config.MaxBody)
	err = l.inTx(ctx, "commit episode", func(ctx context.Context, tx pgx.Tx) error {
		if err := c.insert(ctx, tx, bodies); err != nil {
			return err
		}
		if err := l.interrupt(ctx, "results inserted"); err != nil {
			return err
		}
		return l.settle(ctx, tx, c)
	})
	if err != nil {
		return audit.Receipt{}, l.explain(run, err)
	}
	return c.receipt, nil
}

// explain turns a missing partition into the run that is gone.
func (l *Ledger) explain(run string, err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if ok && e.Code == "23514" && e.ConstraintName == "" {
		l.forgetRun(run)
		return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("run %q was dropped", run), Hint: "its results are gone; start another run", Err: err}
	}
	return err
}

const insertBodies = `
	INSERT INTO body (digest, run, size, truncated, content)
	SELECT digest, $1::integer, size, truncated, content
	FROM unnest($2::bytea[], $3::bigint[], $4::boolean[], $5::bytea[]) AS b (digest, size, truncated, content)
	ON CONFLICT DO NOTHING`

// One statement takes the places, stores the results and makes them members of
// the run. A place that is taken lets nothing of its row through.
const insertResults = `
	WITH src AS (
		SELECT * FROM unnest($3::bytea[], $4::bytea[], $5::integer[], $6::integer[], $7::integer[], $8::integer[], $9::integer[],
			$10::text[], $11::integer[], $12::integer[], $13::text[], $14::bigint[], $15::text[], $16::text[], $17::bytea[],
			$18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::boolean[], $24::text[], $25::text[],
			$26::smallint[], $27::boolean[], $28::boolean[], $29::boolean[], $30::boolean[], $31::boolean[], $32::integer[],
			$33::bytea[], $34::bytea[], $35::bytea[], $36::bytea[], $37::bytea[], $38::bytea[], $39::bytea[], $40::bytea[],
			$41::bytea[], $42::bytea[], $43::bytea[], $44::bytea[], $45::text[], $46::smallint[], $47::smallint[], $48::float8[], $49::float8[], $50::float8[])
			WITH ORDINALITY AS s (key, result, step, probe, sample, attempt, ordinal, call_id, message, repeats,
			policy, checkpoint, environment, version, env_digest, mode, canary, tool, effect, masked, outage, actual, rehearsed,
			severity, false_success, phantom_write, silent_write, cascaded, fork, cells, before, after, rules,
			arguments, prompt, rehearsal, state_block, recorded, observation, twin, doc, extra,
			prompt_group, executed, reported, weight, inclusion, confidence, i)
	), placed AS (
		INSERT INTO action (run, episode, step, probe, sample, attempt, ordinal, key, result, call_id, message, repeats)
		SELECT $1::integer, $2::bytea, step, probe, sample, attempt, ordinal, key, result, call_id, message, repeats
		FROM src ORDER BY i
		ON CONFLICT DO NOTHING
		RETURNING step, probe, sample, attempt, ordinal
	), fresh AS (
		SELECT src.* FROM src JOIN placed USING (step, probe, sample, attempt, ordinal)
	), stored AS (
		INSERT INTO pair (key, result, policy, checkpoint, environment, version, env_digest, mode, canary, tool, effect,
			masked, outage, actual, rehearsed, severity, false_success, phantom_write, silent_write, cascaded, fork, cells,
			before, after, rules, arguments, prompt, rehearsal, state_block, recorded, observation, twin, doc, extra)
		SELECT key, result, policy, checkpoint, environment, version, env_digest, mode, canary, tool, effect,
			masked, outage, actual, rehearsed, severity, false_success, phantom_write, silent_write, cascaded, fork, cells,
			before, after, rules, arguments, prompt, rehearsal, state_block, recorded, observation, twin, doc, extra
		FROM fresh ORDER BY i
		ON CONFLICT DO NOTHING
	), counted AS (
		INSERT INTO run_pair (key, run, result, episode, step, prompt_group, executed, reported, weight, inclusion, confidence, repeats, tool, severity, masked)
		SELECT key, $1::integer, result, $2::bytea, step, prompt_group, executed, reported, weight, inclusion, confidence, repeats, tool, severity, masked
		FROM fresh ORDER BY i
		ON CONFLICT DO NOTHING
		RETURNING key
	)
	SELECT (SELECT coalesce(array_agg(i::integer), '{}') FROM fresh), (SELECT coalesce(array_agg(key::bytea), '{}') FROM counted)`

// insert locks the job, then stores what is new. Its results are read before
// settle decides what they move.
func (c *commitment) insert(ctx context.Context, tx pgx.Tx, b *bodyColumns) error {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT pg_advisory_xact_lock_shared($1)`, int64(ledgerLock))
	if c.job != nil {
		batch.Queue(`SELECT state, attempt FROM episode WHERE run = $1 AND id = $2 FOR UPDATE`, c.run, c.episode[:])
	}
	batch.Queue(insertBodies, c.run, b.digest, b.size, b.truncated, b.content)
	s := c.columns
	batch.Queue(insertResults, c.run, c.episode[:], s.key, s.result, s.step, s.probe, s.sample, s.attempt, s.ordinal,
		s.callID, s.message, s.repeats, s.policy, s.checkpoint, s.environment, s.version, s.envDigest, s.mode, s.canary,
		s.tool, s.effect, s.masked, s.outage, s.actual, s.rehearsed, s.severity, s.falseSuccess, s.phantomWrite,
		s.silentWrite, s.cascaded, s.fork, s.cells, s.before, s.after, s.rules, s.arguments, s.prompt, s.rehearsal,
		s.stateBlock, s.recorded, s.observation, s.twin, s.doc, s.extra, s.group, s.executed, s.reported, s.weight, s.inclusion, s.confidence)
	results := tx.SendBatch(ctx, batch)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return fmt.Errorf("share the ledger: %w", err)
	}
	if c.job != nil {
		err := results.QueryRow().Scan(&c.state, &c.attempt)
		if errors.Is(err, pgx.ErrNoRows) {
			return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("job %s is not in run %q", c.episode, c.job.Run), Hint: "the run was dropped, or the message is of another ledger"}
		}
		if err != nil {
			return fmt.Errorf("lock the job: %w", err)
		}
	}
	if _, err := results.Exec(); err != nil {
		return fmt.Errorf("insert bodies: %w", err)
	}
	var keys [][]byte
	c.taken = c.taken[:0]
	if err := results.QueryRow().Scan(&c.taken, &keys); err != nil {
		return fmt.Errorf("insert results: %w", err)
	}
	c.counted = make(map[string]bool, len(keys))
	for _, k := range keys {
		c.counted[string(k)] = true
	}
	return results.Close()
}

// settle moves the counters by what was really inserted, looks for conflicts,
// closes the job and announces the episode.
func (l *Ledger) settle(ctx context.Context, tx pgx.Tx, c *commitment) error {
	placed := make(map[int]bool, len(c.taken))
	for _, i := range c.taken {
		placed[int(i)-1] = true
	}
	sums, refused := newCounts(), []int{}
	moved := make(map[string]bool, len(c.counted))
	for i := range c.rows {
		r := &c.rows[i]
		key := string(r.pair.Key[:])
		if !placed[i] {
			refused = append(refused, i)
		} else if c.counted[key] && !moved[key] {
			moved[key] = true
			sums.add(r.member())
		}
	}
	c.receipt = audit.Receipt{Inserted: len(moved)}
	batch := &pgx.Batch{}
	if len(moved) > 0 {
		l.queueRollups(batch, c.run, sums)
		queueCounters(batch, c.run, sums)
		queueCells(batch, c.run, sums)
	}
	c.queueConflicts(batch, refused)
	if err := c.queueEpisode(batch); err != nil {
		return err
	}
	if len(moved) > 0 {
		// Last, because many commits of a run meet in these few rows: they are
		// locked for the length of a COMMIT only.
		queueLeaves(batch, c.run, sums)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("settle episode: %w", err)
	}
	c.receipt.Known = len(c.rows) - c.receipt.Inserted - c.receipt.Conflicts
	return nil
}

// member is a row as its run counts it.
func (r *row) member() member {
	p := r.pair
	return member{
		pair: p, actual: r.actual, rehearsed: r.rehearsed, masked: label(string(p.Verdict.Masked)), weight: r.weight,
		rollupKey: rollupKey{
			environment: label(p.Environment), version: label(p.Version), envDigest: string(p.EnvDigest[:]),
			tool: label(p.Action.Call.Tool), mode: string(p.Mode), canary: canaryLevel(p),
			success: r.success, group: label(p.PromptGroup),
		},
	}
}

// queueConflicts keeps every result that is not the one that the ledger holds.
// It runs after the inserts as a statement of its own: only then does it see
// what a concurrent transaction stored first. An outage is no result.
func (c *commitment) queueConflicts(batch *pgx.Batch, refused []int) {
	count := func(row pgx.Row) error {
		var n int
		if err := row.Scan(&n); err != nil {
			return fmt.Errorf("look for conflicts: %w", err)
		}
		c.receipt.Conflicts += n
		return nil
	}
	batch.Queue(`
		WITH found AS (
			INSERT INTO audit_conflict (run, key, result, stored, episode, step, kind)
			SELECT DISTINCT $1::integer, s.key, s.result, p.result, $2::bytea, s.step, 'result'
			FROM unnest($3::bytea[], $4::bytea[], $5::integer[], $6::boolean[]) AS s (key, result, step, outage)
			JOIN pair p ON p.key = s.key AND p.result <> s.result
			WHERE NOT s.outage AND NOT p.outage
			ON CONFLICT DO NOTHING
			RETURNING key
		)
		SELECT count(DISTINCT key) FROM found`,
		c.run, c.episode[:], c.columns.key, c.columns.result, c.columns.step, c.columns.outage).QueryRow(count)
	if len(refused) == 0 {
		return
	}
	var keys, results [][]byte
	var places [5][]int32
	for _, i := range refused {
		r := &c.rows[i]
		keys, results = append(keys, r.pair.Key[:]), append(results, r.result[:])
		for j, v := range []int{r.place.step, r.place.probe, r.place.sample, r.place.attempt, r.place.ordinal} {
			places[j] = append(places[j], int32(v))
		}
	}
	batch.Queue(`
		WITH found AS (
			INSERT INTO audit_conflict (run, key, result, stored, episode, step, kind)
			SELECT $1::integer, s.key, s.result, a.result, $2::bytea, s.step, 'place'
			FROM unnest($3::bytea[], $4::bytea[], $5::integer[], $6::integer[], $7::integer[], $8::integer[], $9::integer[])
				AS s (key, result, step, probe, sample, attempt, ordinal)
			JOIN action a ON a.run = $1::integer AND a.episode = $2::bytea
				AND (a.step, a.probe, a.sample, a.attempt, a.ordinal) = (s.step, s.probe, s.sample, s.attempt, s.ordinal)
			WHERE a.key <> s.key
			ON CONFLICT DO NOTHING
			RETURNING key
		)
		SELECT count(DISTINCT key) FROM found`,
		c.run, c.episode[:], keys, results, places[0], places[1], places[2], places[3], places[4]).QueryRow(count)
}

// queueEpisode closes the job, or keeps the episode that came without one, and
// announces what it added.
func (c *commitment) queueEpisode(batch *pgx.Batch) error {
	added := len(c.taken)
	executed, reported := int16(-1), int16(-1)
	if len(c.rows) > 0 { // all pairs of an episode end together
		executed, reported = truth(c.rows[0].pair.Executed), truth(c.rows[0].pair.Success)
	}
	if c.job == nil {
		p := c.rows[0].pair
		batch.Queue(`
			INSERT INTO episode AS e (run, id, name, prompt_group, policy, checkpoint, environment, mode, samples, state, results, executed, reported, finished_at)
			VALUES ($1::integer, $2::bytea, $3::text, $4::text, $5::text, $6, $7::text, $8, $9, 'done', $9, $10, $11, now())
			ON CONFLICT (run, id) DO UPDATE SET results = e.results + excluded.results, samples = e.samples + excluded.samples,
				duplicates = e.duplicates + (excluded.results = 0)::integer`,
			c.run, c.episode[:], label(p.Episode), label(p.PromptGroup), label(p.Policy), p.Checkpoint, label(p.Environment), string(p.Mode), added, executed, reported)
	} else {
		c.receipt.Duplicate = c.state == "done"
		c.receipt.Late = c.state == "dead" || c.state == "undetermined" || (c.state == "open" && c.job.Attempt < c.attempt)
		batch.Queue(`
			UPDATE episode SET state = 'done', finished_at = coalesce(finished_at, now()), results = results + $4,
				executed = CASE WHEN results = 0 THEN $7 ELSE executed END, reported = CASE WHEN results = 0 THEN $8 ELSE reported END,
				duplicates = duplicates + $5::boolean::integer, late = late + $6::boolean::integer
			WHERE run = $1 AND id = $2 AND state = $3`, c.run, c.episode[:], c.state, added, c.receipt.Duplicate, c.receipt.Late, executed, reported)
		if c.state == "dead" || c.state == "undetermined" {
			batch.Queue(`UPDATE dead_letter SET revived_at = now() WHERE run = $1 AND episode = $2 AND revived_at IS NULL`, c.run, c.episode[:])
		}
	}
	if added == 0 {
		return nil
	}
	payload, err := json.Marshal(c.announcement())
	if err != nil {
		return fmt.Errorf("announce episode: %w", err)
	}
	batch.Queue(`
		INSERT INTO outbox (run, topic, episode, attempt, payload)
		SELECT $1::integer, 'result', $2::bytea, coalesce(max(attempt), 0) + 1, $3 FROM outbox WHERE run = $1::integer AND episode = $2::bytea AND topic = 'result'`,
		c.run, c.episode[:], payload)
	return nil
}

// Announcement says that an episode was committed: a hint for readers, who find
// the truth in the ledger.
type Announcement struct {
	Run      int32          `json:"run"`
	Episode  audit.Digest   `json:"episode"`
	Keys     []audit.Digest `json:"keys"`
	Inserted int            `json:"inserted"` // of the keys, how many were new to the run
}

func (c *commitment) announcement() Announcement {
	a := Announcement{Run: c.run, Episode: c.episode, Inserted: c.receipt.Inserted}
	for _, i := range c.taken {
		a.Keys = append(a.Keys, c.rows[i-1].pair.Key)
	}
	return a
}
