package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/eval"
	"understudy/envace/private"
	"understudy/envace/train"
)

func evalCommand() command {
	return command{
		name: "eval", args: "[BENCHMARK...]", summary: "play a policy on benchmarks: Avg@n, pass^k, tool recall and precision, the paper's Overall",
		example: "understudy eval retail airline --policy http://127.0.0.1:8000/v1 --samples 4 --out results",
		setup: func(fs *flag.FlagSet) runFunc {
			f := evalFlags{}
			f.register(fs)
			return func(ctx context.Context, inv *invocation) error { return evalRun(ctx, inv, f) }
		},
	}
}

// evalFlags are the flags of eval.
type evalFlags struct {
	policy    policyFlags
	run       string
	recipe    string
	arm       string
	name      string
	data      string
	classes   string
	out       string
	user      policyFlags // the model that plays the user
	judge     policyFlags
	mode      string
	seed      uint64
	taskSeed  uint64
	tasks     int
	samples   int
	rehearse  int
	memory    int
	parallel  int
	maxTokens int
	greedy    bool
	overall   bool
	json      bool
}

func (f *evalFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.policy.url, "policy", "", "base URL of an OpenAI-compatible server whose model plays, such as http://127.0.0.1:8000/v1")
	fs.StringVar(&f.policy.model, "model", "", "model of --policy's server, needed when it serves several; without --policy, the folder of a model that plays here")
	fs.Float64Var(&f.policy.temperature, "temperature", 0.6, "of what is sampled; of a --run, its recipe's")
	f.policy.engine.register(fs)
	fs.StringVar(&f.run, "run", "", "folder of the runs of a recipe: its policy of --arm and --seed plays")
	fs.StringVar(&f.recipe, "recipe", "tiny", "of the run, by its name or file")
	fs.StringVar(&f.arm, "arm", string(train.ArmEnvACE), "of the run")
	fs.Uint64Var(&f.seed, "seed", 1, "of the run, and of every draw")
	fs.StringVar(&f.name, "policy-name", "", "what the policy is called in results; default its model or URL")
	fs.StringVar(&f.data, "data", "", "folder (finmcp: file) of a benchmark's data: tau2:DOMAIN, bfcl, acebench, finmcp")
	fs.StringVar(&f.classes, "classes", "", "folder with the Python classes of bfcl or acebench; default --data")
	fs.StringVar(&f.out, "out", "runs/eval", "folder of results; a second run goes on with what is there")
	fs.StringVar(&f.user.url, "user", "", "base URL of a server whose model plays the user; else the scenario is the prompt")
	fs.StringVar(&f.user.model, "user-model", "", "model of --user's server")
	fs.StringVar(&f.judge.url, "judge", "", "base URL of a server whose model judges assertions; else they are not asked")
	fs.StringVar(&f.judge.model, "judge-model", "", "model of --judge's server")
	fs.IntVar(&f.tasks, "tasks", 0, "so many tasks, the first ones; 0 = all of them, of a domain its own number")
	fs.Uint64Var(&f.taskSeed, "task-seed", 0, "of the tasks that a domain makes; 0 = its own")
	fs.IntVar(&f.samples, "samples", 4, "of each task")
	fs.BoolVar(&f.greedy, "greedy", false, "take the most likely token each time; with it, one sample is enough")
	fs.IntVar(&f.rehearse, "rehearse", 0, "private attempts before the one execution of each sample")
	fs.StringVar(&f.mode, "mode", string(private.Parallel), "of the attempts: parallel, or sequential")
	fs.IntVar(&f.memory, "memory", 0, "tokens of the rehearsal memory at most; 0 = 2000, of a --run 48")
	fs.IntVar(&f.parallel, "parallel", 8, "rollouts side by side")
	fs.IntVar(&f.maxTokens, "max-tokens", 0, "of one output; 0 = 2048, of a model here 512")
	fs.BoolVar(&f.overall, "overall", false, "also the paper's Overall of what is in --out; with no benchmark named, nothing is played")
	fs.BoolVar(&f.json, "json", false, "print JSON")
}

func (f *evalFlags) validate(names []string) error {
	switch {
	case len(names) == 0 && !f.overall && f.run == "":
		return usageError("name a benchmark", "an environment, such as retail, tau2:retail or delivery; or bfcl, acebench, finmcp with --data")
	case f.samples < 1 || f.tasks < 0 || f.rehearse < 0 || f.memory < 0 || f.parallel < 1 || f.maxTokens < 0:
		return usageError("a number is too small", "samples and parallel are at least 1, the others at least 0")
	case f.mode != string(private.Parallel) && f.mode != string(private.Sequential):
		return usageError("--mode "+f.mode, "write parallel or sequential")
	case f.run != "" && f.policy.given():
		return usageError("--run and another policy", "name one policy: --run, --policy or --model")
	case f.run == "" && !f.policy.given() && len(names) > 0:
		return usageError("no policy plays", "name one: --policy URL, --model FOLDER or --run FOLDER")
	}
	return nil
}

