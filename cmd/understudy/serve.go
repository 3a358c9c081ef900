package main

import (
	"context"
	"errors"
	"flag"

	"golang.org/x/sync/errgroup"
)

func serveCommand() command {
	return command{
		name: "serve", summary: "run the service: API, dashboard, ledger and transport; with --model, a model's API, too",
		example: "understudy serve --listen 0.0.0.0:8443 --tls-cert tls.crt --tls-key tls.key",
		setup: func(fs *flag.FlagSet) runFunc {
			var p policyFlags
			p.registerLocal(fs)
			work := fs.Bool("work", true, "audit queued episodes in this process, too")
			return func(ctx context.Context, inv *invocation) error { return serve(ctx, inv, p, *work) }
		},
	}
}

// serve runs the service and, unless told otherwise, a worker beside it.
func serve(ctx context.Context, inv *invocation, pf policyFlags, work bool) (err error) {
	rehearsing, err := pf.open(ctx, inv)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rehearsing.close()) }()
	m := &Main{Config: inv.config, Logger: inv.log, Out: inv.stdout, Model: rehearsing.handler}
	if err := m.Run(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close(ctx)) }()
	if !work {
		return m.Wait(ctx)
	}
	p, err := newPipeline(m.resources, inv.config, inv.log, pipelineConfig{rehearser: rehearsing.rehearser, patience: rehearsing.patience, rehearsals: pf.k, metrics: m.metrics, trace: m.tracer.Func()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.run(ctx) })
	group.Go(func() error { return m.Wait(ctx) })
	return group.Wait()
}
