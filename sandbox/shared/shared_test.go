package shared_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"understudy/audit"
	"understudy/audit/leaktest"
	"understudy/sandbox/shared"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// world is an environment that counts how often it was closed.
type world struct {
	audit.Environment
	closed atomic.Int32
	err    error
}

func (w *world) Close() error {
	w.closed.Add(1)
	return w.err
}

func TestOneOpensAndAllShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e shared.Environments
		var opened atomic.Int32
		gate, w := make(chan struct{}), &world{}
		open := func(context.Context) (audit.Environment, error) {
			opened.Add(1)
			<-gate
			return w, nil
		}
		var callers sync.WaitGroup
		for range 5 {
			callers.Go(func() {
				if got, err := e.Environment(t.Context(), "slow", open); got != w || err != nil {
					t.Errorf("got %v, %v", got, err)
				}
			})
		}
		synctest.Wait() // one opens, four wait
		other := &world{}
		if got, err := e.Environment(t.Context(), "other", func(context.Context) (audit.Environment, error) { return other, nil }); got != other || err != nil {
			t.Errorf("another one, meanwhile: %v, %v", got, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		impatient := errors.New("impatient")
		cancel(impatient)
		if _, err := e.Environment(ctx, "slow", open); !errors.Is(err, impatient) {
			t.Errorf("who does not wait: %v", err)
		}
		close(gate)
		callers.Wait()
		if opened.Load() != 1 {
			t.Errorf("opened %d times", opened.Load())
		}
		if err := e.Close(); err != nil || w.closed.Load() != 1 || other.closed.Load() != 1 || e.Len() != 0 {
			t.Errorf("closed %d and %d times, %v, %d left", w.closed.Load(), other.closed.Load(), err, e.Len())
		}
	})
}

// The first caller's cancelled context is not the fate of those that wait behind it.
func TestWhatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e shared.Environments
		w := &world{}
		open := func(ctx context.Context) (audit.Environment, error) {
			if ctx == t.Context() {
				return w, nil
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		first, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, err := e.Environment(first, "w", open); !errors.Is(err, context.Canceled) {
				t.Errorf("the first: %v", err)
			}
		})
		synctest.Wait()
		callers.Go(func() {
			if got, err := e.Environment(t.Context(), "w", open); got != w || err != nil {
				t.Errorf("the second: %v, %v", got, err)
			}
		})
		synctest.Wait()
		cancel()
		callers.Wait()
		w.err = errors.New("it will not go")
		if err := e.Close(); !errors.Is(err, w.err) {
			t.Errorf("closing: %v", err)
		}
	})
}

func TestNamesThatDoNotExistDoNotStay(t *testing.T) {
	t.Parallel()
	var e shared.Environments
	for i := range 100 {
		_, err := e.Environment(t.Context(), fmt.Sprint("nowhere ", i), func(context.Context) (audit.Environment, error) { return nil, errors.New("no such place") })
		if err == nil {
			t.Fatal("no error")
		}
	}
	if n := e.Len(); n != 0 {
		t.Errorf("%d names stay", n)
	}
}

// Close waits for what is being opened, and closes it.
func TestCloseWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e shared.Environments
		gate, w := make(chan struct{}), &world{}
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, err := e.Environment(t.Context(), "w", func(context.Context) (audit.Environment, error) { <-gate; return w, nil }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		callers.Go(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		close(gate)
		callers.Wait()
		if w.closed.Load() != 1 || e.Len() != 0 {
			t.Errorf("closed %d times, %d stay", w.closed.Load(), e.Len())
		}
	})
}
