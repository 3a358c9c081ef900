package sandbox

import (
	"context"
	"fmt"
	"strings"

	"understudy/audit"
)

// mostRuns bounds how many tasks are run twice: enough to see what varies, and
// cheap on a server that takes a process for each.
const mostRuns = 5

// secondRun makes the calls of some tasks in two sessions that start alike, and
// learns where the answers differ: the environment's noise.
func (c *contract) secondRun(ctx context.Context) (string, error) {
	rules, err := audit.NewRules(audit.RulesSpec{}, nil, nil)
	if err != nil {
		return "", err
	}
	learner := audit.NewNoiseLearner(rules)
	calls := 0
	for _, t := range c.tasks[:min(len(c.tasks), mostRuns)] {
		pairs, err := c.twice(ctx, t)
		if err != nil {
			return "", err
		}
		learner.Observe(pairs)
		calls += len(pairs)
	}
	if calls == 0 {
		return "", notApplicable("no task has a solution to run")
	}
	var paths []string
	for _, p := range learner.Freeze().Paths {
		c.noise = append(c.noise, p)
		paths = append(paths, p.Tool+" "+p.Pattern)
	}
	switch {
	case len(paths) == 0:
		return fmt.Sprintf("%d calls, no path of an answer differs", calls), nil
	case c.env.Info().Deterministic:
		return "", fmt.Errorf("declared deterministic, and answers differ at %s", strings.Join(paths, ", "))
	}
	return fmt.Sprintf("%d calls; noise at %d paths", calls, len(paths)), nil
}

// twice runs a task's solution in two sessions. Statuses must agree: an outcome is never noise.
func (c *contract) twice(ctx context.Context, t audit.Task) ([]audit.Pair, error) {
	start := audit.Start{Task: t.ID, Seed: 7}
	one, err := c.env.Open(ctx, start)
	defer closing(one)
	if err != nil {
		return nil, err
	}
	two, err := c.env.Open(ctx, start)
	defer closing(two)
	if err != nil {
		return nil, err
	}
	var pairs []audit.Pair
	for _, call := range t.Solution {
		first, err := one.Call(ctx, call)
		if err != nil {
			return nil, err
		}
		second, err := two.Call(ctx, call)
		if err != nil {
			return nil, err
		}
		if first.Status != second.Status {
			return nil, fmt.Errorf("%s of task %s is %s in one run and %s in another that starts alike", call.Tool, t.ID, first.Status, second.Status)
		}
		pairs = append(pairs, audit.Pair{Action: audit.Action{Call: call}, Observation: &first, Twin: &second})
	}
	return pairs, nil
}
