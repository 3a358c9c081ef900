package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// settle looks for conflicts, closes the jobs, announces the episodes and moves the
// counters by what was really inserted.
func (l *Ledger) settle(ctx context.Context, tx pgx.Tx, c *commitment) error {
	sums, refused := c.count()
	batch := &pgx.Batch{}
	c.queueConflicts(batch, refused)
	c.queueEpisodes(batch)
	for i := range c.parts {
		if p := &c.parts[i]; p.job != nil {
			p.queueJob(batch, c.run)
		}
	}
	if err := c.queueAnnouncements(batch); err != nil {
		return err
	}
	if c.also != nil {
		c.also(batch)
	}
	if sums.members > 0 {
		// Last, because commits of a run meet in these rows: those of one prompt
		// group in its counters, and all of them in the few leaves, which come last
		// of all. They are locked for little longer than a COMMIT.
		l.queueRollups(batch, c.run, sums)
		queueCounters(batch, c.run, sums)
		queueCells(batch, c.run, sums)
		batch.Queue(moveProgress, c.run, sums.members, sums.masked)
		queueLeaves(batch, c.run, sums)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("settle episode: %w", err)
	}
	for i := range c.parts {
		p := &c.parts[i]
		p.receipt.Known = len(p.pairs) - p.receipt.Inserted - p.receipt.Conflicts
	}
	return nil
}

// count adds up what was new to the run, and lists the rows whose place was
// taken. It begins each part's receipt anew: the transaction may be a retry.
func (c *commitment) count() (sums *counts, refused []int) {
	for i := range c.parts {
		c.parts[i].receipt, c.parts[i].taken = audit.Receipt{}, nil
	}
	sums = newCounts()
	moved := make(map[string]bool, len(c.counted))
	for i := range c.rows {
		r := &c.rows[i]
		if !c.placed[i] {
			refused = append(refused, i)
			continue
		}
		p, key := &c.parts[r.part], string(r.pair.Key[:])
		p.taken = append(p.taken, r.pair.Key)
		if c.counted[key] && !moved[key] {
			moved[key] = true
			p.receipt.Inserted++
			sums.add(r.member())
		}
	}
	return sums, refused
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
	batch.Queue(`
		WITH found AS (
			INSERT INTO audit_conflict (run, key, result, stored, episode, step, kind)
			SELECT DISTINCT $1::integer, s.key, s.result, p.result, s.episode, s.step, 'result'
			FROM unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::integer[], $6::boolean[]) AS s (episode, key, result, step, outage)
			JOIN pair p ON p.key = s.key AND p.result <> s.result
			WHERE NOT s.outage AND NOT p.outage
			ON CONFLICT DO NOTHING
			RETURNING episode, key
		)
		SELECT episode, count(DISTINCT key) FROM found GROUP BY episode`,
		c.run, c.columns.episode, c.columns.key, c.columns.result, c.columns.step, c.columns.outage).Query(c.readConflicts)
	if len(refused) == 0 {
		return
	}
	var episodes, keys, results [][]byte
	var places [5][]int32
	for _, i := range refused {
		r := &c.rows[i]
		episodes = append(episodes, c.parts[r.part].episode[:])
		keys, results = append(keys, r.pair.Key[:]), append(results, r.result[:])
		for j, v := range []int{r.place.step, r.place.probe, r.place.sample, r.place.attempt, r.place.ordinal} {
			places[j] = append(places[j], int32(v))
		}
	}
	batch.Queue(`
		WITH found AS (
			INSERT INTO audit_conflict (run, key, result, stored, episode, step, kind)
			SELECT $1::integer, s.key, s.result, a.result, s.episode, s.step, 'place'
			FROM unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::integer[], $6::integer[], $7::integer[], $8::integer[], $9::integer[])
				AS s (episode, key, result, step, probe, sample, attempt, ordinal)
			JOIN action a ON a.run = $1::integer AND a.episode = s.episode
				AND (a.step, a.probe, a.sample, a.attempt, a.ordinal) = (s.step, s.probe, s.sample, s.attempt, s.ordinal)
			WHERE a.key <> s.key
			ON CONFLICT DO NOTHING
			RETURNING episode, key
		)
		SELECT episode, count(DISTINCT key) FROM found GROUP BY episode`,
		c.run, episodes, keys, results, places[0], places[1], places[2], places[3], places[4]).Query(c.readConflicts)
}

