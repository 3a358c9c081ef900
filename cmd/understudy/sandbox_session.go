package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"understudy/audit"
)

// open begins a fresh session, in a task's state if one is named.
func (s *shell) open(ctx context.Context, task string) error {
	session, err := s.env.Open(ctx, audit.Start{Task: task, Seed: s.seed})
	if err != nil {
		return err
	}
	if err := s.close(); err != nil {
		return err
	}
	s.session, s.task, s.undo, s.parents = session, task, nil, nil
	return nil
}

// close ends the session and those that it was forked from.
func (s *shell) close() error {
	var errs []error
	if s.session != nil {
		errs = append(errs, s.session.Close())
	}
	for _, p := range s.parents {
		errs = append(errs, p.session.Close())
	}
	return errors.Join(errs...)
}

func (s *shell) state(ctx context.Context, pointer string) error {
	stater, ok := s.session.(audit.Stater)
	if !ok {
		return lacks(s.env, audit.CanState)
	}
	text, err := stater.State(ctx, pointer)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, indented(text))
	return nil
}

func (s *shell) undoCall(ctx context.Context, _ string) error {
	snapshots, ok := s.session.(audit.Snapshotter)
	if !ok || !slices.Contains(s.env.Info().Capabilities, audit.CanSnapshot) {
		return lacks(s.env, audit.CanSnapshot)
	}
	if len(s.undo) == 0 {
		return usageError("there is no call to take back", "")
	}
	last := s.undo[len(s.undo)-1]
	if err := snapshots.Restore(ctx, last); err != nil {
		return err
	}
	snapshots.Drop(last)
	s.undo = s.undo[:len(s.undo)-1]
	fmt.Fprintf(s.out, "taken back; %d calls left\n", len(s.undo))
	return nil
}

func (s *shell) fork(ctx context.Context, _ string) error {
	forker, ok := s.session.(audit.Forker)
	if !ok {
		return lacks(s.env, audit.CanFork)
	}
	fork, err := forker.Fork(ctx)
	if err != nil {
		return err
	}
	s.parents = append(s.parents, parent{s.session, s.undo})
	s.session, s.undo = fork, nil
	fmt.Fprintf(s.out, "in fork %d\n", len(s.parents))
	return nil
}

func (s *shell) back(context.Context, string) error {
	if len(s.parents) == 0 {
		return usageError("this is no fork", "fork makes one")
	}
	err := s.session.Close()
	p := s.parents[len(s.parents)-1]
	s.parents = s.parents[:len(s.parents)-1]
	s.session, s.undo = p.session, p.undo
	fmt.Fprintln(s.out, "back where the fork began")
	return err
}

func (s *shell) tasks(ctx context.Context, _ string) error {
	tasks, err := tasksOf(ctx, s.env)
	if err != nil {
		return err
	}
	return printTasks(s.out, tasks)
}

func (s *shell) begin(ctx context.Context, id string) error {
	tasks, err := tasksOf(ctx, s.env)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if t.ID == id {
			if err := s.open(ctx, id); err != nil {
				return err
			}
			fmt.Fprintln(s.out, t.Prompt)
			return nil
		}
	}
	return &audit.Error{Code: audit.CodeNotFound, Message: fmt.Sprintf("no task %q", id), Hint: "tasks lists them"}
}

func (s *shell) check(ctx context.Context, _ string) error {
	checker, ok := s.session.(audit.Checker)
	if !ok {
		return lacks(s.env, audit.CanCheck)
	}
	if s.task == "" {
		return usageError("no task was begun", "task ID begins one")
	}
	result, err := checker.Check(ctx, s.task)
	if err != nil {
		return err
	}
	verdict := s.paint.red("not done")
	if result.Success() {
		verdict = s.paint.green("done")
	}
	fmt.Fprintf(s.out, "%s: %d of %d checks pass (%d did before the first call)\n", verdict, result.Passed, result.Checks, result.Initial)
	for _, failed := range result.Failed {
		fmt.Fprintln(s.out, "  fails: "+failed)
	}
	return nil
}

func (s *shell) policy(context.Context, string) error {
	fmt.Fprintln(s.out, strings.TrimSpace(s.env.Info().Policy))
	return nil
}

// lacks says which ability an environment would need.
func lacks(env audit.Environment, c audit.Capability) error {
	return usageError(fmt.Sprintf("%s has no %s", env.Info().Name, c), "its server does not offer it")
}
