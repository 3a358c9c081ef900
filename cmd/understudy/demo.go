package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"understudy/audit"
)

func demoCommand() command {
	return command{
		name: "demo", summary: "the main job, start to end: audits on the retail domain, then a policy that is trained, audited and gated",
		example: "understudy demo --once",
		setup: func(fs *flag.FlagSet) runFunc {
			var d demoFlags
			fs.BoolVar(&d.once, "once", false, "stop when the audit is done instead of serving on")
			fs.StringVar(&d.environment, "environment", "retail@1", "sandbox to audit on")
			fs.BoolVar(&d.json, "json", false, "with --once: print one JSON document of runs, figures and verdicts, and nothing else")
			fs.StringVar(&d.policy, "policy", demoTiny, "who acts in the second act: tiny, trained on the spot; none; or smollm2, a real language model, audited instead of all else (make model-smollm2)")
			fs.StringVar(&d.recipe, "recipe", demoRecipe, "recipe of the tiny policy's training")
			fs.IntVar(&d.rollouts, "rollouts", 4, "rollouts of each task: the prompt group")
			fs.IntVar(&d.canaries, "canaries", 200, "calls that the sandbox must refuse")
			return func(ctx context.Context, inv *invocation) error {
				if !slices.Contains([]string{demoTiny, demoSmolLM2, demoNone}, d.policy) {
					return usageError("--policy "+d.policy, "write tiny, smollm2 or none")
				}
				return demo(ctx, inv, d)
			}
		},
	}
}

type demoFlags struct {
	once, json  bool
	policy      string
	recipe      string
	environment string
	rollouts    int
	canaries    int
}

// The policies of the demo's second act.
const (
	demoTiny    = "tiny"
	demoSmolLM2 = "smollm2"
	demoNone    = "none"
)

// demoCheckpoint is one stage of an imagined training.
type demoCheckpoint struct {
	step   int64
	story  string
	shares []audit.Share
}

// demoCheckpoints are what a policy looks like that learns to rehearse: first it
// dreams a kinder world, later it is mostly right.
func demoCheckpoints() []demoCheckpoint {
	return []demoCheckpoint{
		{100, "dreams a kinder world: a quarter of the refusals is imagined as a success", []audit.Share{
			{Perturbation: audit.Faithful, Weight: 50},
			{Perturbation: audit.AlwaysOK, Weight: 25},
			{Perturbation: audit.WrongField, Weight: 15},
			{Perturbation: audit.SilentClaim, Weight: 5},
			{Perturbation: audit.Garbled, Weight: 5},
		}},
		{400, "is mostly right: few fields wrong, hardly a false success", []audit.Share{
			{Perturbation: audit.Faithful, Weight: 95}, {Perturbation: audit.WrongField, Weight: 4}, {Perturbation: audit.AlwaysOK, Weight: 1},
		}},
	}
}

