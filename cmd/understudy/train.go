package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/queue"
	"understudy/envace"
	"understudy/envace/tiny"
	"understudy/envace/train"
)

func trainCommand() command {
	return command{
		name: "train", args: "", summary: "train a policy in both roles: one arm, or a sweep of arms and seeds that goes on where it stopped",
		example: "understudy train --recipe tiny --arm envace+calibration --seed 1 --out runs/tiny",
		setup: func(fs *flag.FlagSet) runFunc {
			f := trainFlags{}
			f.register(fs)
			return func(ctx context.Context, inv *invocation) error { return trainRun(ctx, inv, f) }
		},
	}
}

// trainFlags are the flags of train.
type trainFlags struct {
	recipe, arm, arms, seeds, out string
	seed                          uint64
	steps                         int
	deviceFlags
	sweep, table, ceiling bool
	away                  bool // rollouts are done by workers elsewhere
	svg                   string
	policy                policyFlags
	chat                  chatFlags
}

func (f *trainFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.recipe, "recipe", "tiny", "a recipe's name or file: "+strings.Join(train.Names(), ", "))
	fs.StringVar(&f.arm, "arm", string(train.ArmEnvACE), "what to train, or what to leave out")
	fs.Uint64Var(&f.seed, "seed", 1, "of parameters and draws")
	fs.StringVar(&f.out, "out", "", "folder of all runs of the recipe; default runs/NAME")
	fs.IntVar(&f.steps, "steps", 0, "train so many steps instead of the recipe's")
	f.deviceFlags.register(fs)
	fs.BoolVar(&f.sweep, "sweep", false, "train every arm of --arms with every seed of --seeds; what is complete is not trained again")
	fs.StringVar(&f.arms, "arms", "base,grpo-sandbox,envace,per-role,envace+calibration", "arms of a sweep")
	fs.StringVar(&f.seeds, "seeds", "1,2,3", "seeds of a sweep")
	fs.BoolVar(&f.ceiling, "ceiling", false, "train nothing, compute how true rehearsals of the held-out tasks can be at best; the table shows it")
	fs.StringVar(&f.svg, "svg", "", "file for a picture of all runs of the sweep; with --sweep or --table")
	fs.BoolVar(&f.table, "table", false, "train nothing, print the table of what is there")
	fs.BoolVar(&f.away, "rollout-workers", false, "have processes of understudy rollout-worker, here or on other machines, do the rollouts; needs --nats-url")
	f.policy.register(fs)
	f.chat.register(fs)
}

// runs are the runs of a sweep, or the one that is asked for; seeds come first, so
// that the arms of one seed can be compared early.
func (f trainFlags) runs() ([]train.Config, error) {
	arms, seeds := f.arm, strconv.FormatUint(f.seed, 10)
	if f.sweep || f.table {
		arms, seeds = f.arms, f.seeds
	}
	var runs []train.Config
	for seedText := range strings.SplitSeq(seeds, ",") {
		seed, err := strconv.ParseUint(strings.TrimSpace(seedText), 10, 64)
		if err != nil {
			return nil, usageError("--seeds "+seeds, "write numbers, such as 1,2,3")
		}
		for name := range strings.SplitSeq(arms, ",") {
			arm, err := train.ParseArm(strings.TrimSpace(name))
			if err != nil {
				return nil, err
			}
			runs = append(runs, train.Config{Arm: arm, Seed: seed})
		}
	}
	return runs, nil
}

func trainRun(ctx context.Context, inv *invocation, f trainFlags) (err error) {
	recipe, err := train.ReadRecipe(f.recipe)
	if err != nil {
		return err
	}
	if f.steps > 0 {
		recipe.Steps = f.steps
	}
	if f.chat.modelDir != "" {
		recipe.Model.Dir = f.chat.modelDir
	}
	if f.out == "" {
		f.out = filepath.Join("runs", recipe.Name)
	}
	runs, err := f.runs()
	if err != nil {
		return err
	}
	if f.table {
		return f.show(inv.stdout, runs)
	}
	if _, err := f.card(); err != nil { // a mistyped --device is refused before anything is printed
		return err
	}
	if f.chat.dryRun {
		return dryRun(ctx, inv, f, recipe)
	}
	t := &training{flags: f, recipe: recipe, inv: inv}
	if err := t.checkWorkers(); err != nil {
		return err
	}
	if err := t.planAhead(runs); err != nil {
		return err
	}
	if err := t.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close(ctx)) }()
	if f.ceiling {
		if err := t.findCeiling(ctx); err != nil {
			return err
		}
		return printCeiling(inv.stdout, f.out)
	}
	if err := t.planAll(runs); err != nil {
		return err
	}
	return errors.Join(t.all(ctx, runs), f.show(inv.stdout, runs))
}

