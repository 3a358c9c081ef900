package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"understudy/audit"
)

// markedPeriod is how long an audit may not know yet of a mark.
const markedPeriod = 10 * time.Second

// MarkedRules are the rules of environments with what people marked as noise:
// later audits do not compare those paths, until the mark expires or is revoked.
// At most worldDetails marks of an environment are rules. It is safe for concurrent use.
type MarkedRules struct {
	ledger *Ledger
	base   *audit.Rules // of environments without marks; nil: the defaults

	mu    sync.Mutex
	read  time.Time
	rules map[string]*audit.Rules // by environment
}

// MarkedRules returns the rules base, nil for the defaults, with what the ledger's
// marks add.
func (l *Ledger) MarkedRules(base *audit.Rules) *MarkedRules {
	return &MarkedRules{ledger: l, base: base}
}

// Of are the rules of an environment as they were last read; nil: the defaults.
// See audit.Config.
func (m *MarkedRules) Of(environment string) *audit.Rules {
	m.mu.Lock()
	defer m.mu.Unlock()
	if marked := m.rules[label(environment)]; marked != nil {
		return marked
	}
	return m.base
}

// Follow reads the marks again when they may have changed.
func (m *MarkedRules) Follow(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.read.IsZero() && time.Since(m.read) < markedPeriod {
		return nil
	}
	marks, err := m.ledger.noiseMarks(ctx, "")
	if err != nil {
		return err
	}
	paths := make(map[string][]audit.NoisePath)
	for i := range marks {
		k := &marks[i]
		path := audit.NoisePath{Tool: k.Tool, Pattern: k.Pattern, Masked: true}
		if _, err := m.with([]audit.NoisePath{path}); err != nil {
			continue // no pattern that a rule can have: the mark still takes calls out of the figures
		}
		paths[k.Environment] = append(paths[k.Environment], path)
	}
	rules := make(map[string]*audit.Rules, len(paths))
	for environment := range paths {
		if rules[environment], err = m.with(paths[environment]); err != nil {
			return err
		}
	}
	m.rules, m.read = rules, time.Now()
	return nil
}

// with are the base rules without the paths that are noise.
func (m *MarkedRules) with(paths []audit.NoisePath) (rules *audit.Rules, err error) {
	if noise := audit.NewNoise(paths); m.base == nil {
		rules, err = audit.NewRules(audit.RulesSpec{}, nil, noise)
	} else {
		rules, err = m.base.WithNoise(noise)
	}
	if err != nil {
		return nil, fmt.Errorf("rules of marked noise: %w", err)
	}
	return rules, nil
}

// noiseMarks lists the living marks of noise at a path, of an environment or,
// with "", of all: the first worldDetails of each environment.
func (l *Ledger) noiseMarks(ctx context.Context, environment string) ([]audit.Mark, error) {
	rows, err := l.pool.Query(ctx, selectMark+`
		JOIN (SELECT k.id, row_number() OVER (PARTITION BY k.environment ORDER BY k.tool, k.pattern, k.id) AS place FROM mark k
			WHERE k.kind = 'noise' AND k.pattern <> '' AND ($1 = '' OR k.environment = $1) AND `+markLives+`) n ON n.id = k.id
		WHERE n.place <= $2 ORDER BY k.environment, k.tool, k.pattern, k.id`, label(environment), worldDetails)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	marks, err := pgx.CollectRows(rows, scanMark)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return marks, nil
}
