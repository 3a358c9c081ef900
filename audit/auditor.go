package audit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Config says what an Auditor audits with. The zero value of a field means its
// default.
type Config struct {
	Opener    Opener    // finds environments; nil: only episodes whose reference answers were recorded
	Rehearser Rehearser // asked for rehearsals that an episode does not bring along; nil: there are none

	// Rules gives the rules of an environment; nil: the defaults for all.
	Rules func(environment string) *Rules
	// Inclusion gives π for actions that do not bring one; nil: everything is audited.
	Inclusion InclusionFunc
	// Announce is told every sampling decision of an episode before anything of
	// it is executed; nil: nobody is. Its error stops the episode.
	Announce func(ctx context.Context, draws []Draw) error
	// Secret keys the sampling, so that a policy cannot tell what is audited.
	Secret []byte

	Rehearsals      int           // asked for per action, where none is brought along; 0 = 1
	Seed            uint64        // of the rehearser's sampling
	CallTimeout     time.Duration // of one sandbox call; 0 = 30 s
	OpenTimeout     time.Duration // of what an environment does before an episode's first call; 0 = 5 min
	RehearseTimeout time.Duration // of one rehearsal; 0 = 2 min
	Sessions        int           // how many ended episodes keep their session, for episodes that go on from there; 0 = none
	Limits          Limits
	NoTwins         bool // do not execute twice where the environment is not deterministic
	// Budget is the sandbox's time that one episode may use; what is beyond it is
	// masked. 0 = unbounded.
	Budget time.Duration
}

// Auditor judges rehearsed answers against executed ones. It is safe for
// concurrent use: an episode is audited by one goroutine, many episodes at once.
type Auditor struct {
	config   Config
	rules    *Rules // the defaults
	sessions *sessionCache
}

// New returns an auditor. Close it to end the sessions that it keeps.
func New(config Config) (*Auditor, error) {
	if config.CallTimeout <= 0 {
		config.CallTimeout = 30 * time.Second // longer than the slowest tool that was seen to answer at all
	}
	if config.OpenTimeout <= 0 {
		// Longer than any start that was seen, and than what adapters allow unless told otherwise; short enough that an
		// episode, which has ten minutes in the queue, ends with masked pairs and is not tried again and given up.
		config.OpenTimeout = 5 * time.Minute
	}
	if config.RehearseTimeout <= 0 {
		config.RehearseTimeout = 2 * time.Minute // a long answer of a slow local model
	}
	config.Rehearsals = max(config.Rehearsals, 1)
	rules, err := NewRules(RulesSpec{}, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("default rules: %w", err)
	}
	return &Auditor{config: config, rules: rules, sessions: newSessionCache(config.Sessions)}, nil
}

// Audit judges one action at its place in an episode: what REHEARSE answers
// against what the sandbox does from the same state. It returns one pair for
// each rehearsal of the action. Whatever goes wrong with a rehearsal or with the
// sandbox masks the pair; the error is only for a cancelled context.
func (a *Auditor) Audit(ctx context.Context, at *Place, action *Planned) ([]Pair, error) {
	pairs := at.pairs(action)
	if skipped, err := at.skip(ctx, action, pairs); skipped || err != nil {
		return pairs, err
	}
	rehearsing := a.rehearse(ctx, at, action) // side by side with the sandbox
	seen, failed := at.execute(ctx, action)
	answers, err := rehearsing()
	if err := errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("audit step %d of episode %s: %w", action.Step(), at.episode.ID, err)
	}
	probes, err := a.probe(ctx, at, action, answers, &seen)
	if err != nil {
		return nil, err
	}
	at.judge(pairs, answers, &seen)
	at.advance(action, pairs, &seen)
	return append(pairs, probes...), nil
}

// Episode audits every action of an episode in order and returns its pairs. An
// environment that cannot be opened masks them all; an unknown one, or a start
// that cannot be built, is the caller's error. A panic on the way is a permanent
// fault with the stack in its text: the same episode would only meet it again.
func (a *Auditor) Episode(ctx context.Context, ep *Episode) (pairs []Pair, err error) {
	err = contain("the audit of episode "+ep.ID, func() (err error) {
		pairs, err = a.whole(ctx, ep)
		return err
	})
	if p, panicked := errors.AsType[*panicError](err); panicked {
		return nil, &FaultError{Fault: FaultPermanent, Err: fmt.Errorf("%w\n%s", err, p.stack)}
	}
	return pairs, err
}

// whole is Episode without its safety net.
func (a *Auditor) whole(ctx context.Context, ep *Episode) ([]Pair, error) {
	steps := a.plan(ep)
	at, err := a.open(ctx, ep, steps)
	if err != nil {
		return nil, fmt.Errorf("open episode %s: %w", ep.ID, err)
	}
	defer at.close()
	if err := a.announce(ctx, at, steps); err != nil {
		return nil, fmt.Errorf("announce episode %s: %w", ep.ID, err)
	}
	pairs := make([]Pair, 0, len(steps))
	for i := range steps {
		more, err := a.Audit(ctx, at, &steps[i])
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, more...)
	}
	if err := at.finish(ctx, pairs); err != nil {
		return nil, fmt.Errorf("finish episode %s: %w", ep.ID, err)
	}
	return pairs, nil
}

// Run audits an episode and commits its pairs to a run, in this order: work,
// commit, and only then may the caller acknowledge.
func (a *Auditor) Run(ctx context.Context, ledger Ledger, run string, ep *Episode) ([]Pair, error) {
	pairs, err := a.Episode(ctx, ep)
	if err != nil {
		return nil, err
	}
	if _, err := ledger.Commit(ctx, run, pairs); err != nil {
		return nil, fmt.Errorf("commit episode %s: %w", ep.ID, err)
	}
	return pairs, nil
}

// Close ends the sessions that the auditor keeps.
func (a *Auditor) Close() error { return a.sessions.close() }

// rulesOf are the rules of an environment.
func (a *Auditor) rulesOf(environment string) *Rules {
	if a.config.Rules != nil {
		if rules := a.config.Rules(environment); rules != nil {
			return rules
		}
	}
	return a.rules
}
