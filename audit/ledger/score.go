package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

var _ audit.ScoreStore = (*Ledger)(nil)

// ensureRun finds a run's number, making the run where it does not exist.
func (l *Ledger) ensureRun(ctx context.Context, name, policy string) (int32, error) {
	id, err := l.runID(ctx, name)
	if audit.ErrorCode(err) != audit.CodeNotFound {
		return id, err
	}
	_, err = l.CreateRun(ctx, audit.NewRun{Name: name, Policy: policy, Tags: []string{"training"}})
	if err != nil && audit.ErrorCode(err) != audit.CodeConflict { // somebody else made it
		return 0, err
	}
	return l.runID(ctx, name)
}

// Accept implements audit.ScoreBatches.
func (l *Ledger) Accept(ctx context.Context, b audit.AcceptedBatch) (time.Duration, error) {
	body, err := json.Marshal(b.Batch)
	if err != nil {
		return 0, fmt.Errorf("encode the batch: %w", err)
	}
	var (
		keys  = make([][]byte, len(b.Draws))
		pi, u = make([]float64, len(b.Draws)), make([]float64, len(b.Draws))
	)
	for i, d := range b.Draws {
		keys[i], pi[i], u[i] = d.Key[:], d.Inclusion, d.U
	}
	var granted time.Duration
	find := func(ctx context.Context) (int32, error) { return l.ensureRun(ctx, b.Batch.Run, b.Batch.Policy) }
	err = l.intoRun(ctx, "accept batch", b.Batch.Run, find, func(ctx context.Context, tx pgx.Tx, run int32) error {
		if granted, err = grant(ctx, tx, run, &b); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO score_batch AS b (id, run, policy, checkpoint, body, payees, content, draw_key, draw_pi, draw_u, granted)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
			ON CONFLICT (id) DO UPDATE SET granted = b.granted + excluded.granted,
				draw_key = b.draw_key || excluded.draw_key, draw_pi = b.draw_pi || excluded.draw_pi, draw_u = b.draw_u || excluded.draw_u`,
			b.ID[:], run, label(b.Batch.Policy), b.Batch.Checkpoint, body, digests(b.Payees), digests(b.Content), keys, pi, u, granted.Seconds())
		return err
	})
	return granted, err
}

// grant takes what a batch wants out of what its step's budget has left.
func grant(ctx context.Context, tx pgx.Tx, run int32, b *audit.AcceptedBatch) (time.Duration, error) {
	if b.Budget <= 0 {
		return 0, nil
	}
	policy, step := label(b.Batch.Policy), b.Batch.Checkpoint
	_, err := tx.Exec(ctx, `INSERT INTO score_budget (run, policy, checkpoint, seconds) VALUES ($1, $2, $3, 0) ON CONFLICT DO NOTHING`, run, policy, step)
	if err != nil {
		return 0, fmt.Errorf("open the budget: %w", err)
	}
	var held float64
	err = tx.QueryRow(ctx, `SELECT seconds FROM score_budget WHERE run = $1 AND policy = $2 AND checkpoint = $3 FOR UPDATE`, run, policy, step).Scan(&held)
	if err != nil {
		return 0, fmt.Errorf("lock the budget: %w", err)
	}
	granted := max(min(b.Want, b.Budget-seconds(held)), 0)
	_, err = tx.Exec(ctx, `UPDATE score_budget SET seconds = seconds + $4 WHERE run = $1 AND policy = $2 AND checkpoint = $3`, run, policy, step, granted.Seconds())
	if err != nil {
		return 0, fmt.Errorf("take from the budget: %w", err)
	}
	return granted, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Spent implements audit.TrainingWatch.
func (l *Ledger) Spent(ctx context.Context, run, policy string, step int64) (time.Duration, error) {
	var held float64
	err := l.pool.QueryRow(ctx, `
		SELECT coalesce(sum(s.seconds), 0) FROM score_budget s JOIN run r ON r.id = s.run
		WHERE r.name = $1 AND s.policy = $2 AND s.checkpoint = $3`, label(run), label(policy), step).Scan(&held)
	if err != nil {
		return 0, fmt.Errorf("read the budget of step %d: %w", step, err)
	}
	return seconds(held), nil
}

// Batch implements audit.ScoreBatches.
func (l *Ledger) Batch(ctx context.Context, id audit.Digest) (audit.AcceptedBatch, error) {
	b := audit.AcceptedBatch{ID: id}
	var (
		body             []byte
		payees, contents [][]byte
		granted          float64
	)
	err := l.pool.QueryRow(ctx, `
		SELECT r.name, b.policy, b.checkpoint, b.body, b.payees, b.content, b.granted FROM score_batch b JOIN run r ON r.id = b.run WHERE b.id = $1`, id[:]).
		Scan(&b.Batch.Run, &b.Batch.Policy, &b.Batch.Checkpoint, &body, &payees, &contents, &granted)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, &audit.Error{Code: audit.CodeNotFound, Message: "batch " + id.String() + " is not known", Hint: "send the batch itself again: it is paid once"}
	}
	if err != nil {
		return b, fmt.Errorf("read batch %s: %w", id, err)
	}
	b.Granted, b.Done = seconds(granted), body == nil
	for i := range payees {
		b.Payees, b.Content = append(b.Payees, audit.Digest(payees[i])), append(b.Content, audit.Digest(contents[i]))
	}
	if b.Done {
		return b, nil
	}
	if err := json.Unmarshal(body, &b.Batch); err != nil {
		return b, fmt.Errorf("read batch %s: %w", id, err)
	}
	return b, nil
}

// EndBatch implements audit.ScoreBatches.
func (l *Ledger) EndBatch(ctx context.Context, b audit.AcceptedBatch, used time.Duration, scores audit.ScoredBatch) error {
	payloads, err := scorePieces(scores, l.config.MaxMessage)
	if err != nil {
		return err
	}
	find := func(ctx context.Context) (int32, error) { return l.runID(ctx, b.Batch.Run) }
	return l.intoRun(ctx, "finish batch", b.Batch.Run, find, func(ctx context.Context, tx pgx.Tx, run int32) error {
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE score_batch SET finished_at = now(), body = NULL WHERE id = $1 AND finished_at IS NULL`, b.ID[:])
		if b.Budget > 0 { // a grant ends once, however often its end is told
			batch.Queue(`
				WITH ended AS (
					UPDATE score_batch SET granted = greatest(granted - $4, 0) WHERE id = $6 AND granted >= $4 - 1e-9 RETURNING id
				)
				UPDATE score_budget SET seconds = greatest(seconds - $4 + $5, 0)
				WHERE run = $1 AND policy = $2 AND checkpoint = $3 AND EXISTS (SELECT FROM ended)`,
				run, label(b.Batch.Policy), b.Batch.Checkpoint, b.Granted.Seconds(), used.Seconds(), b.ID[:])
		}
		batch.Queue(`
			INSERT INTO outbox (run, topic, episode, attempt, payload)
			SELECT $1::integer, 'score', $2::bytea, s.i, s.payload FROM unnest($3::bytea[]) WITH ORDINALITY AS s (payload, i)
			ON CONFLICT DO NOTHING`, run, b.ID[:], payloads)
		return tx.SendBatch(ctx, batch).Close()
	})
}

// scorePieces are the messages that announce a batch's scores, each of at most about
// so many bytes: why a reward has no number may be a long text.
func scorePieces(scores audit.ScoredBatch, most int) ([][]byte, error) {
	var pieces [][]byte
	for from, to, size := 0, 0, 0; from < len(scores.Scores); {
		if to < len(scores.Scores) {
			text, err := json.Marshal(&scores.Scores[to])
			if err != nil {
				return nil, fmt.Errorf("encode a reward: %w", err)
			}
			if size += len(text) + 1; size <= most || from == to {
				to++
				continue
			}
		}
		part := scores
		part.Scores = scores.Scores[from:to]
		piece, err := json.Marshal(part)
		if err != nil {
			return nil, fmt.Errorf("encode the scores: %w", err)
		}
		pieces = append(pieces, piece)
		from, size = to, 0
	}
	return pieces, nil
}

func digests(all []audit.Digest) [][]byte {
	out := make([][]byte, len(all))
	for i := range all {
		out[i] = all[i][:]
	}
	return out
}
