package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"time"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/audit/ledger"
)

func demoCommand() command {
	return command{
		name: "demo", summary: "the main job, start to end: audit two checkpoints of a rehearser on the retail domain",
		example: "understudy demo --once",
		setup: func(fs *flag.FlagSet) runFunc {
			var d demoFlags
			fs.BoolVar(&d.once, "once", false, "stop when the audit is done instead of serving on")
			fs.StringVar(&d.environment, "environment", "retail@1", "sandbox to audit on")
			fs.IntVar(&d.rollouts, "rollouts", 4, "rollouts of each task: the prompt group")
			fs.IntVar(&d.canaries, "canaries", 200, "calls that the sandbox must refuse")
			return func(ctx context.Context, inv *invocation) error { return demo(ctx, inv, d) }
		},
	}
}

type demoFlags struct {
	once        bool
	environment string
	rollouts    int
	canaries    int
}

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
	began := time.Now()
	fmt.Fprintf(inv.stdout, "       starting; PostgreSQL and JetStream live in %s (the first time takes some seconds)\n", inv.config.DataDir)
	m := &Main{Config: inv.config, Logger: inv.log, Out: inv.stdout}
	if err := m.Run(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	p, err := newPipeline(m.resources, inv.config, inv.log, pipelineConfig{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	fmt.Fprintf(inv.stdout, "%4.1fs  ledger: PostgreSQL, %s; transport: JetStream, %s; service: %s\n",
		time.Since(began).Seconds(), m.resources.postgresName(), m.resources.natsName(), m.URL())
	fmt.Fprintln(inv.stdout, "       The rehearser of this demo is no trained policy: it looks at the truth and spoils a share of its answers.")
	for _, checkpoint := range demoCheckpoints() {
		if err := d.checkpoint(ctx, inv, p, checkpoint, began); err != nil {
			return err
		}
	}
	if d.once {
		return nil
	}
	fmt.Fprintf(inv.stdout, "\nserving %s until you stop it (Ctrl-C); beside it: understudy report, gate, import, verify\n", m.URL())
	return m.Wait(ctx)
}

// checkpoint audits one checkpoint as a run of its own and prints its table.
func (d demoFlags) checkpoint(ctx context.Context, inv *invocation, p *pipeline, c demoCheckpoint, began time.Time) error {
	run := runName("demo-step-"+strconv.FormatInt(c.step, 10), time.Now())
	fmt.Fprintf(inv.stdout, "\n%4.1fs  checkpoint %d, which %s\n", time.Since(began).Seconds(), c.step, c.story)
	episodes, err := d.episodes(ctx, p, c)
	if err != nil {
		return err
	}
	if _, err := p.ledger.CreateRun(ctx, audit.NewRun{
		Name: run, Policy: "demo", Checkpoint: c.step, Settings: inv.config.Effective(), Tags: []string{"demo"},
	}); err != nil {
		return err
	}
	queued, err := p.ledger.Enqueue(ctx, run, episodes)
	if err != nil {
		return err
	}
	fmt.Fprintf(inv.stdout, "%4.1fs  %d episodes queued: %d rollouts of each task, and %d canaries: calls that the sandbox must refuse\n",
		time.Since(began).Seconds(), queued, d.rollouts, d.canaries)
	if err := p.drain(ctx, inv, run); err != nil {
		return err
	}
	fmt.Fprintf(inv.stdout, "%4.1fs  every action executed, compared, stored\n\n", time.Since(began).Seconds())
	if err := printRun(ctx, inv, p.ledger, run); err != nil {
		return err
	}
	return printGate(ctx, inv, p.ledger, run)
}

// printGate decides about a run with the gate policy that everybody starts from.
func printGate(ctx context.Context, inv *invocation, l *ledger.Ledger, run string) error {
	policy, err := gate.Load(gate.Starting())
	if err != nil {
		return err
	}
	evidence, err := gate.Collect(ctx, l, policy, run, "none")
	if err != nil {
		return err
	}
	v := gate.Decide(policy, evidence, gate.Options{Now: time.Now()})
	fmt.Fprintln(inv.stdout, "gate:", v.Line)
	return nil
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
	return episodes, agent.believe(episodes[len(episodes)-len(open):])
}
