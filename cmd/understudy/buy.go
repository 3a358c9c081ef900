package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/audit/ledger"
)

// buyer buys samples for a run: canaries that call the tool, or tasks whose
// reference solution does. What it makes depends on the order and on how far the
// run has come, so that an order that is repeated while it is still open makes
// the same episodes, and the ledger takes each in once.
type buyer struct {
	ledger *ledger.Ledger
	envs   *environments
}

var _ audit.Scheduler = buyer{}

func (g gateFlags) buyMissing(ctx context.Context, inv *invocation, l *ledger.Ledger, v *gate.Verdict) (err error) {
	envs := newEnvironments(inv.config)
	defer func() { err = errors.Join(err, envs.Close()) }()
	queued, err := gate.Buy(ctx, buyer{l, envs}, v)
	if err != nil {
		return err
	}
	run := v.Evidence.Run.ID
	fmt.Fprintf(inv.stdout, "bought %d calls for run %s; audit them with: understudy audit --run %s --policy URL\n", queued, run, run)
	return nil
}

// Schedule implements audit.Scheduler.
func (b buyer) Schedule(ctx context.Context, run string, orders []audit.Order) (int, error) {
	state, err := b.ledger.RunByName(ctx, run)
	if err != nil {
		return 0, err
	}
	total := 0
	for _, order := range orders {
		episodes, err := b.episodes(ctx, state, order)
		if err != nil {
			return total, err
		}
		n, err := b.ledger.Enqueue(ctx, run, episodes)
		if err != nil {
			return total, err
		}
		total += n // each episode calls the tool once at least
	}
	return total, nil
}

func (b buyer) episodes(ctx context.Context, run audit.Run, order audit.Order) ([]audit.Episode, error) {
	ref := order.Environment
	if order.Version != "" {
		ref += "@" + order.Version
	}
	env, err := b.envs.Environment(ctx, ref)
	if err != nil {
		return nil, err
	}
	flags := importFlags{environment: ref, policyName: run.Policy, mode: string(order.Mode)}
	live := liveFlags{seed: orderSeed(run, order)}
	// Far more than asked for, because most call other tools.
	if order.Mode == audit.Canary || order.Figure == audit.FigureFSR {
		flags.mode = string(audit.Canary)
		live.canaries = 40 * order.Calls
	} else {
		live.tasks = 20 * order.Calls
	}
	all, err := live.episodes(ctx, env, flags)
	if err != nil {
		return nil, err
	}
	var chosen []audit.Episode
	for _, e := range all {
		if len(chosen) < order.Calls && callsTool(e, order.Tool) {
			e.Checkpoint = run.Checkpoint
			chosen = append(chosen, e)
		}
	}
	return chosen, nil
}

// callsTool reports whether the episode audits a call of the tool.
func callsTool(e audit.Episode, tool string) bool {
	for _, a := range e.Actions {
		if a.Call.Tool == tool && !a.Replay {
			return true
		}
	}
	return false
}

func orderSeed(run audit.Run, order audit.Order) uint64 {
	digest := sha256Of(run.Name, fmt.Sprint(run.Results), order.Tool, string(order.Mode), string(order.Figure))
	return binary.BigEndian.Uint64(digest[:])
}

func sha256Of(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}
