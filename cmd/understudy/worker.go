package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
)

func workerCommand() command {
	return command{
		name: "worker", summary: "audit queued episodes until stopped; run as many as you like, anywhere",
		example: "understudy worker --database-url postgres://auditor@db.example/ledger --nats-url nats://queue.example:4222",
		setup: func(fs *flag.FlagSet) runFunc {
			var p policyFlags
			p.registerLocal(fs)
			inFlight := fs.Int("in-flight", 0, "episodes audited side by side; 0 = four times the processors")
			observe := fs.String("metrics", "", "address of /metrics, /healthz and /readyz of this worker, such as 127.0.0.1:9090; by default there are none")
			return func(ctx context.Context, inv *invocation) error { return work(ctx, inv, p, *inFlight, *observe) }
		},
	}
}

func work(ctx context.Context, inv *invocation, pf policyFlags, inFlight int, observe string) (err error) {
	rehearsing, err := pf.open(ctx, inv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rehearsing.close()) }()
	r, err := openResources(ctx, inv.config, inv.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close(ctx)) }()
	tracer, err := startTracing(ctx, inv.config, inv.log)
	if err != nil {
		return err
	}
	defer tracer.Close(context.WithoutCancel(ctx))
	o, err := startObservation(ctx, inv, observe, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	p, err := newPipeline(r, inv.config, inv.log, pipelineConfig{
		rehearser: rehearsing.rehearser, patience: rehearsing.patience, rehearsals: pf.k, inFlight: inFlight, metrics: o.metrics, trace: tracer.Func(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	inv.log.InfoContext(ctx, "working", slog.Bool("rehearses", rehearsing.rehearser != nil))
	return p.run(ctx)
}
