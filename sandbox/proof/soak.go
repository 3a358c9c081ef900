package proof

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"understudy/audit"
)

// SoakConfig says how long and how closely a domain is soaked.
type SoakConfig struct {
	Calls   int    // in all; 0 = 20,000
	Session int    // calls on one world before a fresh one is opened; 0 = 200
	Every   int    // calls between two looks at the invariants; 0 = 100
	Seed    uint64 // of the draws
}

func (c SoakConfig) withDefaults() SoakConfig {
	if c.Calls == 0 {
		c.Calls = 20_000
	}
	if c.Session == 0 {
		c.Session = 200
	}
	if c.Every == 0 {
		c.Every = 100
	}
	return c
}

// enough findings end a soak: more would repeat them.
const enough = 5

// SoakReport is what a soak saw.
type SoakReport struct {
	Calls    int
	Tools    map[string]*Tally
	Findings []Finding // broken promises, at most one a session
	Elapsed  time.Duration
}

// Tally counts the answers of one tool.
type Tally struct {
	OK       int
	Empty    int // ok with an empty list
	Wrote    int // ok with a delta
	Families map[audit.Family]int
}

// Finding is a promise that the domain broke, with the call that broke it.
type Finding struct {
	Session uint64 // seed of the session's draws
	Call    audit.Call
	Number  int // of the call in its session, from 1
	Text    string
}

// Soak makes seeded random calls and watches that refusals and reads change
// nothing, that every refusal is of a declared family, that the sandbox never
// faults, and that the domain's invariants hold. An environment whose sessions
// cannot be looked into is an error.
func Soak(ctx context.Context, env audit.Environment, cfg SoakConfig) (*SoakReport, error) {
	cfg = cfg.withDefaults()
	tools, err := env.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}
	if len(tools) == 0 {
		return nil, fmt.Errorf("%w: it has no tools", ErrCannotSoak)
	}
	start := time.Now()
	report := &SoakReport{Tools: map[string]*Tally{}}
	for _, t := range tools {
		report.Tools[t.Name] = &Tally{Families: map[audit.Family]int{}}
	}
	scripts, err := solutions(ctx, env)
	if err != nil {
		return nil, err
	}
	var seen *world
	for seed := cfg.Seed; report.Calls < cfg.Calls && len(report.Findings) < enough; seed++ {
		s := soaker{env: env, tools: tools, seed: seed, calls: min(cfg.Session, cfg.Calls-report.Calls), every: cfg.Every, scripts: scripts, world: seen}
		if err := s.run(ctx, report); err != nil {
			return nil, err
		}
		seen = s.world
	}
	report.Elapsed = time.Since(start)
	return report, nil
}

