package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/audit/queue"
	"understudy/web/metric"
)

// pipeline audits queued episodes in this process: a relay moves jobs from the
// ledger to the stream, a worker audits them and commits, a sweeper sends again
// what the stream lost. Any number of processes may run one at once.
type pipeline struct {
	ledger  *ledger.Ledger
	envs    *environments
	auditor *audit.Auditor
	rules   *audit.Rules // written ones, or the defaults; marks come on top of them

	metrics   *metric.Set // nil: nobody counts
	rehearses bool        // a policy is at hand
	relay     *queue.Relay
	sweeper   *queue.Sweeper
	worker    *queue.Worker
}

// pipelineConfig is what differs between the commands that run a pipeline.
type pipelineConfig struct {
	rehearser  audit.Rehearser // nil: only rehearsals that episodes bring along
	rehearsals int             // k
	patience   time.Duration   // with one rehearsal, where it may take long; 0 = as with a server
	inFlight   int             // episodes at once; 0 = the queue's default
	metrics    *metric.Set     // nil: nobody counts
	batches    slog.Level      // of the line that each commit gets
	trace      audit.TraceFunc // nil: nobody traces
}

func newPipeline(r *resources, cfg Config, log *slog.Logger, pc pipelineConfig) (*pipeline, error) {
	p := &pipeline{envs: newEnvironments(cfg), metrics: pc.metrics, rehearses: pc.rehearser != nil}
	var err error
	if p.rules, err = loadRules(cfg); err != nil {
		return nil, err
	}
	if p.ledger, err = ledger.New(r.pool, ledger.Config{}); err != nil {
		return nil, err
	}
	p.envs.keepContracts(p.ledger, log)
	p.auditor, err = audit.New(audit.Config{
		Opener: p.envs, Rules: p.envs.follow(p.ledger, p.rules), Rehearser: pc.rehearser, Rehearsals: pc.rehearsals, RehearseTimeout: pc.patience, Secret: []byte(cfg.SamplingSecret),
	})
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(r.nats)
	if err != nil {
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	const rehearsalsOfAnEpisode = 24 // one after the other, at the most that is waited for
	qc := queue.Config{
		Timeout: pc.patience * rehearsalsOfAnEpisode, InFlight: pc.inFlight, AckWait: cfg.AckWait, Replicas: cfg.StreamReplicas,
		Grace: cfg.StopTimeout, Logger: log, BatchLevel: pc.batches, Trace: pc.trace,
	}
	if p.relay, err = queue.NewRelay(js, p.ledger, qc); err != nil {
		return nil, err
	}
	if p.sweeper, err = queue.NewSweeper(js, p.ledger, qc); err != nil {
		return nil, err
	}
	p.worker, err = queue.NewWorker(js, p.ledger, p.handle, qc)
	return p, err
}

// handle audits one episode. One that waits for a policy's rehearsals is left to
// a worker that has a policy.
func (p *pipeline) handle(ctx context.Context, episode audit.Episode) ([]audit.Pair, error) {
	if !p.rehearses && needsPolicy(&episode) {
		return nil, &audit.FaultError{Fault: audit.FaultTransient, Err: &audit.Error{
			Code: audit.CodeInfrastructure, Message: "episode " + episode.ID + " brings no rehearsal, and this worker has no policy to ask",
			Hint: "run a worker with --policy URL",
		}}
	}
	began := time.Now()
	pairs, err := p.auditor.Episode(ctx, &episode)
	p.metrics.Audited(pairs, err, time.Since(began))
	return pairs, err
}

// needsPolicy reports whether an episode holds neither a rehearsal nor a recorded
// answer: a policy is to be audited live.
func needsPolicy(e *audit.Episode) bool {
	return !slices.ContainsFunc(e.Actions, func(a audit.Action) bool { return a.Rehearsal != nil || a.Recorded != nil })
}

// run works until ctx ends, then finishes what it holds.
func (p *pipeline) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.relay.Run(ctx) })
	group.Go(func() error { return p.sweeper.Run(ctx) })
	group.Go(func() error { return p.worker.Run(ctx) })
	return group.Wait()
}

func (p *pipeline) close() error { return errors.Join(p.auditor.Close(), p.envs.Close()) }
