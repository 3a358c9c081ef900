package dashboard

import (
	"context"
	"sync"
	"time"

	"understudy/audit"
)

// liveState is what a page of a run depends on.
type liveState struct {
	moves    int64
	state    audit.RunState
	computed time.Time
}

// watches looks at each run that somebody watches once a livePeriod, however
// many do. It is safe for concurrent use.
type watches struct {
	read func(ctx context.Context, run string) (liveState, error)

	mu   sync.Mutex
	runs map[string]*watch
}

// watch is one run under watch. Its fields belong to the mutex of watches.
type watch struct {
	viewers int
	stop    context.CancelFunc
	done    chan struct{}
	moved   chan struct{} // closed at the next change
	state   liveState
	err     error // the run could not be read: the watch has ended
}

// join begins to watch a run; leave must follow.
func (w *watches) join(ctx context.Context, run string) (*watch, error) {
	state, err := w.read(ctx, run)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.runs[run]
	if at == nil {
		at = &watch{done: make(chan struct{}), moved: make(chan struct{}), state: state}
		watching, stop := context.WithCancel(context.WithoutCancel(ctx))
		at.stop = stop
		if w.runs == nil {
			w.runs = make(map[string]*watch)
		}
		w.runs[run] = at
		go w.look(watching, run, at)
	}
	at.viewers++
	return at, nil
}

// leave ends one viewer's watch; the last one waits until nobody looks any more.
func (w *watches) leave(run string, at *watch) {
	w.mu.Lock()
	at.viewers--
	last := at.viewers == 0
	if last && w.runs[run] == at {
		delete(w.runs, run)
	}
	w.mu.Unlock()
	if last {
		at.stop()
		<-at.done
	}
}

// now is what a watch last saw, and the channel that is closed when that changes.
func (w *watches) now(at *watch) (state liveState, moved <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return at.state, at.moved, at.err
}

func (w *watches) look(ctx context.Context, run string, at *watch) {
	defer close(at.done)
	tick := time.NewTicker(livePeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		state, err := w.read(ctx, run)
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		if err != nil || state != at.state {
			at.state, at.err = state, err
			close(at.moved)
			at.moved = make(chan struct{})
		}
		if err != nil && w.runs[run] == at {
			delete(w.runs, run) // who comes back begins a new one
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}
