package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"understudy/audit"
	"understudy/audit/ledger"
	"understudy/sandbox/mcp"
	"understudy/sandbox/mount"
	"understudy/web"
	"understudy/web/access"
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
	guard, closeLedger, err := mcpGuard(ctx, inv, f.http)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() { err = errors.Join(err, closeLedger()) }()
	server := &http.Server{
		Handler:           web.Behind(web.Config{Guard: guard, Logger: inv.log}, audit.AuditorRole, handler),
		ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
	}
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

// mcpGuard asks for the ledger's tokens, as serve does, where other machines can reach the
// address, or a proxy of the operator's passes their requests on. This machine alone needs
// neither a token nor a ledger: there is no guard.
func mcpGuard(ctx context.Context, inv *invocation, address string) (*access.Guard, func() error, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || access.IsLoopback(host) && !inv.config.BehindProxy {
		return nil, func() error { return nil }, err
	}
	r, err := openLedger(ctx, inv.config, inv.log)
	if err != nil {
		return nil, nil, err
	}
	l, err := ledger.New(r.pool, ledger.Config{})
	if err == nil {
		err = firstToken(ctx, l, address, inv.stdout)
	}
	if err != nil {
		return nil, nil, errors.Join(err, r.close(ctx))
	}
	limits := access.Limits{Requests: inv.config.RequestRate, Failures: inv.config.SignInRate, Proxied: inv.config.BehindProxy}
	return &access.Guard{Keys: l, Limits: limits}, func() error { return r.close(ctx) }, nil
}

func sandboxSchema(_ context.Context, inv *invocation, _ *environments, _ []string, _ sandboxFlags) error {
	_, err := inv.stdout.Write(mount.Schema())
	return err
}
