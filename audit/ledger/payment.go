package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// Paid implements audit.Payments. Every batch of a trainer begins with it. It is
// planned anew each time: a plan that was kept from when the ledger was young scans
// all payments until autovacuum comes by: 33 ms in place of 0.13 ms in the first
// minute of a training, two thirds of PostgreSQL's time.
func (l *Ledger) Paid(ctx context.Context, ids []audit.Digest) (map[audit.Digest]audit.Payment, error) {
	rows, err := l.pool.Query(ctx, `SELECT id, content, reward FROM score WHERE id = ANY($1::bytea[])`, pgx.QueryExecModeCacheDescribe, digests(ids))
	if err != nil {
		return nil, fmt.Errorf("read payments: %w", err)
	}
	paid := make(map[audit.Digest]audit.Payment)
	var id, content, reward []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &content, &reward}, func() error {
		p := audit.Payment{Content: audit.Digest(content)}
		if err := json.Unmarshal(reward, &p.Reward); err != nil {
			return fmt.Errorf("payment %x: %w", id, err)
		}
		paid[audit.Digest(id)] = p
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read payments: %w", err)
	}
	return paid, nil
}

// Pay implements audit.Payments. Verdicts and payments are one transaction: there
// is no reward without the verdict that it pays for.
func (l *Ledger) Pay(ctx context.Context, run string, batch audit.Digest, payments []audit.Payment) (map[audit.Digest]audit.Payment, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, err
	}
	parts, err := partsOf(payments)
	if err != nil {
		return nil, err
	}
	columns, err := newPaymentColumns(payments)
	if err != nil {
		return nil, err
	}
	var fresh map[audit.Digest]bool
	also := func(b *pgx.Batch) {
		fresh = make(map[audit.Digest]bool, len(payments))
		columns.queue(b, id, batch, fresh)
	}
	if len(parts) > 0 {
		_, err = l.commitWith(ctx, run, parts, also)
	} else {
		err = l.inTx(ctx, "pay", func(ctx context.Context, tx pgx.Tx) error {
			if err := l.enter(ctx, tx, run, id); err != nil {
				return err
			}
			b := &pgx.Batch{}
			also(b)
			return tx.SendBatch(ctx, b).Close()
		})
	}
	if err != nil {
		return nil, err
	}
	return l.standing(ctx, payments, fresh)
}

// standing is the payments as the ledger holds them: what somebody else paid in
// the meantime is read back.
func (l *Ledger) standing(ctx context.Context, payments []audit.Payment, fresh map[audit.Digest]bool) (map[audit.Digest]audit.Payment, error) {
	stand := make(map[audit.Digest]audit.Payment, len(payments))
	var taken []audit.Digest
	for _, p := range payments {
		if fresh[p.Reward.ID] {
			stand[p.Reward.ID] = p
		} else {
			taken = append(taken, p.Reward.ID)
		}
	}
	if len(taken) == 0 {
		return stand, nil
	}
	others, err := l.Paid(ctx, taken)
	if err != nil {
		return nil, err
	}
	for id, p := range others {
		p.Reward.Repeated = true
		stand[id] = p
	}
	return stand, nil
}

// partsOf sorts the audited pairs by their episodes.
func partsOf(payments []audit.Payment) ([]part, error) {
	var parts []part
	at := make(map[audit.Digest]int)
	for i := range payments {
		pair := payments[i].Pair
		if pair == nil {
			continue
		}
		id, err := episodeID(pair)
		if err != nil {
			return nil, err
		}
		n, ok := at[id]
		if !ok {
			n = len(parts)
			at[id] = n
			parts = append(parts, part{episode: id})
		}
		parts[n].pairs = append(parts[n].pairs, *pair)
	}
	return parts, nil
}

// paymentColumns are payments turned by ninety degrees, sorted by id, so that
// two transactions never lock the same rows in opposite orders.
type paymentColumns struct {
	id, content, key, reward                        [][]byte
	policy, tool, status, reason, actual, rehearsed []string
	checkpoint                                      []int64
	phi                                             []*float64
	weight, inclusion                               []float64
	executed, reported                              []int16
}

func newPaymentColumns(payments []audit.Payment) (*paymentColumns, error) {
	sorted := slices.Clone(payments)
	slices.SortFunc(sorted, func(a, b audit.Payment) int { return bytes.Compare(a.Reward.ID[:], b.Reward.ID[:]) })
	c := &paymentColumns{}
	for i := range sorted {
		p := &sorted[i]
		text, err := json.Marshal(&p.Reward)
		if err != nil {
			return nil, fmt.Errorf("encode a reward: %w", err)
		}
		c.id, c.content, c.reward = append(c.id, p.Reward.ID[:]), append(c.content, p.Content[:]), append(c.reward, text)
		c.policy, c.tool = append(c.policy, label(p.Policy)), append(c.tool, label(p.Reward.Tool))
		c.status, c.reason = append(c.status, string(p.Reward.Status)), append(c.reason, label(string(p.Reward.Reason)))
		c.checkpoint, c.phi = append(c.checkpoint, p.Reward.Checkpoint), append(c.phi, p.Reward.Phi)
		c.inclusion = append(c.inclusion, p.Reward.Inclusion)
		c.addPair(p.Pair)
	}
	return c, nil
}

// addPair adds what training steps are summed up from. It counts tools that are
// held out, too: their rewards are withheld, not their verdicts.
func (c *paymentColumns) addPair(pair *audit.Pair) {
	var (
		key                []byte
		actual, rehearsed  string
		weight             float64
		executed, reported = int16(-1), int16(-1)
	)
	if pair != nil {
		key, executed, reported = pair.Key[:], truth(pair.Executed), truth(pair.Success)
		if pair.Verdict.Scored() {
			actual, rehearsed = outcomeLabel(pair.Verdict.Real), outcomeLabel(pair.Verdict.Rehearsed)
			weight = audit.InclusionWeight(pair.Action.Inclusion)
		}
	}
	c.key, c.actual, c.rehearsed = append(c.key, key), append(c.actual, actual), append(c.rehearsed, rehearsed)
	c.weight, c.executed, c.reported = append(c.weight, weight), append(c.executed, executed), append(c.reported, reported)
}

// queue inserts the payments and notes which were new.
func (c *paymentColumns) queue(b *pgx.Batch, run int32, batch audit.Digest, fresh map[audit.Digest]bool) {
	b.Queue(`
		INSERT INTO score (id, run, batch, policy, checkpoint, content, key, tool, status, reason, actual, rehearsed,
			phi, weight, inclusion, executed, reported, reward)
		SELECT id, $1::integer, $2::bytea, policy, checkpoint, content, key, tool, status, reason, actual, rehearsed,
			phi, weight, inclusion, executed, reported, reward
		FROM unnest($3::bytea[], $4::text[], $5::bigint[], $6::bytea[], $7::bytea[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
			$13::float8[], $14::float8[], $15::float8[], $16::smallint[], $17::smallint[], $18::bytea[])
			AS s (id, policy, checkpoint, content, key, tool, status, reason, actual, rehearsed, phi, weight, inclusion, executed, reported, reward)
		ON CONFLICT DO NOTHING
		RETURNING id`,
		run, batch[:], c.id, c.policy, c.checkpoint, c.content, c.key, c.tool, c.status, c.reason, c.actual, c.rehearsed,
		c.phi, c.weight, c.inclusion, c.executed, c.reported, c.reward).Query(func(rows pgx.Rows) error {
		var id []byte
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			fresh[audit.Digest(id)] = true
			return nil
		})
		return err
	})
}
