package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"understudy/audit"
	"understudy/audit/stat"
	"understudy/envace"
	"understudy/envace/guard"
	"understudy/envace/private"
)

// cell is one way to rehearse, measured over tasks.
type cell struct {
	mode     private.Mode
	attempts int
	tasks    int
	tokens   int           // sampled: attempts and execution
	memory   int           // tokens of memories
	external int           // calls that reached the environment
	first    time.Duration // from the task to the first token of the execution, summed
	solved   []stat.Cluster
}

// sweep measures every number of attempts in both modes on the same tasks.
func (s *stage) sweep(ctx context.Context) error {
	tasks := s.tasks[:min(len(s.tasks), s.flags.tasks)]
	var cells []cell
	for n := range 4 {
		for _, mode := range []private.Mode{private.Parallel, private.Sequential} {
			if n < 2 && mode == private.Sequential {
				continue // up to one attempt the modes are the same
			}
			c := cell{mode: mode, attempts: n}
			for i, task := range tasks {
				if err := s.measureTask(ctx, &c, task, s.flags.seed+uint64(i)); err != nil {
					return err
				}
			}
			cells = append(cells, c)
			fmt.Fprintf(s.inv.stderr, "measured %s\n", c.name())
		}
	}
	if err := printCells(s.inv, cells); err != nil || s.flags.svg == "" {
		return err
	}
	if err := os.WriteFile(s.flags.svg, frontier(cells, s.recipe.Name+", "+s.flags.arm+", seed "+strconv.FormatUint(s.flags.seed, 10)), 0o644); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	fmt.Fprintln(s.inv.stdout, "picture:", s.flags.svg)
	return nil
}

func (c *cell) name() string {
	switch c.attempts {
	case 0:
		return "none"
	case 1:
		return "1"
	}
	return fmt.Sprintf("%d %s", c.attempts, c.mode)
}

// success is the share of tasks whose checks hold after the execution.
func (c *cell) success() stat.Estimate { return stat.ClusteredWilson(c.solved, .95) }

func (c *cell) mean(sum int) float64 { return float64(sum) / float64(c.tasks) }

func (c *cell) latency() time.Duration { return c.first / time.Duration(c.tasks) }

// listener knows when the execution's first token came.
type listener struct {
	envace.Policy
	once  sync.Once
	begun time.Time
	after time.Duration
}

// Generate implements envace.Policy.
func (l *listener) Generate(ctx context.Context, r envace.Request) (envace.Output, error) {
	r.First = func() { l.once.Do(func() { l.after = time.Since(l.begun) }) }
	return l.Policy.Generate(ctx, r)
}

// measureTask rehearses and executes one task, alone, so that its latency is its own.
func (s *stage) measureTask(ctx context.Context, c *cell, task audit.Task, seed uint64) error {
	var journal guard.Volatile
	g, err := guard.New(guard.Config{Tools: s.tools, Measured: s.measure, Journal: &journal, Approve: approveAll})
	if err != nil {
		return err
	}
	l := &listener{Policy: s.player.Policy, begun: time.Now()}
	r := s.rehearser(s.player.Policy, c.mode, c.attempts)
	made, err := r.Rehearse(ctx, task, seed)
	if err != nil {
		return err
	}
	r.Rollout.Policy = l
	committed, err := r.Commit(ctx, made, guard.Execution{Guard: g, Environment: s.env, ID: task.ID}, seed)
	if err != nil {
		return fmt.Errorf("execute task %s: %w", task.ID, err)
	}
	entries, err := journal.Entries(ctx, task.ID)
	if err != nil {
		return err
	}
	c.external += len(slices.DeleteFunc(entries, func(e guard.Entry) bool { return e.Phase != guard.Decided || !e.Decision.Allowed }))
	c.tasks++
	c.first += l.after
	c.memory += made.Tokens
	for _, a := range made.Attempts {
		c.tokens += a.Tokens
	}
	c.tokens += committed.Sampled()
	solved := 0.0
	if committed.Check != nil && committed.Check.Success() {
		solved = 1
	}
	c.solved = append(c.solved, stat.Cluster{Group: task.ID, N: 1, Weight: 1, Sum: solved, SumSq: solved})
	return nil
}

func approveAll(context.Context, audit.Call, guard.Risk) (guard.Approval, error) {
	return guard.Approval{Granted: true, By: "the sweep", Reason: "a sandbox"}, nil
}

func printCells(inv *invocation, cells []cell) error {
	table := columns{left: 1}
	table.add("attempts", "solved", "tasks", "tokens", "memory", "first token", "external calls")
	for i := range cells {
		c := &cells[i]
		table.add(c.name(), bounded(c.success()), strconv.Itoa(c.tasks), fmt.Sprintf("%.1f", c.mean(c.tokens)), fmt.Sprintf("%.1f", c.mean(c.memory)),
			c.latency().Round(100*time.Microsecond).String(), fmt.Sprintf("%.2f", c.mean(c.external)))
	}
	if err := table.print(inv.stdout); err != nil {
		return err
	}
	_, err := fmt.Fprintln(inv.stdout, `
solved: in %, executed in the sandbox, with 95 % intervals (Wilson). The other columns are means a task: tokens sampled in
attempts and execution, tokens of the memory, time from the task to the first token of the execution, calls that reached
the environment. Attempts sample, the execution is greedy.`)
	return err
}
