package main

import (
	"context"
	"log/slog"
	"time"

	"understudy/audit"
)

// loggedScorer writes one line for each batch that a trainer sends.
type loggedScorer struct {
	audit.Scorer
	log *slog.Logger
}

// Score implements audit.Scorer.
func (s loggedScorer) Score(ctx context.Context, batch audit.ScoreBatch) (audit.ScoredBatch, error) {
	began := time.Now()
	scored, err := s.Scorer.Score(ctx, batch)
	counts := map[audit.RewardStatus]int{}
	for i := range scored.Scores {
		counts[scored.Scores[i].Status]++
	}
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String("policy", batch.Policy), slog.Int64("checkpoint", batch.Checkpoint), slog.Int("outputs", len(batch.Outputs)),
		slog.Int("scored", counts[audit.RewardScored]), slog.Int("masked", counts[audit.RewardMasked]),
		slog.Int("pending", counts[audit.RewardPending]), slog.Duration("took", time.Since(began)),
	}
	if err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("error", err))
	}
	s.log.LogAttrs(ctx, level, "batch scored", attrs...)
	return scored, err
}
