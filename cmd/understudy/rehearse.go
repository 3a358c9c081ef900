package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/guard"
	"understudy/envace/private"
	"understudy/envace/tiny"
	"understudy/envace/train"
)

func rehearseCommand() command {
	return command{
		name: "rehearse", summary: "let a trained policy rehearse a task in private, then commit one guarded execution",
		example: "understudy rehearse --recipe tiny --arm envace --seed 1 --attempts 2",
		setup: func(fs *flag.FlagSet) runFunc {
			f := rehearseFlags{}
			f.register(fs)
			return func(ctx context.Context, inv *invocation) error { return rehearseRun(ctx, inv, f) }
		},
	}
}

// rehearseFlags are the flags of rehearse.
type rehearseFlags struct {
	recipe, arm, out string
	seed             uint64
	task             int
	attempts, memory int
	mode             string
	approve          string
	journal, id      string
	sweep            bool
	tasks            int
	deviceFlags
	svg string
}

func (f *rehearseFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.recipe, "recipe", "tiny", "of the run, by its name or file")
	fs.StringVar(&f.arm, "arm", string(train.ArmEnvACE), "of the run")
	fs.Uint64Var(&f.seed, "seed", 1, "of the run")
	fs.StringVar(&f.out, "out", "", "folder of all runs of the recipe; default runs/NAME")
	fs.IntVar(&f.task, "task", 0, "number of the held-out task")
	fs.IntVar(&f.attempts, "attempts", 2, "in private; 0 = commit unrehearsed")
	fs.StringVar(&f.mode, "mode", string(private.Parallel), "parallel, or sequential: each attempt reads the memory of those before it")
	fs.IntVar(&f.memory, "memory", 48, "tokens of the rehearsal memory at most")
	fs.StringVar(&f.approve, "approve", "ask", "what to do with a write whose risk is over 0.2: ask, yes or no")
	fs.StringVar(&f.journal, "journal", "", "file of the guard's decisions; default rehearsals.jsonl in the run's folder")
	fs.StringVar(&f.id, "execution", "", "id that makes the execution once; default the run's step and the task")
	fs.BoolVar(&f.sweep, "sweep", false, "measure 0 to 3 attempts in both modes on --tasks held-out tasks, every write approved")
	fs.IntVar(&f.tasks, "tasks", 100, "of a sweep")
	fs.StringVar(&f.svg, "svg", "", "file for the sweep's picture")
	f.deviceFlags.register(fs)
}

// stage is a policy with everything that its rehearsals need.
type stage struct {
	inv     *invocation
	flags   rehearseFlags
	recipe  train.Recipe
	envs    *environments
	env     audit.Environment
	tools   []audit.Tool
	tasks   []audit.Task
	rules   *audit.Rules
	format  tiny.Format
	player  *train.Player
	measure map[string]guard.Measured
	devices devices
}

func rehearseRun(ctx context.Context, inv *invocation, f rehearseFlags) (err error) {
	if f.mode != string(private.Parallel) && f.mode != string(private.Sequential) {
		return usageError("--mode "+f.mode, "write parallel or sequential")
	}
	if f.approve != "ask" && f.approve != "yes" && f.approve != "no" {
		return usageError("--approve "+f.approve, "write ask, yes or no")
	}
	if f.attempts < 0 || f.memory < 1 || f.tasks < 1 || f.task < 0 {
		return usageError("a number is too small", "attempts and task are at least 0, memory and tasks at least 1")
	}
	s := &stage{inv: inv, flags: f, envs: newEnvironments(inv.config)}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	if f.sweep {
		return s.sweep(ctx)
	}
	return s.one(ctx)
}

