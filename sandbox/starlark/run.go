package starlark

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.starlark.net/starlark"

	"understudy/audit"
	"understudy/sandbox/state"
)

// run is one execution of domain code: its thread, its transaction (nil while a
// file loads or a state is generated) and what it may still use.
type run struct {
	domain *Domain
	thread *starlark.Thread
	tx     *state.Tx
	role   string
	bytes  int64 // charged so far
	steps  uint64
	toiled int                    // sixteenths of a step that are not charged yet
	halted atomic.Pointer[string] // why the run is cancelled
	wall   time.Duration          // that timer allows
	timer  *time.Timer
	giveUp func() // when the caller does
	idle   bool   // it ended, and nobody may cancel it any more
	answer []byte // memory in which answers are written
}

const runKey = "run"

// newRun takes a run that another call has finished with, or makes one.
func (d *Domain) newRun(steps uint64) *run {
	r, ok := d.runs.Get().(*run)
	if !ok {
		r = &run{domain: d, thread: &starlark.Thread{Name: d.Manifest.Name}}
		r.thread.SetLocal(runKey, r)
		r.giveUp = func() { r.halt("the caller cancelled") }
	}
	r.steps, r.thread.Steps = steps, 0
	r.thread.SetMaxExecutionSteps(steps)
	return r
}

// maxKeptAnswer is more than most answers take, and little for an idle run to hold.
const maxKeptAnswer = 16 << 10

// release lets another call have the run, unless somebody may still cancel it:
// that would hit the other call.
func (r *run) release() {
	if !r.idle {
		return
	}
	if cap(r.answer) > maxKeptAnswer {
		r.answer = nil
	}
	r.tx, r.role, r.bytes, r.toiled, r.idle = nil, "", 0, 0, false
	r.halted.Store(nil)
	r.thread.Uncancel() // it cancels itself when its steps are used up
	r.domain.runs.Put(r)
}

// within runs f so that neither the wall clock nor the caller's patience is
// exceeded, and contains its panics. Nothing of the run can write afterwards.
func (r *run) within(ctx context.Context, wall time.Duration, f func() error) error {
	defer r.finish()
	forget := func() bool { return true }
	if ctx.Done() != nil {
		forget = context.AfterFunc(ctx, r.giveUp)
	}
	if r.wall = wall; r.timer == nil {
		r.timer = time.AfterFunc(wall, func() { r.halt(fmt.Sprintf("time limit of %v", r.wall)) })
	} else {
		r.timer.Reset(wall)
	}
	err := contain(f)
	inTime, wanted := r.timer.Stop(), forget()
	_, panicked := errors.AsType[*panicError](err)
	r.idle = inTime && wanted && !panicked
	return err
}

func (r *run) halt(reason string) {
	r.halted.Store(&reason)
	r.thread.Cancel(reason)
}

// toil charges work that no step of the interpreter pays for, in sixteenths of a
// step: loops of built-in functions end with the steps, and see a cancellation,
// as the interpreter does.
func (r *run) toil(sixteenths int) error {
	r.toiled += sixteenths
	if r.toiled < 16 {
		return nil
	}
	r.thread.Steps += uint64(r.toiled / 16)
	r.toiled %= 16
	if reason := r.halted.Load(); reason != nil {
		return errors.New(*reason)
	}
	if r.thread.Steps > r.steps {
		return errSteps
	}
	return nil
}

// finish ends the run: nothing of it can write or be cancelled any more.
func (r *run) finish() {
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.tx != nil {
		r.tx.Close()
	}
}

func runOf(thread *starlark.Thread) *run { return thread.Local(runKey).(*run) }

// world returns the live root of the state, or an error where there is none.
func (r *run) world(who string) (*state.Map, error) {
	if r.tx == nil {
		return nil, fmt.Errorf("%s: there is no state yet while it is generated", who)
	}
	return r.tx.Root(), nil
}

// refusal is the error of error(family, message, **details): a business rule said no.
type refusal struct {
	family  audit.Family
	message string
	details starlark.Value // frozen object, or nil
}

func (e *refusal) Error() string { return e.message }

func asRefusal(err error) (*refusal, bool) { return errors.AsType[*refusal](err) }

// faultText is a domain's failure with the place in its text.
func faultText(err error) string {
	e, ok := errors.AsType[*starlark.EvalError](err)
	if !ok {
		return err.Error()
	}
	return fmt.Sprintf("%s: %s", evalPosition(e), e.Msg)
}
