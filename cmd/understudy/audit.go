package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"understudy/audit"
)

func auditCommand() command {
	return command{
		name: "audit", args: "[FILE...]", summary: "audit recorded trajectories, a queued run, or a policy live; ends with a table",
		example: "understudy audit results.json --environment retail@1",
		setup: func(fs *flag.FlagSet) runFunc {
			a := auditFlags{}
			a.register(fs)
			a.policy.registerLocal(fs)
			a.live.register(fs)
			fs.IntVar(&a.inFlight, "in-flight", 0, "episodes audited side by side; 0 = four times the processors")
			fs.BoolVar(&a.versions, "across-versions", false, "live: audit the policy on the environment's later versions, too, and say whether it notices the change")
			return func(ctx context.Context, inv *invocation) error { return auditRun(ctx, inv, a) }
		},
	}
}

// auditFlags are the flags of audit. What is audited is what files hold, else
// what a policy rehearses live, else what the run has queued.
type auditFlags struct {
	importFlags
	policy   policyFlags
	live     liveFlags
	inFlight int
	versions bool
}

func auditRun(ctx context.Context, inv *invocation, a auditFlags) (err error) {
	if err := a.validate(); err != nil {
		return err
	}
	if err := a.live.validate(); err != nil {
		return err
	}
	rehearsing, err := a.policy.open(ctx, inv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rehearsing.close()) }()
	r, err := openResources(ctx, inv.config, inv.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	p, err := newPipeline(r, inv.config, inv.log, pipelineConfig{
		rehearser: rehearsing.rehearser, patience: rehearsing.patience, rehearsals: a.policy.k, inFlight: a.inFlight, batches: slog.LevelDebug,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if a.versions {
		return a.acrossVersions(ctx, inv, p)
	}
	run, err := a.queue(ctx, inv, p)
	if err != nil {
		return err
	}
	if err := p.drain(ctx, inv, run); err != nil {
		return err
	}
	return printRun(ctx, inv, p.ledger, run)
}

// queue puts what is to be audited into a run and returns its name.
func (a auditFlags) queue(ctx context.Context, inv *invocation, p *pipeline) (string, error) {
	in := intake{ledger: p.ledger, envs: p.envs, flags: a.importFlags}
	switch {
	case len(inv.args) > 0:
		return in.files(ctx, inv, inv.args)
	case a.live.wanted(a.policy):
		return a.live.queue(ctx, inv, in)
	case a.run != "":
		_, err := p.ledger.RunByName(ctx, a.run)
		return a.run, err
	}
	return "", usageError("audit needs something to audit",
		"name trajectory files, a queued run (--run NAME), or a policy and an environment (--policy URL --environment retail@1)")
}

// drainPoll is how often a run's progress is looked at.
const drainPoll = 100 * time.Millisecond

// drain runs the pipeline until the run has no open episode.
func (p *pipeline) drain(ctx context.Context, inv *invocation, run string) error {
	working, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- p.run(working) }()
	err := p.waitFor(ctx, inv, run, done)
	stop()
	return errors.Join(err, <-done)
}

func (p *pipeline) waitFor(ctx context.Context, inv *invocation, run string, done chan error) error {
	state, err := p.ledger.RunByName(ctx, run)
	if err != nil {
		return err
	}
	progress := inv.newProgress("audit", state.Samples)
	defer progress.end()
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	seen := 0
	for state.Open > 0 {
		select {
		case <-ctx.Done():
			return leftOff(ctx, run)
		case err := <-done:
			done <- nil
			return fmt.Errorf("the pipeline ended early: %w", err)
		case <-ticker.C:
		}
		state, err = p.ledger.RunByName(ctx, run)
		switch {
		case ctx.Err() != nil:
			return leftOff(ctx, run)
		case err != nil:
			return err
		}
		progress.add(state.Results - seen)
		seen = state.Results
	}
	if state.State == audit.RunOpen {
		err = p.ledger.CompleteRun(ctx, run)
	}
	inv.log.InfoContext(ctx, "run is complete", slog.String("run", run), slog.Int("results", state.Results), slog.Int("dead", state.Dead))
	return err
}

// leftOff says how an audit that ctx ended is gone on with.
func leftOff(ctx context.Context, run string) error {
	return fmt.Errorf("audit of run %s: %w; `understudy audit --run %s` goes on from here", run, context.Cause(ctx), audit.ShellWord(run))
}