// open loads the run's policy and its environment.
func (s *stage) open(ctx context.Context) (err error) {
	f := s.flags
	if s.recipe, err = train.ReadRecipe(f.recipe); err != nil {
		return err
	}
	if s.recipe.Format != "tiny" {
		return &audit.Error{Code: audit.CodeUnprocessable, Message: "recipe " + s.recipe.Name + " trains in the chat format", Hint: "this command plays policies of the tiny format"}
	}
	arm, err := train.ParseArm(f.arm)
	if err != nil {
		return err
	}
	if f.out == "" {
		f.out = filepath.Join("runs", s.recipe.Name)
	}
	folder := train.Folder(f.out, arm, f.seed)
	if f.journal == "" {
		f.journal = filepath.Join(folder, "rehearsals.jsonl")
	}
	s.flags = f
	words, err := train.Words(f.out, f.seed)
	if err != nil {
		return err
	}
	s.devices.deviceFlags = f.deviceFlags
	s.format = tiny.Format{Vocabulary: words}
	s.player, err = train.OpenPlayer(train.Config{Recipe: s.recipe, Arm: arm, Seed: f.seed, Format: s.format},
		train.Runtime{Out: f.out, Device: s.devices.next})
	if err != nil {
		return err
	}
	if s.measure, err = measured(filepath.Join(folder, "evaluations.jsonl")); err != nil {
		return err
	}
	if s.rules, err = loadRules(s.inv.config.readBy(s.recipe)); err != nil {
		return err
	}
	return s.world(ctx)
}

func (s *stage) world(ctx context.Context) (err error) {
	if s.env, err = s.envs.Environment(ctx, s.recipe.Environment); err != nil {
		return err
	}
	tasker, ok := s.env.(audit.Tasker)
	if !ok {
		return &audit.Error{Code: audit.CodeUnprocessable, Message: s.recipe.Environment + " has no tasks", Hint: "rehearse in an environment that has"}
	}
	if s.tools, err = s.env.Tools(ctx); err != nil {
		return err
	}
	if s.tasks, err = tasker.Tasks(ctx, s.recipe.Data.HeldoutSeed, s.recipe.Data.Heldout); err != nil {
		return err
	}
	if s.flags.task >= len(s.tasks) {
		return usageError(fmt.Sprintf("--task %d", s.flags.task), fmt.Sprintf("there are %d held-out tasks", len(s.tasks)))
	}
	return nil
}

func (s *stage) close() error { return errors.Join(s.closePlayer(), s.envs.Close()) }

func (s *stage) closePlayer() error {
	var err error
	if s.player != nil {
		err = s.player.Close()
	}
	s.devices.close()
	return err
}

// measured are the tools' false-success rates on canaries in the run's last
// evaluation: the upper ends of their intervals, since few canaries prove little.
func measured(path string) (map[string]guard.Measured, error) {
	all, err := train.ReadEvaluations(path)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	rates := map[string]guard.Measured{}
	for _, f := range all[len(all)-1].Figures {
		if rate := f.Value(string(audit.FigureFSR)); f.Mode == audit.Canary && f.Tool != audit.AllTools && rate.Defined() {
			rates[f.Tool] = guard.Measured{FSR: rate.Hi}
		}
	}
	return rates, nil
}

// rehearser is the policy in private, asked through the given one.
func (s *stage) rehearser(policy envace.Policy, mode private.Mode, attempts int) private.Rehearser {
	r := s.recipe.Rollout
	return private.Rehearser{
		Rollout: envace.Rollout{
			Policy: policy, ReadAct: s.format.ReadAct, Tools: s.tools, Rules: s.rules, Told: s.env.Info().Policy, Greedy: true, Errors: r.Errors,
			Limits: envace.Limits{Turns: r.Turns, UserTurns: r.Turns, ParallelCalls: r.ParallelCalls, Response: r.ResponseTokens},
		},
		World:  envace.Rehearsing{Policy: policy, Read: s.format.ReadRehearsal, Max: r.ResponseTokens},
		Assess: private.ByGrade(tiny.Checklist{Tools: s.tools, Rules: s.rules}, s.rules), Attempts: attempts, Mode: mode,
		Memory: private.Memory{Most: s.flags.memory, Count: s.format.Count, Rules: s.rules, Write: s.recall},
	}
}

// recall tells an attempt in the policy's own words.
func (s *stage) recall(m private.Memory, _ int, a private.Attempt, d private.Detail) (string, error) {
	if d > private.Calls {
		return "", nil
	}
	return s.format.Recall(a.Trajectory, m.Rules, d == private.Calls), nil
}

