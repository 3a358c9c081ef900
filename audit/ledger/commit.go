package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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
		id, err := episodeID(&pairs[0])
		if err != nil {
			return inserted, err
		}
		receipts, err := l.commit(ctx, run, []part{{episode: id, pairs: pairs[:n]}})
		if err != nil {
			return inserted, err
		}
		inserted += receipts[0].Inserted
		pairs = pairs[n:]
	}
	return inserted, nil
}

// Finish is FinishAll of one job.
func (l *Ledger) Finish(ctx context.Context, job audit.Job, pairs []audit.Pair) (audit.Receipt, error) {
	receipts, err := l.FinishAll(ctx, []audit.Finished{{Job: job, Pairs: pairs}})
	if err != nil {
		return audit.Receipt{}, err
	}
	return receipts[0], nil
}

// FinishAll stores the results of different jobs of one run and closes them, in
// one transaction: all of them or, after an error, none. A job that was closed
// before is compared with what it left: equal results are a duplicate, others a
// conflict, and neither moves a counter.
func (l *Ledger) FinishAll(ctx context.Context, finished []audit.Finished) ([]audit.Receipt, error) {
	parts := make([]part, len(finished))
	for i := range finished {
		f := &finished[i]
		parts[i] = part{episode: f.Job.ID, job: &f.Job, pairs: f.Pairs}
		if f.Job.Run != finished[0].Job.Run || slices.ContainsFunc(finished[:i], func(o audit.Finished) bool { return o.Job.ID == f.Job.ID }) {
			return nil, &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("job %s cannot be finished together with the others", f.Job.ID), Hint: "finish different jobs of one run at once"}
		}
	}
	if len(parts) == 0 {
		return nil, nil
	}
	return l.commit(ctx, finished[0].Job.Run, parts)
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

// part is one episode of a commitment.
type part struct {
	episode audit.Digest
	job     *audit.Job // nil: it came without one
	pairs   []audit.Pair

	state   string // of the job when the transaction locked it
	attempt int
	taken   []audit.Digest // keys of the pairs whose place was free
	receipt audit.Receipt
}

// commitment is what one transaction brings into the ledger: episodes of a run.
type commitment struct {
	run     int32
	parts   []part
	rows    []row // of all parts, sorted by key
	columns *columns
	also    func(*pgx.Batch) // queues what is committed with the parts; nil: nothing

	placed  map[int]bool    // indices of the rows whose place was free
	counted map[string]bool // keys that were new to the run
}

func (l *Ledger) commit(ctx context.Context, run string, parts []part) ([]audit.Receipt, error) {
	return l.commitWith(ctx, run, parts, nil)
}

// commitWith commits parts and what also queues, in one transaction.
func (l *Ledger) commitWith(ctx context.Context, run string, parts []part, also func(*pgx.Batch)) ([]audit.Receipt, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, err
	}
	rows, err := newRows(parts)
	if err != nil {
		return nil, err
	}
	c := &commitment{run: id, parts: parts, rows: rows, columns: newColumns(parts, rows), also: also}
	bodies := newBodyColumns(rows, l.config.MaxBody)
	err = l.transact(ctx, beginCommit, "commit episode", func(ctx context.Context, tx pgx.Tx) error {
		if err := c.insert(ctx, tx, bodies); err != nil {
			return err
		}
		if err := l.interrupt(ctx, "results inserted"); err != nil {
			return err
		}
		return l.settle(ctx, tx, c)
	})
	if err != nil {
		return nil, l.explain(run, err)
	}
	receipts := make([]audit.Receipt, len(parts))
	for i := range parts {
		receipts[i] = parts[i].receipt
	}
	return receipts, nil
}

// explain turns a missing partition into the run that is gone, and values that no
// table takes into an error that no retry cures.
func (l *Ledger) explain(run string, err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return err
	case e.Code == "23514" && e.ConstraintName == "":
		return l.dropped(run, err)
	case strings.HasPrefix(e.Code, "22"), e.Code == "23502", e.Code == "23514":
		return &audit.Error{Code: audit.CodeInvalid, Message: fmt.Sprintf("run %q cannot hold these results", run), Hint: "whoever made them is at fault", Err: err}
	default:
		return err
	}
}

// dropped is the error of whoever comes with something for a run that is gone.
func (l *Ledger) dropped(run string, err error) error {
	l.forgetRun(run)
	return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("run %q was dropped", run), Hint: "its results are gone; start another run", Err: err}
}

