// Package private is rehearsal at test time (facts/paper.md, method): N attempts at a
// task in the world that the policy itself plays, each assessed with a suggestion
// for its revision, all of it compressed into a memory under a token cap, then one
// committed execution in a real environment.
//
//	parallel    τ¹ … τᴺ independent, same prompt           ┐
//	sequential  τⁿ reads the memory of τ¹ … τⁿ⁻¹           ├─► memory ─► ACT ─► guard ─► environment
//	            attempt: Rehearsing world, nothing else    ┘            one execution
//
// The attempts cannot reach an environment: they have none. What the paper leaves
// open is decided here: how the memory is compressed (memory.go), that attempts
// sample and the commit is as greedy as its rollout says, and that the user of an
// attempt is the rollout's.
package private

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"understudy/audit"
	"understudy/envace"
	"understudy/envace/guard"
)

// Mode says what attempts know of each other.
type Mode string

// The modes.
const (
	Parallel   Mode = "parallel"   // nothing
	Sequential Mode = "sequential" // each reads the memory of those before it
)

// Assessment is what is held of an attempt.
type Assessment struct {
	Success  bool    `json:"success"`
	Score    float64 `json:"score"`   // in [0,1]
	Unknown  bool    `json:"unknown"` // nobody could say
	Text     string  `json:"assessment"`
	Revision string  `json:"revision"` // what to do differently; "" = nothing
}

// AssessFunc assesses an attempt by its transcript alone.
type AssessFunc func(ctx context.Context, t *envace.Trajectory) (Assessment, error)

// Rehearser makes private rehearsals and commits what comes of them.
type Rehearser struct {
	Rollout  envace.Rollout    // its source is not used
	World    envace.Rehearsing // where the attempts happen: the policy's REHEARSE role
	Assess   AssessFunc
	Attempts int
	Mode     Mode
	Memory   Memory
}

// Attempt is one rehearsed trajectory.
type Attempt struct {
	Trajectory *envace.Trajectory
	Assessment Assessment
	Tokens     int // sampled, in both roles
	Wall       time.Duration
}

// Rehearsal is what a private rehearsal leaves.
type Rehearsal struct {
	Task     audit.Task
	Attempts []Attempt
	Memory   string
	Tokens   int // of the memory
}

// Trajectories are those of the attempts.
func (r *Rehearsal) Trajectories() []*envace.Trajectory {
	out := make([]*envace.Trajectory, len(r.Attempts))
	for i, a := range r.Attempts {
		out[i] = a.Trajectory
	}
	return out
}

// Rehearse makes the attempts. The seed decides every draw; attempt n draws from a
// seed of its own.
func (r Rehearser) Rehearse(ctx context.Context, task audit.Task, seed uint64) (*Rehearsal, error) {
	made := &Rehearsal{Task: task, Attempts: make([]Attempt, r.Attempts)}
	attempts := r.oneByOne
	if r.Mode == Parallel {
		attempts = r.sideBySide
	}
	err := attempts(ctx, made, seed)
	if err != nil {
		return nil, err
	}
	made.Memory, made.Tokens, err = r.Memory.compress(made.Attempts)
	return made, err
}

func (r Rehearser) sideBySide(ctx context.Context, made *Rehearsal, seed uint64) error {
	group, ctx := errgroup.WithContext(ctx)
	for n := range made.Attempts {
		group.Go(func() error { return r.attempt(ctx, made, n, "", seed) })
	}
	return group.Wait()
}

func (r Rehearser) oneByOne(ctx context.Context, made *Rehearsal, seed uint64) error {
	for n := range made.Attempts {
		memory, _, err := r.Memory.compress(made.Attempts[:n])
		if err != nil {
			return err
		}
		if err := r.attempt(ctx, made, n, memory, seed); err != nil {
			return err
		}
	}
	return nil
}

// seedOf spreads one seed over the attempts (splitmix64).
func seedOf(seed uint64, n int) uint64 {
	z := seed + uint64(n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// attempt makes attempt n, read with a memory.
func (r Rehearser) attempt(ctx context.Context, made *Rehearsal, n int, memory string, seed uint64) error {
	started := time.Now()
	rollout := r.Rollout
	rollout.Source, rollout.Memory, rollout.Greedy = r.World, memory, false
	t, err := rollout.Run(ctx, made.Task, seedOf(seed, n))
	if err != nil {
		return fmt.Errorf("attempt %d at task %s: %w", n+1, made.Task.ID, err)
	}
	a := Attempt{Trajectory: t, Tokens: t.Sampled(), Wall: time.Since(started)}
	if a.Assessment, err = r.Assess(ctx, t); err != nil {
		return fmt.Errorf("attempt %d at task %s: %w", n+1, made.Task.ID, err)
	}
	made.Attempts[n] = a
	return nil
}

// Commit executes the task once, under the guard, with the rehearsal's memory. The
// execution's id makes it once: one that is done is an *audit.Error with
// CodeConflict, one that was cut short goes on from its journal without making a
// write again.
func (r Rehearser) Commit(ctx context.Context, made *Rehearsal, execution guard.Execution, seed uint64) (*envace.Trajectory, error) {
	if execution.ID == "" {
		return nil, &audit.Error{Code: audit.CodeInvalid, Message: "a committed execution without an id", Hint: "give one that is the same when it is tried again"}
	}
	if execution.Evidence == nil {
		execution.Evidence, execution.Rules = guard.EvidenceOf(r.Rollout.Rules, made.Trajectories()...), r.Rollout.Rules.Written()
	}
	rollout := r.Rollout
	rollout.Source, rollout.Memory = execution, made.Memory
	t, err := rollout.Run(ctx, made.Task, seed)
	if err != nil || t.Stop.Rewardless() {
		return t, errors.Join(err, stopped(t))
	}
	return t, execution.Finish(ctx, string(t.Stop))
}

// stopped is why an execution ended before its time: it can be gone on with.
func stopped(t *envace.Trajectory) error {
	if t == nil {
		return nil
	}
	return t.Err
}
