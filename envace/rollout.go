package envace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"understudy/audit"
)

// Stop says why a rollout ended. Every end has a reason of its own.
type Stop string

// The closed list of reasons.
const (
	StopDone       Stop = "done"        // ACT replied and the user has nothing more to say
	StopTurns      Stop = "turns"       // Limits.Turns ACT outputs
	StopUserTurns  Stop = "user_turns"  // Limits.UserTurns of the user
	StopPrompt     Stop = "prompt"      // the next prompt is over the context
	StopTruncated  Stop = "truncated"   // an ACT output was cut off at its token limit
	StopMalformed  Stop = "malformed"   // an ACT output is neither calls nor reply
	StopWorld      Stop = "world"       // the world did not answer: no reward
	StopUser       Stop = "user"        // the user's side failed: no reward
	StopErrorReply Stop = "error_reply" // ErrorTerminate met a rehearsed error
)

// Rewardless says that a rollout that ended so has no reward, which is not 0.
func (s Stop) Rewardless() bool { return s == StopWorld || s == StopUser }

// ErrorPolicy says what a domain error does to a rollout.
type ErrorPolicy string

// The error policies.
const (
	ErrorContinue  ErrorPolicy = "continue"  // an error is an ordinary answer
	ErrorTerminate ErrorPolicy = "terminate" // the published code's: a rehearsed error ends the rollout with reward 0
)

// Limits bound a rollout. Zero values mean the paper's.
type Limits struct {
	Turns         int // ACT outputs; default 30
	UserTurns     int // of the user, the first included; default 30
	ParallelCalls int // calls of one ACT output that are answered; default 8
	Response      int // tokens of an output; default 8000
}

// WithDefaults fills in the paper's limits (facts/paper.md, setting).
func (l Limits) WithDefaults() Limits {
	or := func(value *int, fallback int) {
		if *value == 0 {
			*value = fallback
		}
	}
	or(&l.Turns, 30)
	or(&l.UserTurns, 30)
	or(&l.ParallelCalls, 8)
	or(&l.Response, 8000)
	return l
}

// User plays the user after the first prompt: scripted, templated or a model.
// An empty text ends the conversation.
type User interface {
	Next(ctx context.Context, t *Transcript, seed uint64) (string, error)
}

// Silent is a user who has said everything in the first prompt.
type Silent struct{}

// Next implements User.
func (Silent) Next(context.Context, *Transcript, uint64) (string, error) { return "", nil }

// Scripted is a user whose turns are written down, whatever the agent says.
type Scripted []string

// Next implements User.
func (s Scripted) Next(_ context.Context, t *Transcript, _ uint64) (string, error) {
	said := 0
	for _, item := range t.Items {
		if item.User != "" {
			said++
		}
	}
	if said >= len(s) {
		return "", nil
	}
	return s[said], nil
}

// Rollout is how rollouts are run. doc.go draws its states.
type Rollout struct {
	Policy  Policy
	Source  Source
	User    User // nil = Silent
	ReadAct func(o Output) Act
	Limits  Limits
	Errors  ErrorPolicy // empty = ErrorContinue
	Greedy  bool
	// Told and Tools are what the agent is told of the environment.
	Told   string
	Memory string // of a private rehearsal, for ACT
	Tools  []audit.Tool
	Rules  *audit.Rules // by which answers are read
}

// Trajectory is a finished rollout.
type Trajectory struct {
	Transcript
	Stop Stop
	Err  error // of StopWorld and StopUser
	// Dropped is how many calls were over Limits.ParallelCalls.
	Dropped int
	// Check is the task's terminal checks, where the world has them.
	Check *audit.CheckResult
}

// Calls are the calls that were made, with their answers, in order; a dropped one was
// not made.
func (t *Trajectory) Calls() []*Answer {
	var calls []*Answer
	for i := range t.Items {
		if answer := t.Items[i].Answer; answer != nil && !answer.Dropped {
			calls = append(calls, answer)
		}
	}
	return calls
}

// Outputs are what the policy sampled, in order, of both roles.
func (t *Trajectory) Outputs() []*Output {
	var outputs []*Output
	for i := range t.Items {
		switch item := &t.Items[i]; {
		case item.Act != nil:
			outputs = append(outputs, &item.Act.Output)
		case item.Answer != nil && item.Answer.Rehearsal != nil:
			outputs = append(outputs, &item.Answer.Rehearsal.Output)
		}
	}
	return outputs
}

// Sampled is how many tokens the policy sampled, in both roles.
func (t *Trajectory) Sampled() int {
	n := 0
	for _, o := range t.Outputs() {
		n += o.Sampled()
	}
	return n
}