// intoRun works in a transaction that writes rows of the run that find finds. When
// that run turns out to be gone, what its name means is looked up once more.
func (l *Ledger) intoRun(ctx context.Context, what, name string, find func(context.Context) (int32, error), work func(ctx context.Context, tx pgx.Tx, run int32) error) error {
	for again := true; ; again = false {
		id, err := find(ctx)
		if err != nil {
			return err
		}
		err = l.inTx(ctx, what, func(ctx context.Context, tx pgx.Tx) error {
			if err := l.enter(ctx, tx, name, id); err != nil {
				return err
			}
			return work(ctx, tx, id)
		})
		if !again || audit.ErrorCode(err) != audit.CodeNotFound {
			return err
		}
	}
}

// enter lets tx write rows of a run: while it lasts the run is not dropped, and
// after that nothing enters. A run that is gone is CodeNotFound; its name may have
// been given to another one by then.
func (l *Ledger) enter(ctx context.Context, tx pgx.Tx, name string, run int32) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock_shared($1)`, int64(ledgerLock)); err != nil {
		return fmt.Errorf("wait for a drop: %w", err)
	}
	var stands bool
	if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM run WHERE id = $1 AND state <> 'dropping')`, run).Scan(&stands); err != nil {
		return fmt.Errorf("look whether run %q stands: %w", name, err)
	}
	if !stands {
		return l.dropped(name, nil)
	}
	return nil
}

// A subquery that locks is looked up job by job, in the order of the ids. As a list
// (id = ANY) a plan from when the ledger was empty reads all episodes of the run.
const lockJobs = `
	SELECT e.id, e.state, e.attempt FROM (SELECT id FROM unnest($2::bytea[]) AS u (id) ORDER BY id) AS s
	CROSS JOIN LATERAL (SELECT id, state, attempt FROM episode WHERE run = $1 AND id = s.id FOR UPDATE) AS e`

const insertBodies = `
	INSERT INTO body (digest, run, size, truncated, content)
	SELECT digest, $1::integer, size, truncated, content
	FROM unnest($2::bytea[], $3::bigint[], $4::boolean[], $5::bytea[]) AS b (digest, size, truncated, content)
	ON CONFLICT DO NOTHING`

// One statement takes the places, stores the results and makes them members of
// the run. A place that is taken lets nothing of its row through.
const insertResults = `
	WITH src AS (
		SELECT * FROM unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::integer[], $6::integer[], $7::integer[], $8::integer[], $9::integer[],
			$10::text[], $11::integer[], $12::integer[], $13::text[], $14::bigint[], $15::text[], $16::text[], $17::bytea[],
			$18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::boolean[], $24::text[], $25::text[],
			$26::smallint[], $27::boolean[], $28::boolean[], $29::boolean[], $30::boolean[], $31::boolean[], $32::integer[],
			$33::bytea[], $34::bytea[], $35::bytea[], $36::bytea[], $37::bytea[], $38::bytea[], $39::bytea[], $40::bytea[],
			$41::bytea[], $42::bytea[], $43::bytea[], $44::bytea[], $45::text[], $46::smallint[], $47::smallint[], $48::float8[], $49::float8[], $50::float8[])
			WITH ORDINALITY AS s (episode, key, result, step, probe, sample, attempt, ordinal, call_id, message, repeats,
			policy, checkpoint, environment, version, env_digest, mode, canary, tool, effect, masked, outage, actual, rehearsed,
			severity, false_success, phantom_write, silent_write, cascaded, fork, cells, before, after, rules,
			arguments, prompt, rehearsal, state_block, recorded, observation, twin, doc, extra,
			prompt_group, executed, reported, weight, inclusion, confidence, i)
	), placed AS (
		INSERT INTO action (run, episode, step, probe, sample, attempt, ordinal, key, result, call_id, message, repeats)
		SELECT $1::integer, episode, step, probe, sample, attempt, ordinal, key, result, call_id, message, repeats
		FROM src ORDER BY i
		ON CONFLICT DO NOTHING
		RETURNING episode, step, probe, sample, attempt, ordinal
	), fresh AS (
		SELECT src.* FROM src JOIN placed USING (episode, step, probe, sample, attempt, ordinal)
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
		SELECT key, $1::integer, result, episode, step, prompt_group, executed, reported, weight, inclusion, confidence, repeats, tool, severity, masked
		FROM fresh ORDER BY i
		ON CONFLICT DO NOTHING
		RETURNING key
	)
	SELECT (SELECT coalesce(array_agg(i::integer), '{}') FROM fresh), (SELECT coalesce(array_agg(key::bytea), '{}') FROM counted)`

