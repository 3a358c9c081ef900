package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"

	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/private"
)

// Runner plays tasks.
type Runner struct {
	// Rollout is how the policy plays; world, user, tools, rules and what is told are
	// the tasks'.
	Rollout  envace.Rollout
	Samples  int // of each task
	Seed     uint64
	Parallel int // rollouts side by side; 0 = 8
	// Rehearse makes the private attempts of a task; nil = none.
	Rehearse func(t Task, rollout envace.Rollout) private.Rehearser
	Progress func(r Result) // called for each result, one at a time; nil = silent
}

// Run plays what the book does not hold yet. A cancelled context ends it; what was
// played is kept.
func (r Runner) Run(ctx context.Context, tasks []Task, book *Book) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(r.Parallel, 8))
	var telling sync.Mutex
	for sample := range r.Samples { // all tasks once, then again: a run that is cut short is a fair part
		for _, task := range tasks {
			if groupCtx.Err() != nil || book.Has(task.ID, sample) {
				continue
			}
			group.Go(func() error {
				result, err := r.play(groupCtx, task, sample)
				if err == nil {
					err = book.Write(result)
				}
				if err != nil {
					return fmt.Errorf("task %s, sample %d: %w", task.ID, sample+1, err)
				}
				if r.Progress != nil {
					telling.Lock()
					defer telling.Unlock()
					r.Progress(result)
				}
				return nil
			})
		}
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// seedOf is the seed of one sample, whatever else is played.
func (r Runner) seedOf(task string, sample int, purpose string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d/%s/%d/%s", r.Seed, task, sample, purpose)
	return h.Sum64()
}

// play plays one sample: private attempts first, then one execution.
func (r Runner) play(ctx context.Context, task Task, number int) (Result, error) {
	result := Result{Task: task.ID, Sample: number}
	sample := task.Begin()
	asked := task.Task
	if sample.Opening != nil {
		opening, err := sample.Opening(ctx)
		if err != nil {
			return unknown(ctx, result, fmt.Errorf("begin the conversation: %w", err))
		}
		asked.Prompt = opening
	}
	rollout := r.rolloutOf(task)
	if r.Rehearse != nil {
		alone := rollout
		alone.User = sample.Private
		made, err := r.Rehearse(task, alone).Rehearse(ctx, asked, r.seedOf(task.ID, number, "rehearse"))
		if err != nil {
			return unknown(ctx, result, err)
		}
		for _, a := range made.Attempts {
			result.Tokens += a.Tokens
		}
		rollout.Memory, result.Memory = made.Memory, made.Tokens
	}
	rollout.Source, rollout.User = sample.Source, sample.User
	t, err := rollout.Run(ctx, asked, r.seedOf(task.ID, number, "play"))
	if ctx.Err() != nil { // a world that could not be opened any more says nothing of the sample
		return result, context.Cause(ctx)
	}
	if err != nil {
		return unknown(ctx, result, err)
	}
	result.Stop, result.Calls = t.Stop, len(t.Calls())
	result.Tokens += t.Sampled()
	if grade, ungraded := envace.Ungraded(t); ungraded {
		result.Unknown = grade.Reason
		return result, nil
	}
	verdict, err := sample.Grade(ctx, t)
	if err != nil {
		return unknown(ctx, result, fmt.Errorf("grade: %w", err))
	}
	result.Success, result.Score, result.Unknown = verdict.Success, verdict.Score, verdict.Unknown
	result.Failed, result.Tools, result.Initial = verdict.Failed, verdict.Tools, verdict.Initial
	return result, nil
}

func (r Runner) rolloutOf(task Task) envace.Rollout {
	rollout := r.Rollout
	rollout.Tools, rollout.Rules, rollout.Told = task.Tools, task.Rules, task.Told
	l, own := &rollout.Limits, task.Limits
	l.Turns, l.UserTurns = cmp.Or(own.Turns, l.Turns), cmp.Or(own.UserTurns, l.UserTurns)
	l.ParallelCalls, l.Response = cmp.Or(own.ParallelCalls, l.ParallelCalls), cmp.Or(own.Response, l.Response)
	return rollout
}

// unknown keeps a failure of the infrastructure, and a conversation that is too long for
// the model beside the policy, as a result that nobody knows; what
// asking again cannot mend, and our own faults, end the run.
func unknown(ctx context.Context, result Result, err error) (Result, error) {
	if ctx.Err() != nil {
		return result, context.Cause(ctx)
	}
	if e, ok := errors.AsType[*audit.Error](err); ok && e.Code == audit.CodeInfrastructure || errors.Is(err, envace.ErrWorld) || errors.Is(err, envace.ErrPrompt) {
		result.Unknown = err.Error()
		return result, nil
	}
	return result, err
}
