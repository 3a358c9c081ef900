package starlark

import (
	"context"
	"errors"
	"fmt"
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
	timer  *time.Timer
}

const runKey = "run"

func (d *Domain) newRun(steps uint64) *run {
	r := &run{domain: d, thread: &starlark.Thread{Name: d.Manifest.Name}}
	r.thread.Print = func(*starlark.Thread, string) {} // a domain has nobody to print to
	r.thread.SetMaxExecutionSteps(steps)
	r.thread.SetLocal(runKey, r)
	return r
}

// within runs f so that neither the wall clock nor the caller's patience is exceeded.
func (r *run) within(ctx context.Context, wall time.Duration, f func() error) error {
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { r.thread.Cancel("the caller cancelled") })
		defer stop()
	}
	r.timer = time.AfterFunc(wall, func() { r.thread.Cancel(fmt.Sprintf("time limit of %v", wall)) })
	defer r.finish()
	return f()
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