// show prints the table of the runs and draws their picture, if one is asked for.
func (f trainFlags) show(w io.Writer, runs []train.Config) error {
	curves, err := readCurves(f.out, runs)
	if err != nil {
		return err
	}
	if err := printSweep(w, f.out, curves, len(runs)); err != nil || f.svg == "" {
		return err
	}
	return os.WriteFile(f.svg, drawSweep(curves, "Training on "+f.recipe+": every seed of every arm"), 0o644)
}

// ceilingWorlds is how many possible worlds each call is answered in.
const ceilingWorlds = 32

// findCeiling computes the Bayes ceiling of the tasks that evaluations use.
func (t *training) findCeiling(ctx context.Context) error {
	if t.common.Environment == nil {
		return usageError("--ceiling: recipe "+t.recipe.Name+" has no environment whose answers could be drawn", "leave it out")
	}
	fmt.Fprintln(t.inv.stdout, "drawing possible worlds for the held-out tasks: a few minutes")
	tasks := t.common.Test[:min(len(t.common.Test), t.recipe.Evaluation.Tasks)]
	c, err := train.BayesCeiling(ctx, t.common.Environment, t.common.Rules, tasks, ceilingWorlds)
	if err != nil {
		return err
	}
	return train.WriteCeiling(t.flags.out, c)
}

// all trains the runs one after the other; one that fails does not keep the others.
func (t *training) all(ctx context.Context, runs []train.Config) error {
	var failed []error
	for i, c := range runs {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(failed, err)...)
		}
		if len(runs) > 1 {
			fmt.Fprintf(t.inv.stdout, "run %d of %d: %s, seed %d\n", i+1, len(runs), c.Arm, c.Seed)
		}
		if err := t.run(ctx, c); err != nil {
			err = ofRun(c, err)
			t.inv.log.ErrorContext(ctx, "a run failed", slog.Any("error", err))
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// ofRun names the run that failed.
func ofRun(c train.Config, err error) error {
	return fmt.Errorf("train %s, seed %d: %w", c.Arm, c.Seed, err)
}

// training is what the runs of one command share.
type training struct {
	flags     trainFlags
	recipe    train.Recipe
	inv       *invocation
	common    train.Config
	envs      *environments
	resources *resources
	ledger    *ledger.Ledger
	rewards   *rewards
	sources   map[train.Arm]envace.Source // the worlds of grpo-simulator and grpo-recorded
	printed   []string                    // plans of a card's memory
}

// checkWorkers refuses --rollout-workers where there can be none.
func (t *training) checkWorkers() error {
	if t.flags.away && t.recipe.Format != "tiny" {
		return usageError("--rollout-workers with recipe "+t.recipe.Name+", which trains in the chat format", "rollout workers speak the tiny format; leave the flag out")
	}
	if t.flags.away && t.inv.config.NATSURL == "" {
		return usageError("--rollout-workers without --nats-url", "workers on other machines need a NATS server with JetStream that they can reach, too")
	}
	return nil
}

// open starts the ledger, where metrics and rewards are kept, and makes the tasks.
func (t *training) open(ctx context.Context) (err error) {
	t.envs = newEnvironments(t.inv.config)
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close(ctx))
		}
	}()
	if t.resources, err = openResources(ctx, t.inv.config, t.inv.log); err != nil {
		return err
	}
	if t.ledger, err = ledger.New(t.resources.pool, ledger.Config{}); err != nil {
		return err
	}
	if t.rewards, err = startRewards(ctx, t.resources, t.inv.config.readBy(t.recipe), t.ledger, slog.New(slog.DiscardHandler), nil); err != nil {
		return err
	}
	t.common, err = t.prepare(ctx)
	return err
}

// prepare is what every run's configuration holds.
func (t *training) prepare(ctx context.Context) (c train.Config, err error) {
	t.sources = map[train.Arm]envace.Source{}
	if t.flags.policy.url != "" {
		simulator, err := t.flags.policy.remote(t.inv.config)
		if err != nil {
			return c, err
		}
		t.sources[train.ArmSimulator] = envace.Simulated{Rehearser: simulator}
	}
	c = train.Config{Progress: func(line string) { fmt.Fprintln(t.inv.stdout, line) }, KVMemory: t.flags.chat.kv.bytes()}
	if t.rewards != nil { // a rollout worker pays nothing
		c.Scorer = t.rewards.hook
	}
	if c.Rules, err = loadRules(t.inv.config.readBy(t.recipe)); err != nil {
		return c, err
	}
	if t.recipe.Data.Source == "cm2" {
		err = t.converse(&c)
	} else {
		err = t.settle(ctx, &c)
	}
	c.Recipe = t.recipe
	return c, err
}