func demo(ctx context.Context, inv *invocation, d demoFlags) (err error) {
	if d.json && !d.once {
		return usageError("--json without --once", "a document has an end: give both")
	}
	s := &story{out: inv.stdout, began: time.Now(), silent: d.json}
	if inv, err = storyteller(inv); err != nil {
		return err
	}
	s.say("starting; PostgreSQL and JetStream live in %s (the first time takes some seconds)", inv.config.DataDir)
	m := &Main{Config: inv.config, Logger: inv.log}
	if !d.json {
		m.Out = inv.stdout
	}
	if err := m.Run(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	p, err := newPipeline(m.resources, inv.config, inv.log, pipelineConfig{metrics: m.metrics, batches: slog.LevelDebug})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	s.url = m.URL()
	s.say("ledger: PostgreSQL, %s; transport: JetStream, %s; dashboard: %s", m.resources.postgresName(), m.resources.natsName(), m.URL())
	if err := d.acts(ctx, inv, m, p, s); err != nil {
		return err
	}
	if d.once {
		return s.end()
	}
	s.say("serving %s until you stop it (Ctrl-C)", m.URL())
	s.say("in another terminal: %sunderstudy report   # lists the runs; understudy help lists the commands", pathHint())
	return m.Wait(ctx)
}

// storyteller is inv with warnings alone in its log: the story says what a log at
// the level info would say.
func storyteller(inv *invocation) (*invocation, error) {
	if inv.config.LogLevel != Default().LogLevel {
		return inv, nil
	}
	quiet, teller := inv.config, *inv
	quiet.LogLevel = "warn"
	var err error
	teller.log, err = newLogger(inv.surroundings, quiet)
	return &teller, err
}

// pathHint is what to type first where the program is not on the PATH.
func pathHint() string {
	if _, err := exec.LookPath("understudy"); err == nil {
		return ""
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return "export PATH=" + filepath.Dir(self) + ":$PATH; "
}

// acts are the demo: recorded rehearsals on the full domain, then a policy that is
// trained on the spot, whose warm start runs beside the first act.
func (d demoFlags) acts(ctx context.Context, inv *invocation, m *Main, p *pipeline, s *story) error {
	if d.policy == demoSmolLM2 {
		return d.smolLM2(ctx, inv, m, s)
	}
	var policy *demoPolicy
	if d.policy == demoTiny {
		var err error
		if policy, err = newDemoPolicy(ctx, inv, m, p, s, d); err != nil {
			return err
		}
		defer policy.close()
		if policy.cached() {
			s.say("the policy of the second act was trained before and is read from %s", policy.training.flags.out)
		} else {
			s.say("in the background a small transformer begins to learn retail-mini for the second act")
		}
	}
	s.say("first act: a rehearser on %s that is no trained policy: it looks at the truth and spoils a share of its answers", d.environment)
	for _, c := range demoCheckpoints() {
		episodes, err := d.episodes(ctx, p, c)
		if err != nil {
			return err
		}
		s.say("checkpoint %d, which %s", c.step, c.story)
		if err := s.auditRun(ctx, inv, p, audit.NewRun{
			Name: runName("demo-step-"+strconv.FormatInt(c.step, 10), time.Now()), Policy: "demo", Checkpoint: c.step,
			Settings: inv.config.Effective(), Tags: []string{"demo"},
		}, episodes); err != nil {
			return err
		}
	}
	if policy == nil {
		return nil
	}
	return policy.run(ctx)
}

// episodes are rollouts of the domain's tasks and canaries, each with the
// answers that the checkpoint's rehearser gives.
func (d demoFlags) episodes(ctx context.Context, p *pipeline, c demoCheckpoint) ([]audit.Episode, error) {
	env, err := p.envs.Environment(ctx, d.environment)
	if err != nil {
		return nil, err
	}
	flags := importFlags{environment: d.environment, policyName: "demo", mode: string(audit.Open)}
	tasks, err := liveFlags{tasks: defaultTasks}.episodes(ctx, env, flags)
	if err != nil {
		return nil, err
	}
	episodes, err := liveFlags{canaries: d.canaries, seed: uint64(c.step)}.episodes(ctx, env, flags)
	if err != nil {
		return nil, err
	}
	agent, err := newRollouts(ctx, env, episodes)
	if err != nil {
		return nil, err
	}
	var open []audit.Episode
	for _, task := range tasks {
		group, err := agent.of(ctx, task, d.rollouts)
		if err != nil {
			return nil, err
		}
		open = append(open, group...)
	}
	episodes = append(episodes, open...)
	for i := range episodes {
		e := &episodes[i]
		e.Checkpoint, e.WireAPI = c.step, "recorded"
		rehearser := audit.NewDemoRehearser(env, e.Start, uint64(i)+uint64(c.step), c.shares...)
		if err := rehearser.Fill(ctx, e); err != nil {
			return nil, err
		}
	}
	believe(p.rules, agent.tools, episodes[len(episodes)-len(open):])
	return episodes, nil
}
