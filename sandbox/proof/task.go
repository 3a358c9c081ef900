package proof

import (
	"cmp"
	"context"
	"fmt"

	"understudy/audit"
)

// tried is what a proof needs of a task's sessions.
type tried interface {
	audit.Session
	audit.Stater
	audit.Checker
	audit.Forker
}

// TaskResult is what became of one task.
type TaskResult struct {
	Task     string
	Faults   []string // why the task is no good: not solvable, solved from the start, a refused step
	Mutants  []Mutant
	Idle     bool // an agent that does nothing succeeds
	Destroys bool // an agent that does everything it can succeeds
}

// TaskReport sums up a domain's tasks.
type TaskReport struct {
	Results    []TaskResult
	Killed     map[Mutation]int
	Survived   map[Mutation]int
	Equivalent map[Mutation]int // mutants that end in the reference's state: nothing to notice
}

// KillRate is the share of mutants that a check noticed, among those that end
// in another state than the reference; 1 when there are none.
func (r *TaskReport) KillRate() float64 {
	killed, all := 0, 0
	for _, m := range Mutations() {
		killed += r.Killed[m]
		all += r.Killed[m] + r.Survived[m]
	}
	if all == 0 {
		return 1
	}
	return float64(killed) / float64(all)
}

// TaskConfig says which tasks are proved and how closely.
type TaskConfig struct {
	Seed   uint64 // of the task list and of the draws; 0 = the environment's own list
	N      int    // tasks; 0 = the environment's own number
	Values int    // other values that are tried for one argument; 0 = 3
}

// Tasks proves an environment's tasks: the reference solution passes and is not
// refused, the initial state fails, mutated solutions are noticed, and an idle
// agent and a destroyer score 0.
func Tasks(ctx context.Context, env audit.Environment, cfg TaskConfig) (*TaskReport, error) {
	tasker, ok := env.(audit.Tasker)
	if !ok {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: env.Info().Name + " has no tasks of its own", Hint: "only environments that list tasks can be proved"}
	}
	tasks, err := tasker.Tasks(ctx, cfg.Seed, cfg.N)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	tools, err := env.Tools(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tools: %w", err)
	}
	report := &TaskReport{Killed: map[Mutation]int{}, Survived: map[Mutation]int{}, Equivalent: map[Mutation]int{}}
	seen, latest := map[string]bool{}, &sight{}
	for i, task := range tasks {
		t := trial{env: env, task: task, tools: tools, seed: cfg.Seed + uint64(i), values: cmp.Or(cfg.Values, 3), seen: latest}
		result, err := t.run(ctx)
		if err != nil {
			return nil, fmt.Errorf("task %s: %w", task.ID, err)
		}
		if seen[task.ID] {
			result.Faults = append(result.Faults, "its id is not unique")
		}
		seen[task.ID] = true
		report.add(result)
	}
	return report, nil
}

func (r *TaskReport) add(result TaskResult) {
	r.Results = append(r.Results, result)
	for _, m := range result.Mutants {
		switch {
		case m.Equivalent:
			r.Equivalent[m.Kind]++
		case m.Killed:
			r.Killed[m.Kind]++
		default:
			r.Survived[m.Kind]++
		}
	}
}

// trial is the proof of one task.
type trial struct {
	env    audit.Environment
	task   audit.Task
	tools  []audit.Tool
	seed   uint64
	values int
	seen   *sight
}

func (t trial) run(ctx context.Context) (TaskResult, error) {
	result := TaskResult{Task: t.task.ID}
	initial, err := t.env.Open(ctx, audit.Start{Task: t.task.ID})
	if err != nil {
		return result, fmt.Errorf("open: %w", err)
	}
	defer initial.Close()
	start, ok := initial.(tried)
	if !ok {
		return result, &audit.Error{Code: audit.CodeInvalid, Message: t.env.Info().Name + "'s sessions cannot be proved", Hint: "a proof needs the capabilities state, fork and check"}
	}
	if len(t.task.Solution) == 0 {
		result.Faults = append(result.Faults, "it has no reference solution")
	}
	if result.Idle, err = t.attempt(ctx, start, nil, nil); err != nil {
		return result, err
	}
	if result.Idle {
		result.Faults = append(result.Faults, "the initial state passes already")
	}
	var reference audit.Digest
	passed, err := t.attempt(ctx, start, t.task.Solution, func(s tried, refused string) error {
		if refused != "" {
			result.Faults = append(result.Faults, "a step of the reference solution: "+refused)
		}
		reference, err = s.StateDigest(ctx)
		if checked, err := s.Check(ctx, t.task.ID); err == nil && !checked.Success() {
			result.Faults = append(result.Faults, fmt.Sprintf("the reference solution fails %v", checked.Failed))
		}
		return err
	})
	if err != nil || !passed {
		return result, err
	}
	if result.Mutants, err = t.mutants(ctx, start, reference); err != nil {
		return result, err
	}
	result.Destroys, err = t.destroy(ctx, start)
	return result, err
}