func evalRun(ctx context.Context, inv *invocation, f evalFlags) (err error) {
	if err := f.validate(inv.args); err != nil {
		return err
	}
	var names []string
	if f.run != "" || len(inv.args) > 0 {
		e := &evaluation{inv: inv, flags: f, envs: newEnvironments(inv.config)}
		defer func() { err = errors.Join(err, e.close()) }()
		if names, err = e.play(ctx); err != nil {
			return err
		}
	}
	return f.report(inv, names)
}

// evaluation is what the benchmarks of one command share.
type evaluation struct {
	inv    *invocation
	flags  evalFlags
	envs   *environments
	player player
	stage  *stage // of --run
	rules  *audit.Rules
	opened []func() error
}

func (e *evaluation) close() error {
	var errs []error
	for _, end := range slices.Backward(e.opened) {
		errs = append(errs, end())
	}
	return errors.Join(append(errs, e.envs.Close())...)
}

// play plays every benchmark and returns their names.
func (e *evaluation) play(ctx context.Context) (_ []string, err error) {
	if e.rules, err = loadRules(e.inv.config); err != nil {
		return nil, err
	}
	if err = e.openPlayer(ctx); err != nil {
		return nil, err
	}
	names := e.inv.args
	if len(names) == 0 {
		names = []string{e.stage.recipe.Environment}
	}
	for _, name := range names {
		b, err := e.openBenchmark(ctx, name)
		if err == nil {
			err = e.playOne(ctx, b)
		}
		if err != nil {
			return nil, fmt.Errorf("benchmark %s: %w", name, err)
		}
	}
	return names, nil
}

func (e *evaluation) playOne(ctx context.Context, b benchmark) (err error) {
	f := e.flags
	if len(b.tasks) == 0 {
		return &audit.Error{Code: audit.CodeUnprocessable, Message: "it has no tasks", Hint: "name a benchmark that has"}
	}
	if f.tasks > 0 {
		b.tasks = b.tasks[:min(f.tasks, len(b.tasks))]
	}
	run := eval.Run{
		Benchmark: b.name, Column: b.column, Policy: e.player.name, Environment: b.environment, TaskCount: len(b.tasks),
		Samples: f.samples, Seed: f.seed, Temperature: e.player.temperature, Rehearse: f.rehearse, Notes: b.notes,
		Rules: e.rules.Written(),
	}
	if f.rehearse > 0 {
		run.Mode = f.mode
	}
	if f.greedy {
		run.Temperature = 0
	}
	if run.Tasks, err = eval.TasksDigest(b.tasks); err != nil {
		return err
	}
	book, err := eval.OpenBook(f.out, run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	total := len(b.tasks)*f.samples - len(book.Results())
	watch := e.inv.newProgress("playing "+b.name, total)
	runner := eval.Runner{
		Rollout: e.player.rollout, Samples: f.samples, Seed: f.seed, Parallel: f.parallel,
		Progress: func(eval.Result) { watch.add(1) },
	}
	runner.Rollout.Greedy = f.greedy
	if f.rehearse > 0 {
		runner.Rehearse = e.player.rehearse
	}
	if err := runner.Run(ctx, b.tasks, book); err != nil {
		return err
	}
	watch.end()
	return nil
}

// report prints what is in the folder of results: what was played now, or everything.
func (f evalFlags) report(inv *invocation, names []string) error {
	played, err := eval.ReadAll(f.out)
	if err != nil {
		return err
	}
	if len(played) == 0 {
		return &audit.Error{Code: audit.CodeNotFound, Message: "there are no results in " + f.out, Hint: "play a benchmark first"}
	}
	shown := played
	if !f.overall {
		shown = slices.DeleteFunc(slices.Clone(played), func(p eval.Played) bool { return !slices.Contains(names, p.Run.Benchmark) })
	}
	var overall *eval.Overall
	var lacks error
	if f.overall {
		o, err := eval.OverallOf(played)
		if lacks = err; err == nil {
			overall = &o
		}
	}
	if f.json {
		encoder := json.NewEncoder(inv.stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(struct {
			Benchmarks []eval.Played `json:"benchmarks"`
			Overall    *eval.Overall `json:"overall,omitempty"`
		}{shown, overall})
	} else {
		err = printPlayed(inv.stdout, shown, overall)
	}
	return cmp.Or(err, lacks, nothingKnown(shown))
}

// nothingKnown is an error when a benchmark has no sample that says anything.
func nothingKnown(played []eval.Played) error {
	for _, p := range played {
		if p.Figures.Samples == 0 && len(p.Figures.Why) > 0 {
			return &audit.Error{
				Code: audit.CodeInfrastructure, Message: fmt.Sprintf("benchmark %s: none of %d samples could be played: %s", p.Run.Benchmark, p.Figures.Unknown, p.Figures.Why[0].What),
				Hint: "mend what failed; the same command plays them again",
			}
		}
	}
	return nil
}

// player is the policy that plays.
type player struct {
	name        string
	temperature float64
	rollout     envace.Rollout // policy, reading, limits
	rehearse    func(t eval.Task, rollout envace.Rollout) private.Rehearser
}
