package ledger

import (
	"context"

	"understudy/audit"
)

// SampleUpTo is SampleCalls with other bounds.
func (l *Ledger) SampleUpTo(ctx context.Context, run string, episodes, results int) (*audit.GroupSample, error) {
	return l.sampleCalls(ctx, run, episodes, results)
}

// RandomTally is Tally over random groups, as large runs are summarised.
func (l *Ledger) RandomTally(ctx context.Context, run string) (*audit.Tally, error) {
	id, err := l.runID(ctx, run)
	if err != nil {
		return nil, err
	}
	return l.tally(ctx, l.pool, id, randomGroup)
}

// ScorePieces are the messages that announce a batch's scores.
var ScorePieces = scorePieces
