package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/train"
	"understudy/gpu"
)

// demoRecipe trains the policy of the demo.
const demoRecipe = "demo"

// The policy of the demo is trained with one arm and seed.
const (
	demoArm  = train.ArmCalibrated
	demoSeed = 1
)

// demoPolicy is the second act: a policy that is trained on the spot, audited
// before and after calibrated steps. What was trained is kept in the data folder.
type demoPolicy struct {
	story    *story
	inv      *invocation
	main     *Main
	training training
	warm     chan error         // of the warm start; closed when it has ended
	stop     context.CancelFunc // ends the warm start
	devices  devices
	rollouts int
	canaries int
}

// newDemoPolicy begins the warm start beside whatever else happens.
func newDemoPolicy(ctx context.Context, inv *invocation, m *Main, p *pipeline, s *story, d demoFlags) (*demoPolicy, error) {
	recipe, err := train.ReadRecipe(d.recipe)
	if err != nil {
		return nil, err
	}
	quiet := *inv
	quiet.log = slog.New(slog.DiscardHandler)
	t := &demoPolicy{
		story: s, inv: inv, main: m, warm: make(chan error, 1), rollouts: d.rollouts, canaries: d.canaries,
		training: training{
			recipe: recipe, inv: &quiet, envs: p.envs, resources: m.resources, ledger: p.ledger, rewards: m.rewards,
			flags: trainFlags{out: filepath.Join(inv.config.DataDir, "demo-policy"), recipe: d.recipe},
		},
	}
	ctx, t.stop = context.WithCancel(ctx)
	go func() {
		defer close(t.warm)
		t.warm <- t.warmStart(ctx)
	}()
	return t, nil
}

// warmStart prepares the tasks and distils the sandbox's answers into a random model.
func (t *demoPolicy) warmStart(ctx context.Context) (err error) {
	if t.training.common, err = t.training.prepare(ctx); err != nil {
		return err
	}
	c := t.config(train.ArmBase)
	c.Progress = func(line string) {
		if strings.HasSuffix(strings.SplitN(line, ":", 2)[0], "00") { // every second look is enough to read
			t.story.say("(for the second act) %s", line)
		}
	}
	device, err := t.devices.next(gpu.Exact)
	if err != nil {
		return err
	}
	return train.Warm(ctx, c, device, filepath.Join(t.training.flags.out, fmt.Sprintf("warm-s%d", demoSeed)))
}

func (t *demoPolicy) config(arm train.Arm) train.Config {
	c := t.training.common
	c.Arm, c.Seed = arm, demoSeed
	return c
}

func (t *demoPolicy) runtime() train.Runtime {
	return train.Runtime{Out: t.training.flags.out, Device: t.devices.next}
}

// run waits for the warm start, audits it, trains, and audits again.
func (t *demoPolicy) run(ctx context.Context) error {
	t.story.say("second act: a policy of our own, a small transformer that acts and rehearses on retail-mini; first it copies the sandbox's answers")
	if err := <-t.warm; err != nil {
		return err
	}
	if err := t.audit(ctx, train.ArmBase); err != nil {
		return err
	}
	steps := t.training.recipe.Steps
	t.story.say("%d steps of EnvACE with calibration: each step's rehearsals are audited, their fidelity is paid, false successes cost", steps)
	c := t.config(demoArm)
	c.Progress = t.progress(steps)
	if err := t.training.runAs(ctx, c, t.runtime()); err != nil {
		return err
	}
	return t.audit(ctx, demoArm)
}

// progress shows a step now and then.
func (t *demoPolicy) progress(steps int) func(string) {
	every := max(steps/8, 1)
	return func(line string) {
		var step, of int
		if _, rest, ok := strings.Cut(line, "  step "); ok {
			if n, _ := fmt.Sscanf(rest, "%d/%d", &step, &of); n == 2 && step%every == 0 {
				t.story.say("step %s", rest)
			}
		}
	}
}

// audit has workers ask the arm's policy and the sandbox for every action, as one run.
func (t *demoPolicy) audit(ctx context.Context, arm train.Arm) (err error) {
	player, err := train.OpenPlayer(t.config(arm), t.runtime())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, player.Close()) }()
	p, err := newPipeline(t.main.resources, t.inv.config, t.inv.log, pipelineConfig{
		rehearser: envace.Rehearser{
			Policy: player.Policy, Read: t.training.common.Format.ReadRehearsal, Max: t.training.recipe.Rollout.ResponseTokens, Greedy: true,
		}, metrics: t.main.metrics, batches: slog.LevelDebug,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	episodes, err := t.episodes(ctx, player)
	if err != nil {
		return err
	}
	run := audit.NewRun{
		Name: runName("demo-policy-step-"+strconv.Itoa(player.Step), time.Now()), Policy: "demo-policy", Checkpoint: int64(player.Step),
		Settings: t.inv.config.Effective(), Tags: []string{"demo"},
	}
	return t.story.auditRun(ctx, t.inv, p, run, episodes)
}

// episodes are rollouts of held-out tasks that the policy acts out in its own
// imagination, and canaries, which it rehearses when it is asked.
func (t *demoPolicy) episodes(ctx context.Context, player *train.Player) ([]audit.Episode, error) {
	c := t.training.common
	flags := importFlags{environment: t.training.recipe.Environment, policyName: "demo-policy"}
	episodes, err := liveFlags{canaries: t.canaries, seed: c.Recipe.Data.HeldoutSeed}.episodes(ctx, c.Environment, flags)
	if err != nil {
		return nil, err
	}
	canaries := len(episodes)
	for i := range episodes {
		episodes[i].Checkpoint = int64(player.Step) // the same call of another checkpoint is another audit
	}
	trajectories, err := player.Imagine(ctx, c, c.Test[:min(len(c.Test), defaultTasks)], t.rollouts)
	if err != nil {
		return nil, err
	}
	for i, trajectory := range trajectories {
		e := audit.Episode{
			ID: fmt.Sprintf("%s/%d", trajectory.Task.ID, i%t.rollouts), PromptGroup: trajectory.Task.ID, Policy: "demo-policy", Checkpoint: int64(player.Step),
			WireAPI: "engine", Environment: flags.environment, Start: audit.Start{Task: trajectory.Task.ID}, Mode: audit.Open,
		}
		for j, answer := range trajectory.Calls() {
			rehearsal := answer.Rehearsal.Rehearsal
			e.Actions = append(e.Actions, audit.Action{Step: j, Message: j, Call: answer.Call, Rehearsal: &rehearsal})
		}
		if len(e.Actions) > 0 {
			episodes = append(episodes, e)
		}
	}
	tools, err := c.Environment.Tools(ctx)
	if err != nil {
		return nil, err
	}
	believe(c.Rules, tools, episodes[canaries:])
	return episodes, nil
}

// close ends what trains and plays. The warm start, which an error elsewhere may leave
// under way, is waited for: it works on the devices.
func (t *demoPolicy) close() {
	t.stop()
	for range t.warm { // until it is closed
	}
	t.devices.close()
}

// cached says whether the policy was trained by an earlier demo.
func (t *demoPolicy) cached() bool {
	_, err := os.Stat(train.Folder(t.training.flags.out, demoArm, demoSeed))
	return err == nil
}
