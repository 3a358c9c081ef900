package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"understudy/sandbox/mcp"
	"understudy/sandbox/mount"
)

// sandboxServeMCP offers an environment to MCP clients until it is interrupted or
// the client on stdin leaves.
func sandboxServeMCP(ctx context.Context, inv *invocation, envs *environments, args []string, f sandboxFlags) (err error) {
	env, err := envs.Environment(ctx, args[0])
	if err != nil {
		return err
	}
	offer, err := mcp.NewOffer(ctx, env, f.start())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, offer.Close()) }()
	if f.http == "" {
		err := offer.ServeStdio(ctx)
		if ctx.Err() != nil {
			return nil // it was told to stop
		}
		return err
	}
	handler, err := offer.Handler()
	if err != nil {
		return err
	}
	listener, err := listen(ctx, f.http, inv.config, inv.log)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Fprintf(inv.stdout, "%s as an MCP server: %s%s\n", args[0], scheme(inv.config), listener.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	err = errors.Join(offer.Close(), server.Close()) // sessions first: their streams keep connections open
	if serving := <-failed; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}

func sandboxSchema(_ context.Context, inv *invocation, _ *environments, _ []string, _ sandboxFlags) error {
	_, err := inv.stdout.Write(mount.Schema())
	return err
}