// attempt makes the calls on a fork and reports whether the checks pass after
// them; look, if any, sees the fork and what was refused first.
func (t trial) attempt(ctx context.Context, start tried, calls []audit.Call, look func(s tried, refused string) error) (bool, error) {
	forked, err := start.Fork(ctx)
	if err != nil {
		return false, fmt.Errorf("fork: %w", err)
	}
	defer forked.Close()
	s, ok := forked.(tried)
	if !ok {
		return false, fmt.Errorf("a fork of %s lacks its session's capabilities", t.env.Info().Name)
	}
	refused := ""
	for _, call := range calls {
		seen, err := s.Call(ctx, call)
		if err != nil {
			return false, fmt.Errorf("call %s: %w", call.Tool, err)
		}
		if seen.Status != audit.StatusOK && refused == "" {
			refused = fmt.Sprintf("%s %s was answered with %s", call.Tool, call.Arguments, seen.Raw)
		}
	}
	if look != nil {
		if err := look(s, refused); err != nil {
			return false, err
		}
	}
	return t.passes(ctx, s)
}

// destroyed is how many accepted writes the destroyer adds to what was asked
// for, and patience how many it tries.
const (
	destroyed = 6
	patience  = 300
)

// destroy lets an agent do what was asked for and then write whatever it can,
// and reports whether that passes.
func (t trial) destroy(ctx context.Context, start tried) (bool, error) {
	g, err := t.generator(ctx, start)
	if err != nil {
		return false, err
	}
	forked, err := start.Fork(ctx)
	if err != nil {
		return false, fmt.Errorf("fork: %w", err)
	}
	defer forked.Close()
	for _, call := range t.task.Solution {
		if _, err := forked.Call(ctx, call); err != nil {
			return false, fmt.Errorf("call %s: %w", call.Tool, err)
		}
	}
	accepted := 0
	for tries := 0; tries < patience && accepted < destroyed; tries++ {
		call, ok := g.NextWrite()
		if !ok {
			break
		}
		seen, err := forked.Call(ctx, call)
		if err != nil {
			return false, fmt.Errorf("call %s: %w", call.Tool, err)
		}
		if seen.Status == audit.StatusOK && len(seen.Delta) > 0 {
			accepted++
		}
	}
	if accepted == 0 {
		return false, fmt.Errorf("the destroyer found nothing to destroy in %d calls", patience)
	}
	return t.passes(ctx, forked)
}

// passes reports whether the task's checks hold in a session.
func (t trial) passes(ctx context.Context, session audit.Session) (bool, error) {
	checker, ok := session.(audit.Checker)
	if !ok {
		return false, fmt.Errorf("a fork of %s cannot be checked", t.env.Info().Name)
	}
	checked, err := checker.Check(ctx, t.task.ID)
	if err != nil {
		return false, fmt.Errorf("check: %w", err)
	}
	return checked.Success(), nil
}

// generator returns a generator that has seen the task's initial state.
func (t trial) generator(ctx context.Context, s tried) (*Generator, error) {
	g, err := NewGenerator(t.tools, t.seed)
	if err != nil {
		return nil, err
	}
	digest, err := s.StateDigest(ctx)
	if err != nil {
		return nil, fmt.Errorf("digest the state: %w", err)
	}
	if digest != t.seen.digest || t.seen.world == nil {
		if t.seen.world, err = look(ctx, s); err != nil {
			return nil, err
		}
		t.seen.digest = digest
	}
	g.see(t.seen.world)
	return g, nil
}

// sight is the world that was harvested last: most tasks start from the same.
type sight struct {
	digest audit.Digest
	world  *world
}
