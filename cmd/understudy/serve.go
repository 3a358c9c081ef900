package main

import (
	"context"
	"errors"
	"flag"
)

func serveCommand() command {
	return command{
		name: "serve", summary: "run the service: API, dashboard, ledger and transport",
		example: "understudy serve --listen 0.0.0.0:8080",
		setup:   func(*flag.FlagSet) runFunc { return serve },
	}
}

func serve(ctx context.Context, inv *invocation) error {
	m := &Main{Config: inv.config, Logger: inv.log}
	if err := m.Run(ctx); err != nil {
		return err
	}
	return errors.Join(m.Wait(ctx), m.Close(ctx))
}