// readConflicts reads how many conflicts each episode met.
func (c *commitment) readConflicts(rows pgx.Rows) error {
	var (
		episode []byte
		n       int
	)
	_, err := pgx.ForEachRow(rows, []any{&episode, &n}, func() error {
		for i := range c.parts {
			if p := &c.parts[i]; p.episode == audit.Digest(episode) {
				p.receipt.Conflicts += n
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for conflicts: %w", err)
	}
	return nil
}

// queueEpisodes keeps the episodes that came without a job: a trainer's batch brings
// several.
func (c *commitment) queueEpisodes(batch *pgx.Batch) {
	var (
		ids                                  [][]byte
		names, groups, policies, envs, modes []string
		checkpoints                          []int64
		added                                []int32
		executed, reported                   []int16
	)
	for i := range c.parts {
		p := &c.parts[i]
		if p.job != nil {
			continue
		}
		first := &p.pairs[0]
		ids, names, groups = append(ids, p.episode[:]), append(names, label(first.Episode)), append(groups, label(first.PromptGroup))
		policies, envs, modes = append(policies, label(first.Policy)), append(envs, label(first.Environment)), append(modes, string(first.Mode))
		checkpoints, added = append(checkpoints, first.Checkpoint), append(added, int32(len(p.taken)))
		executed, reported = append(executed, truth(first.Executed)), append(reported, truth(first.Success))
	}
	if len(ids) == 0 {
		return
	}
	batch.Queue(`
		INSERT INTO episode AS e (run, id, name, prompt_group, policy, checkpoint, environment, mode, samples, state, results, executed, reported, finished_at)
		SELECT $1::integer, id, name, prompt_group, policy, checkpoint, environment, mode, added, 'done', added, executed, reported, now()
		FROM unnest($2::bytea[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::integer[], $10::smallint[], $11::smallint[])
			AS s (id, name, prompt_group, policy, checkpoint, environment, mode, added, executed, reported)
		ORDER BY id
		ON CONFLICT (run, id) DO UPDATE SET results = e.results + excluded.results, samples = e.samples + excluded.samples,
			duplicates = e.duplicates + (excluded.results = 0)::integer`,
		c.run, ids, names, groups, policies, checkpoints, envs, modes, added, executed, reported)
}

// queueJob closes the job of an episode that came with one. It is locked.
func (p *part) queueJob(batch *pgx.Batch, run int32) {
	executed, reported := int16(-1), int16(-1)
	if len(p.pairs) > 0 { // all pairs of an episode end together
		executed, reported = truth(p.pairs[0].Executed), truth(p.pairs[0].Success)
	}
	p.receipt.Duplicate = p.state == "done"
	p.receipt.Late = p.state == "dead" || p.state == "undetermined" || (p.state == "open" && p.job.Attempt < p.attempt)
	batch.Queue(`
		UPDATE episode SET state = 'done', finished_at = coalesce(finished_at, now()), results = results + $4,
			executed = CASE WHEN results = 0 THEN $7 ELSE executed END, reported = CASE WHEN results = 0 THEN $8 ELSE reported END,
			duplicates = duplicates + $5::boolean::integer, late = late + $6::boolean::integer
		WHERE run = $1 AND id = $2 AND state = $3`, run, p.episode[:], p.state, len(p.taken), p.receipt.Duplicate, p.receipt.Late, executed, reported)
	if p.state == "dead" || p.state == "undetermined" {
		batch.Queue(`UPDATE dead_letter SET revived_at = now() WHERE run = $1 AND episode = $2 AND revived_at IS NULL`, run, p.episode[:])
	}
}

// Announcement says that an episode was committed: a hint for readers, who find
// the truth in the ledger. A long episode has several.
type Announcement struct {
	Run      int32          `json:"run"`
	Episode  audit.Digest   `json:"episode"`
	Keys     []audit.Digest `json:"keys"`
	Inserted int            `json:"inserted"` // of the episode's keys, how many were new to the run; in its first announcement
}

// announcedKeys is how many keys one announcement holds: at 67 bytes each they stay
// under the usual 1 MiB of a NATS message.
const announcedKeys = 10_000

// queueAnnouncements announces the episodes that added something.
func (c *commitment) queueAnnouncements(batch *pgx.Batch) error {
	var episodes, payloads [][]byte
	for i := range c.parts {
		p := &c.parts[i]
		inserted := p.receipt.Inserted
		for keys := range slices.Chunk(p.taken, announcedKeys) {
			payload, err := json.Marshal(Announcement{Run: c.run, Episode: p.episode, Keys: keys, Inserted: inserted})
			if err != nil {
				return fmt.Errorf("announce episode: %w", err)
			}
			episodes, payloads, inserted = append(episodes, p.episode[:]), append(payloads, payload), 0
		}
	}
	if len(episodes) > 0 {
		batch.Queue(`
			INSERT INTO outbox (run, topic, episode, attempt, payload)
			SELECT $1::integer, 'result', s.episode, row_number() OVER (PARTITION BY s.episode ORDER BY s.i) + coalesce((
				SELECT max(attempt) FROM outbox o WHERE o.run = $1::integer AND o.episode = s.episode AND o.topic = 'result'), 0), s.payload
			FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY AS s (episode, payload, i)`,
			c.run, episodes, payloads)
	}
	return nil
}
