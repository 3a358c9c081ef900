package main

import (
	"context"
	"flag"
	"fmt"
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
func (f liveFlags) wanted(p policyFlags) bool { return p.url != "" || f.tasks > 0 || f.canaries > 0 }

// defaultLive is how many tasks and canaries a policy meets when nothing is said.
const (
	defaultTasks    = 40
	defaultCanaries = 100
)

// queue puts the actions into a run and returns its name. Rehearsals are asked
// for when each is audited.
func (f liveFlags) queue(ctx context.Context, inv *invocation, in intake) (string, error) {
	if in.flags.environment == "" {
		return "", usageError("a live audit needs an environment", "name it: --environment retail@1 (understudy sandbox list)")
	}
	if f.tasks == 0 && f.canaries == 0 {
		f.tasks, f.canaries = defaultTasks, defaultCanaries
	}
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
	return name, nil
}

func (f liveFlags) episodes(ctx context.Context, env audit.Environment, flags importFlags) ([]audit.Episode, error) {
	var episodes []audit.Episode
	if f.tasks > 0 {
		tasker, ok := env.(audit.Tasker)
		if !ok {
			return nil, usageError(flags.environment+" has no tasks of its own", "audit recorded trajectories, or canaries")
		}
		tasks, err := tasker.Tasks(ctx, f.seed, f.tasks)
		if err != nil {
			return nil, err
		}
		for _, task := range tasks {
			episodes = append(episodes, taskEpisode(task, flags))
		}
	}
	if f.canaries == 0 {
		return episodes, nil
	}
	canaries, err := audit.Canaries(ctx, env, f.seed, f.canaries)
	for i := range canaries {
		canaries[i].Policy, canaries[i].Environment, canaries[i].WireAPI = flags.policyName, flags.environment, "chat"
	}
	return append(episodes, canaries...), err
}

// taskEpisode is the episode in which somebody solves the task as its reference does.
func taskEpisode(task audit.Task, flags importFlags) audit.Episode {
	e := audit.Episode{
		ID: task.ID, PromptGroup: task.ID, Policy: flags.policyName, WireAPI: "chat", Environment: flags.environment,
		Start: audit.Start{Task: task.ID}, Mode: audit.Mode(flags.mode),
	}
	for i, call := range task.Solution {
		e.Actions = append(e.Actions, audit.Action{Step: i, Message: i, Call: call})
	}
	return e
}