// one rehearses and commits a single task, and says everything that happened.
func (s *stage) one(ctx context.Context) (err error) {
	f, task, out := s.flags, s.tasks[s.flags.task], s.inv.stdout
	if f.id == "" {
		f.id = fmt.Sprintf("%s/%s/%d/step %d/%s", s.recipe.Name, f.arm, f.seed, s.player.Step, task.ID)
	}
	journal, err := guard.OpenFile(f.journal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	g, err := guard.New(guard.Config{Tools: s.tools, Measured: s.measure, Journal: journal, Approve: s.approve()})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "task %s\n%s\n", task.ID, shifted(task.Prompt))
	if written := s.rules.Written(); !written.IsZero() {
		fmt.Fprintln(out, "answers are read by", audit.RulesName(written))
	}
	r := s.rehearser(s.player.Policy, private.Mode(f.mode), f.attempts)
	made, err := r.Rehearse(ctx, task, f.seed)
	if err != nil {
		return err
	}
	for i, a := range made.Attempts {
		s.printAttempt(i+1, a)
	}
	fmt.Fprintf(out, "memory: %d of at most %d tokens\n%s\n", made.Tokens, f.memory, shifted(made.Memory))
	fmt.Fprintf(out, "execution %s\n", f.id)
	committed, err := r.Commit(ctx, made, guard.Execution{Guard: g, Environment: s.env, ID: f.id}, f.seed)
	entries, readErr := journal.Entries(ctx, f.id)
	if err != nil || readErr != nil {
		return errors.Join(err, readErr)
	}
	s.printEntries(entries)
	fmt.Fprintf(out, "  ended: %s", committed.Stop)
	if c := committed.Check; c != nil {
		fmt.Fprintf(out, "; %d of %d checks hold", c.Passed, c.Checks)
	}
	fmt.Fprintf(out, "\njournal: %s\n", f.journal)
	return nil
}

func shifted(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

func (s *stage) printAttempt(number int, a private.Attempt) {
	out := s.inv.stdout
	fmt.Fprintf(out, "attempt %d in private (%s, %d tokens, %s)\n", number, s.flags.mode, a.Tokens, a.Wall.Round(time.Millisecond))
	for _, answer := range a.Trajectory.Calls() {
		fmt.Fprintf(out, "  %s %s\n    rehearsed %s", answer.Call.Tool, answer.Call.Arguments, answer.Raw)
		if r := answer.Rehearsal; r != nil && r.Confidence != nil {
			fmt.Fprintf(out, "  confidence %.2f", *r.Confidence)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "  assessed: score %.2f. %s %s\n", a.Assessment.Score, a.Assessment.Text, a.Assessment.Revision)
}

// printEntries says what became of each proposed call.
func (s *stage) printEntries(entries []guard.Entry) {
	for _, e := range entries {
		switch e.Phase {
		case guard.Decided:
			verb := "refused"
			if e.Decision.Allowed {
				verb = "made"
			}
			fmt.Fprintf(s.inv.stdout, "  %s %s\n    %s by %s: %s\n", e.Call.Tool, e.Call.Arguments, verb, e.Decision.Check, e.Decision.Reason)
		case guard.Answered:
			fmt.Fprintf(s.inv.stdout, "    answered %s%s\n", e.Answer, e.Text)
		case guard.Done:
		}
	}
}

// approve is who is asked about risky writes.
func (s *stage) approve() guard.ApproveFunc {
	switch s.flags.approve {
	case "no":
		return nil
	case "yes":
		return func(context.Context, audit.Call, guard.Risk) (guard.Approval, error) {
			return guard.Approval{Granted: true, By: "--approve yes", Reason: "approved on the command line"}, nil
		}
	}
	in := bufio.NewScanner(s.inv.stdin)
	return func(_ context.Context, call audit.Call, risk guard.Risk) (guard.Approval, error) {
		fmt.Fprintf(s.inv.stdout, "  %s %s\n    %s. Make it? [y/N] ", call.Tool, call.Arguments, risk.Reason)
		if !in.Scan() {
			return guard.Approval{By: "nobody", Reason: "no answer on standard input"}, in.Err()
		}
		answer := strings.ToLower(strings.TrimSpace(in.Text()))
		return guard.Approval{Granted: answer == "y" || answer == "yes", By: "standard input", Reason: "answered " + fmt.Sprintf("%q", answer)}, nil
	}
}
