package ledger

import (
	"context"

	"understudy/audit"
)

// SampleUpTo is SampleCalls with other bounds.
func (l *Ledger) SampleUpTo(ctx context.Context, run string, episodes, results int) (*audit.GroupSample, error) {
	return l.sampleCalls(ctx, run, episodes, results)
}