// insert locks the jobs, then stores what is new. Its results are read before
// settle decides what they move.
func (c *commitment) insert(ctx context.Context, tx pgx.Tx, b *bodyColumns) error {
	var jobs [][]byte
	for i := range c.parts {
		if c.parts[i].job != nil {
			jobs = append(jobs, c.parts[i].episode[:])
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(`SELECT pg_advisory_xact_lock_shared($1)`, int64(ledgerLock))
	if len(jobs) > 0 {
		batch.Queue(lockJobs, c.run, jobs)
	}
	end := b.piece(0)
	batch.Queue(insertBodies, c.run, b.digest[:end], b.size[:end], b.truncated[:end], b.content[:end])
	whole := end == len(b.digest)
	if whole {
		batch.Queue(insertResults, c.results(0)...)
	}
	results := tx.SendBatch(ctx, batch)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return fmt.Errorf("share the ledger: %w", err)
	}
	if len(jobs) > 0 {
		if err := c.readJobs(results); err != nil {
			return err
		}
	}
	if _, err := results.Exec(); err != nil {
		return fmt.Errorf("insert bodies: %w", err)
	}
	c.placed, c.counted = make(map[int]bool, len(c.rows)), make(map[string]bool, len(c.rows))
	from := 0
	if whole {
		if err := c.scanResults(results.QueryRow(), 0); err != nil {
			return err
		}
		from = pieceRows
	}
	if err := results.Close(); err != nil {
		return err
	}
	return c.insertRest(ctx, tx, b, end, from)
}

// A commit sends its rows in pieces of about this size: a statement is held in
// memory several times over on its way, and an episode may be 100 MB.
const (
	pieceRows  = 4_000
	pieceBytes = 16 << 20
)

// insertRest stores what the first batch left: bodies, then results, each from
// an index on.
func (c *commitment) insertRest(ctx context.Context, tx pgx.Tx, b *bodyColumns, body, row int) error {
	for from := body; from < len(b.digest); {
		to := b.piece(from)
		if _, err := tx.Exec(ctx, insertBodies, c.run, b.digest[from:to], b.size[from:to], b.truncated[from:to], b.content[from:to]); err != nil {
			return fmt.Errorf("insert bodies: %w", err)
		}
		from = to
	}
	for ; row < len(c.rows); row += pieceRows {
		if err := c.scanResults(tx.QueryRow(ctx, insertResults, c.results(row)...), row); err != nil {
			return err
		}
	}
	return nil
}

// results are the arguments of insertResults for the piece of rows at from.
func (c *commitment) results(from int) []any {
	s := c.columns
	if to := min(from+pieceRows, len(c.rows)); from > 0 || to < len(c.rows) {
		s = newColumns(c.parts, c.rows[from:to])
	}
	return []any{
		c.run, s.episode, s.key, s.result, s.step, s.probe, s.sample, s.attempt, s.ordinal,
		s.callID, s.message, s.repeats, s.policy, s.checkpoint, s.environment, s.version, s.envDigest, s.mode, s.canary,
		s.tool, s.effect, s.masked, s.outage, s.actual, s.rehearsed, s.severity, s.falseSuccess, s.phantomWrite,
		s.silentWrite, s.cascaded, s.fork, s.cells, s.before, s.after, s.rules, s.arguments, s.prompt, s.rehearsal,
		s.stateBlock, s.recorded, s.observation, s.twin, s.doc, s.extra, s.group, s.executed, s.reported, s.weight, s.inclusion, s.confidence,
	}
}

// scanResults notes which rows of the piece at from were new.
func (c *commitment) scanResults(row pgx.Row, from int) error {
	var (
		fresh []int32
		keys  [][]byte
	)
	if err := row.Scan(&fresh, &keys); err != nil {
		return fmt.Errorf("insert results: %w", err)
	}
	for _, i := range fresh {
		c.placed[from+int(i)-1] = true
	}
	for _, k := range keys {
		c.counted[string(k)] = true
	}
	return nil
}

// readJobs reads the states of the jobs that were locked.
func (c *commitment) readJobs(results pgx.BatchResults) error {
	type state struct {
		name    string
		attempt int
	}
	rows, err := results.Query()
	if err != nil {
		return fmt.Errorf("lock the jobs: %w", err)
	}
	locked := make(map[audit.Digest]state, len(c.parts))
	var (
		id []byte
		s  state
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &s.name, &s.attempt}, func() error {
		locked[audit.Digest(id)] = s
		return nil
	})
	if err != nil {
		return fmt.Errorf("lock the jobs: %w", err)
	}
	for i := range c.parts {
		p := &c.parts[i]
		if p.job == nil {
			continue
		}
		s, ok := locked[p.episode]
		if !ok {
			return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("job %s is not in run %q", p.episode, p.job.Run), Hint: "the run was dropped, or the message is of another ledger"}
		}
		p.state, p.attempt = s.name, s.attempt
	}
	return nil
}