// solutions are the reference solutions of the environment's own tasks, if it has any.
func solutions(ctx context.Context, env audit.Environment) ([][]audit.Call, error) {
	tasker, ok := env.(audit.Tasker)
	if !ok {
		return nil, nil
	}
	tasks, err := tasker.Tasks(ctx, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	var scripts [][]audit.Call
	for _, t := range tasks {
		if len(t.Solution) > 0 {
			scripts = append(scripts, t.Solution)
		}
	}
	return scripts, nil
}

// soaker is one session of a soak.
type soaker struct {
	env     audit.Environment
	tools   []audit.Tool
	seed    uint64
	calls   int
	every   int
	scripts [][]audit.Call
	world   *world // the initial world, which all sessions share; nil until one has looked
}

// ErrCannotSoak is of an environment whose rules cannot be watched.
var ErrCannotSoak = errors.New("its sessions do not show both state and invariants, so its rules cannot be soaked")

// inspected is what a soak needs of a session.
type inspected interface {
	audit.Session
	audit.Stater
	audit.Inspector
}

func (s *soaker) open(ctx context.Context) (inspected, error) {
	session, err := s.env.Open(ctx, audit.Start{Seed: s.seed})
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	i, ok := session.(inspected)
	if !ok {
		return nil, &audit.Error{
			Code: audit.CodeInvalid, Message: s.env.Info().Name, Err: errors.Join(ErrCannotSoak, session.Close()),
			Hint: "a soak needs the capabilities state and invariants; the built-in domains have them",
		}
	}
	return i, nil
}

func (s *soaker) run(ctx context.Context, report *SoakReport) error {
	session, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	g, err := NewGenerator(s.tools, s.seed)
	if err != nil {
		return err
	}
	if s.world == nil {
		if s.world, err = look(ctx, session); err != nil {
			return err
		}
	}
	g.see(s.world)
	g.Suggest(s.scripts)
	var log []audit.Call
	for n := 1; n <= s.calls; n++ {
		call := g.Next()
		log = append(log, call)
		seen, err := session.Call(ctx, call)
		if err != nil {
			return fmt.Errorf("call %s: %w", call.Tool, err)
		}
		report.Calls++
		if text := report.count(s.tools, call, seen); text != "" {
			report.Findings = append(report.Findings, Finding{Session: s.seed, Call: call, Number: n, Text: text})
			return nil
		}
		if seen.Status == audit.StatusOK {
			g.Learn(call, seen.Raw)
		}
		if n%s.every != 0 && n != s.calls {
			continue
		}
		if violations, err := session.Violations(ctx); err != nil {
			return fmt.Errorf("look at the invariants: %w", err)
		} else if len(violations) > 0 {
			return s.locate(ctx, log, report)
		}
	}
	return nil
}

// look harvests a session's whole state.
func look(ctx context.Context, s audit.Stater) (*world, error) {
	text, err := s.State(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("read the state: %w", err)
	}
	return harvest(text)
}

// locate repeats a session's calls and names the first that broke an invariant.
func (s *soaker) locate(ctx context.Context, log []audit.Call, report *SoakReport) error {
	session, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	for n, call := range log {
		if _, err := session.Call(ctx, call); err != nil {
			return fmt.Errorf("repeat %s: %w", call.Tool, err)
		}
		violations, err := session.Violations(ctx)
		if err != nil {
			return fmt.Errorf("look at the invariants: %w", err)
		}
		if len(violations) > 0 {
			report.Findings = append(report.Findings, Finding{Session: s.seed, Call: call, Number: n + 1, Text: violations[0]})
			return nil
		}
	}
	report.Findings = append(report.Findings, Finding{Session: s.seed, Number: len(log), Text: "an invariant broke, but not when the session was repeated: the domain is not deterministic"})
	return nil
}

// count adds an observation to its tool's tally and says which promise it breaks, or "".
func (r *SoakReport) count(tools []audit.Tool, call audit.Call, seen audit.Observation) string {
	tally, declared := r.Tools[call.Tool]
	if !declared {
		if seen.Error == nil || seen.Error.Family != audit.UnknownTool {
			return fmt.Sprintf("an unknown tool was answered with %s", seen.Raw)
		}
		return ""
	}
	switch seen.Status {
	case audit.StatusOK:
		tally.OK++
		if len(seen.Delta) > 0 {
			tally.Wrote++
		}
		if string(seen.Raw) == "[]" {
			tally.Empty++
		}
	case audit.StatusRefused, audit.StatusInvalid:
		if seen.Error == nil {
			return "an error without a family"
		}
		tally.Families[seen.Error.Family]++
	case audit.StatusFault, audit.StatusUnknown:
		return fmt.Sprintf("status %s: %s", seen.Status, seen.Raw)
	}
	return broken(tools, call, seen)
}

// broken names the promise that one observation breaks, or "".
func broken(tools []audit.Tool, call audit.Call, seen audit.Observation) string {
	tool := audit.Tool{}
	for _, t := range tools {
		if t.Name == call.Tool {
			tool = t
		}
	}
	changed := len(seen.Delta) > 0 || seen.Before != seen.After
	switch {
	case changed && seen.Status != audit.StatusOK:
		return "a call that was not accepted changed the state"
	case changed && tool.Effect == audit.Read:
		return "a tool that is declared to read changed the state"
	case (len(seen.Delta) > 0) != (seen.Before != seen.After):
		return "the delta and the digests disagree about whether the state changed"
	case seen.Status == audit.StatusRefused && tool.Errors != nil && !slices.Contains(tool.Errors, seen.Error.Family):
		return fmt.Sprintf("refused with %s, which the tool does not declare: %s", seen.Error.Family, seen.Error.Message)
	}
	return ""
}
