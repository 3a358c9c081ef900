package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"understudy/audit"
	"understudy/audit/gate"
	"understudy/audit/ledger"
)

// buyer buys samples for a run: canaries that call the tool, or tasks whose
// reference solution does. The ledger takes in what the run lacks, and keeps
// what was ordered.
type buyer struct {
	ledger *ledger.Ledger
	envs   *environments
}

var _ audit.Scheduler = buyer{}

// mostCandidates bounds what one order may make, whatever a gate asks for: each
// canary is executed once to see it refused.
const mostCandidates = 20_000

func (g gateFlags) buyMissing(ctx context.Context, inv *invocation, l *ledger.Ledger, v *gate.Verdict) (err error) {
	envs := newEnvironments(inv.config)
	defer func() { err = errors.Join(err, envs.Close()) }()
	envs.keepContracts(l, inv.log)
	queued, err := gate.Buy(ctx, buyer{l, envs}, v)
	if err != nil {
		return err
	}
	run := v.Evidence.Run.ID
	fmt.Fprintf(inv.stdout, "bought %d of %d missing calls for run %s; audit them with: understudy audit --run %s --policy URL\n",
		queued, missing(v), run, audit.ShellWord(run))
	return nil
}

// missing is how many calls the verdict lacks: more than the environment's tasks
// and canaries may have to give, or than an order that is still open lets buy.
func missing(v *gate.Verdict) int {
	calls := 0
	for _, order := range v.Needs {
		calls += order.Calls
	}
	return calls
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
		n, err := b.ledger.Fulfil(ctx, run, order, episodes)
		total += n
		if err != nil {
			return total, err
		}
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
		live.canaries = min(40*order.Calls, mostCandidates)
	} else {
		live.tasks = min(20*order.Calls, mostCandidates)
	}
	episodes, err := live.episodes(ctx, env, flags)
	for i := range episodes {
		episodes[i].Checkpoint = run.Checkpoint
	}
	return episodes, err
}

// orderSeed depends on how far the run has come, so that another order of the
// same calls meets others.
func orderSeed(run audit.Run, order audit.Order) uint64 {
	digest := sha256Of(run.Name, strconv.Itoa(run.Results), order.Tool, string(order.Mode), string(order.Figure))
	return binary.BigEndian.Uint64(digest[:])
}

func sha256Of(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}
