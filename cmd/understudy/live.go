package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"understudy/audit"
)

// liveFlags say which actions a policy rehearses when no trajectory holds any:
// the reference solutions of an environment's tasks, or canaries.
type liveFlags struct {
	tasks    int
	canaries int
	seed     uint64
}

func (f *liveFlags) register(fs *flag.FlagSet) {
	fs.IntVar(&f.tasks, "tasks", 0, "live: audit the reference actions of this many tasks of the environment")
	fs.IntVar(&f.canaries, "canaries", 0, "live: audit this many calls that the sandbox must refuse")
	fs.Uint64Var(&f.seed, "seed", 0, "live: of tasks and canaries; keep it from whoever trains the policy")
}

// wanted reports whether a policy is to be audited live.
func (f liveFlags) wanted(p policyFlags) bool { return p.given() || f.tasks > 0 || f.canaries > 0 }

// validate refuses what no audit could be made of.
func (f liveFlags) validate() error {
	if f.tasks < 0 || f.canaries < 0 {
		return usageError(fmt.Sprintf("--tasks %d, --canaries %d: neither may be negative", f.tasks, f.canaries), "without either, a policy meets "+
			strconv.Itoa(defaultTasks)+" tasks and "+strconv.Itoa(defaultCanaries)+" canaries")
	}
	return nil
}

// defaultLive is how many tasks and canaries a policy meets when nothing is said.
const (
	defaultTasks    = 40
	defaultCanaries = 100
)

func (f liveFlags) withDefaults() liveFlags {
	if f.tasks == 0 && f.canaries == 0 {
		f.tasks, f.canaries = defaultTasks, defaultCanaries
	}
	return f
}

// queue puts the actions into a run and returns its name. Rehearsals are asked
// for when each is audited.
func (f liveFlags) queue(ctx context.Context, inv *invocation, in intake) (string, error) {
	if in.flags.environment == "" {
		return "", usageError("a live audit needs an environment", "name it: --environment retail@1 (understudy sandbox list)")
	}
	f = f.withDefaults()
	env, err := in.envs.Environment(ctx, in.flags.environment)
	if err != nil {
		return "", err
	}
	episodes, err := f.episodes(ctx, env, in.flags)
	if err != nil {
		return "", err
	}
	name := in.flags.run
	if name == "" {
		name = runName(strings.NewReplacer("@", "-", ":", "-").Replace(in.flags.environment), time.Now())
	}
	if err := in.ensureRun(ctx, inv, name); err != nil {
		return "", err
	}
	queued, err := in.ledger.Enqueue(ctx, name, episodes)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(inv.stdout, "queued %d episodes on %s as run %s\n", queued, in.flags.environment, name)
	if known := len(episodes) - queued; known > 0 {
		fmt.Fprintf(inv.stdout, "%d episodes were in run %s already\n", known, name)
	}
	return name, nil
}

func (f liveFlags) episodes(ctx context.Context, env audit.Environment, flags importFlags) ([]audit.Episode, error) {
	var episodes []audit.Episode
	if f.tasks > 0 {
		tasks, err := audit.TaskEpisodes(ctx, env, f.seed, f.tasks)
		if err != nil {
			return nil, err
		}
		for i := range tasks {
			tasks[i].Mode = audit.Mode(flags.mode)
		}
		episodes = append(episodes, tasks...)
	}
	if f.canaries > 0 {
		canaries, err := audit.Canaries(ctx, env, f.seed, f.canaries)
		if err != nil {
			return nil, err
		}
		episodes = append(episodes, canaries...)
	}
	for i := range episodes {
		episodes[i].Policy, episodes[i].Environment, episodes[i].WireAPI = flags.policyName, flags.environment, "chat"
	}
	return episodes, nil
}