// Run rolls a task out. The seed decides every draw. The error is for a cancelled
// context and for faults of the policy's server; whatever the world does ends the
// rollout with a reason.
func (r Rollout) Run(ctx context.Context, task audit.Task, seed uint64) (trajectory *Trajectory, err error) {
	limits := r.Limits.WithDefaults()
	t := &Trajectory{Transcript: Transcript{Task: task, Policy: r.Told, Memory: r.Memory, Tools: r.Tools}}
	world, err := r.Source.Open(ctx, task)
	if ctx.Err() != nil && err != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, ErrWorld) {
		t.Stop, t.Err = StopWorld, err
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.check(ctx, t, world, err), world.Close()) }()
	seeds := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // reproducible draws
	userTurns := 1
	for turn := 0; ; turn++ {
		if turn == limits.Turns {
			t.Stop = StopTurns
			return t, nil
		}
		act, err := r.act(ctx, t, seeds.Uint64(), limits)
		if err != nil || t.Stop != "" {
			return t, err
		}
		if len(act.Calls) > 0 {
			if err := r.answer(ctx, t, world, act.Calls, seeds, limits); err != nil || t.Stop != "" {
				return t, err
			}
			continue
		}
		text, err := r.user().Next(ctx, &t.Transcript, seeds.Uint64())
		switch {
		case ctx.Err() != nil:
			return t, context.Cause(ctx)
		case err != nil:
			t.Stop, t.Err = StopUser, err
		case text == "":
			t.Stop = StopDone
		case userTurns == limits.UserTurns:
			t.Stop = StopUserTurns
		}
		if t.Stop != "" {
			return t, nil
		}
		userTurns++
		t.Items = append(t.Items, Item{User: text})
	}
}

// check keeps the terminal checks of a world that has them.
func (Rollout) check(ctx context.Context, t *Trajectory, world World, failed error) error {
	if failed != nil || t.Stop.Rewardless() {
		return nil //nolint:nilerr // failed is reported by the caller
	}
	result, checked, err := checkIn(ctx, world, t.Task)
	if checked && err == nil {
		t.Check = &result
	}
	return err
}

func (r Rollout) user() User {
	if r.User == nil {
		return Silent{}
	}
	return r.User
}

// act asks ACT for its next output.
func (r Rollout) act(ctx context.Context, t *Trajectory, seed uint64, limits Limits) (Act, error) {
	output, err := r.Policy.Generate(ctx, Request{Transcript: &t.Transcript, Role: audit.ActRole, Seed: seed, Greedy: r.Greedy, Max: limits.Response})
	if errors.Is(err, ErrPrompt) {
		t.Stop = StopPrompt
		return Act{}, nil
	}
	if err != nil {
		return Act{}, fmt.Errorf("act on task %s: %w", t.Task.ID, err)
	}
	act := r.ReadAct(output)
	t.Items = append(t.Items, Item{Act: &act})
	switch {
	case output.Truncated:
		t.Stop = StopTruncated
	case len(act.Calls) == 0 && act.Fault != FaultNone:
		t.Stop = StopMalformed
	}
	return act, nil
}

// answer has the calls of one ACT output answered in order.
func (r Rollout) answer(ctx context.Context, t *Trajectory, world World, calls []audit.Call, seeds *rand.Rand, limits Limits) error {
	for i, call := range calls {
		seed := seeds.Uint64()
		if i >= limits.ParallelCalls {
			t.Dropped++
			refusal := Refusal(audit.Limit, fmt.Sprintf("at most %d calls at once are made", limits.ParallelCalls))
			t.Items = append(t.Items, Item{Answer: &Answer{Call: call, Raw: refusal, Dropped: true}})
			continue
		}
		answer, err := world.Answer(ctx, &t.Transcript, call, seed)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrPrompt):
			t.Stop = StopPrompt
			return nil
		case errors.Is(err, ErrWorld):
			t.Stop, t.Err = StopWorld, err
			return nil
		case err != nil:
			return fmt.Errorf("answer call %d of task %s: %w", i+1, t.Task.ID, err)
		}
		t.Items = append(t.Items, Item{Answer: &answer})
		if r.Errors == ErrorTerminate && answer.Rehearsal != nil && r.refused(call.Tool, answer.Raw) {
			t.Stop = StopErrorReply
			return nil
		}
	}
	return nil
}

// refused says whether an answer is a domain error.
func (r Rollout) refused(tool string, raw []byte) bool {
	return r.Rules.Of(tool).Read(raw).Outcome.Class == audit.Failed
}