// settle takes tasks, format and grader of an environment.
func (t *training) settle(ctx context.Context, c *train.Config) (err error) {
	if c.Environment, err = t.envs.Environment(ctx, t.recipe.Environment); err != nil {
		return err
	}
	tasker, ok := c.Environment.(audit.Tasker)
	if !ok {
		return &audit.Error{Code: audit.CodeUnprocessable, Message: t.recipe.Environment + " has no tasks", Hint: "train in an environment that has"}
	}
	t.inv.log.InfoContext(ctx, "generating tasks", slog.Int("train", t.recipe.Data.Train), slog.Int("heldout", t.recipe.Data.Heldout))
	if c.Train, err = tasker.Tasks(ctx, t.recipe.Data.TrainSeed, t.recipe.Data.Train); err != nil {
		return err
	}
	if c.Test, err = tasker.Tasks(ctx, t.recipe.Data.HeldoutSeed, t.recipe.Data.Heldout); err != nil {
		return err
	}
	t.sources[train.ArmRecorded] = train.Solutions{Environment: c.Environment}
	c.Grader = envace.StateChecks{Raw: t.recipe.Reward.Raw, Environment: c.Environment}
	if t.recipe.Format != "tiny" {
		return t.speak(c)
	}
	tools, err := c.Environment.Tools(ctx)
	if err != nil {
		return err
	}
	words, err := tiny.Learn(ctx, c.Environment, t.recipe.Data.TrainSeed, t.recipe.Data.Train)
	if err != nil {
		return err
	}
	c.Format = tiny.Format{Vocabulary: words}
	if t.recipe.Reward.Grader == "checklist" {
		c.Grader = tiny.Checklist{Tools: tools, Rules: c.Rules}
	}
	return nil
}

// run trains one arm and seed, unless that is done.
func (t *training) run(ctx context.Context, c train.Config) error {
	if err := t.planned(c); err != nil { // again: others may have taken of the card since
		return err
	}
	arm, seed := c.Arm, c.Seed
	c = t.common
	c.Arm, c.Seed = arm, seed
	c.Source = t.sources[arm]
	engine := devices{deviceFlags: t.flags.deviceFlags}
	defer engine.close()
	return t.runAs(ctx, c, train.Runtime{Out: t.flags.out, Device: engine.next})
}

// runAs trains with a whole configuration, and keeps its metrics in the ledger.
func (t *training) runAs(ctx context.Context, c train.Config, r train.Runtime) error {
	if c.Arm == train.ArmSandbox {
		c.Imagined, c.Grader = c.Grader, envace.StateChecks{Raw: t.recipe.Reward.Raw}
	}
	settings, err := t.settings()
	if err != nil {
		return err
	}
	id, err := t.ledger.StartTraining(ctx, audit.NewTraining{
		Experiment: t.recipe.Name, Arm: string(c.Arm), Seed: int64(c.Seed), Policy: t.recipe.Name + "/" + string(c.Arm), Settings: settings,
	})
	if err != nil {
		return err
	}
	if t.flags.away {
		if c.Farm, err = newFarm(t.resources.nats, farmName(t.recipe, c.Arm, c.Seed), queue.Config{Replicas: t.inv.config.StreamReplicas, Logger: t.inv.log}); err != nil {
			return err
		}
	}
	c.Sinks = []train.Sink{ledgerSink{func(metrics []audit.Metric) error {
		return t.ledger.WriteMetrics(context.WithoutCancel(ctx), id, metrics)
	}}}
	err = train.Run(ctx, c, r)
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	return errors.Join(err, t.ledger.FinishTraining(context.WithoutCancel(ctx), id, reason))
}

// settings are what the ledger keeps of how a run was trained: the recipe, the files of
// rules that were read in the end, and what these said.
func (t *training) settings() (json.RawMessage, error) {
	s := struct {
		train.Recipe
		RulesDigest audit.Digest `json:"rules_digest,omitzero"`
	}{t.recipe, t.common.Rules.Written()}
	cfg := t.inv.config.readBy(t.recipe)
	s.Rules, s.PathPolicy = cfg.Rules, cfg.PathPolicy
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the recipe: %w", err)
	}
	return text, nil
}

// ledgerSink writes metrics into the ledger.
type ledgerSink struct {
	write func(metrics []audit.Metric) error
}

// Write implements train.Sink.
func (s ledgerSink) Write(metrics []audit.Metric) error { return s.write(metrics) }

// Close implements train.Sink.
func (ledgerSink) Close() error { return nil }

func (t *training) close(ctx context.Context) error {
	var errs []error
	if t.rewards != nil {
		errs = append(errs, t.rewards.close())
	}
	if t.resources != nil {
		errs = append(errs, t.resources.close(ctx))
	}
	return errors.Join(append(errs, t.envs.Close())...)
}
